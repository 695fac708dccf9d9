import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.files import find_files, read_records
from memorypipe.logs.records import Record

CHAT = {"messages": [{"role": "user", "content": "Hi"}], "user_id": "u1"}
LINE = json.dumps(CHAT)


def write(place: Path, content: str | bytes, name: str = "log") -> Path:
    path = place / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(place: Path, content: str | bytes) -> list[Record]:
    return list(read_records(write(place, content)))


def values(records: list[Record]) -> list[Any]:
    return [record.value for record in records]


@pytest.mark.parametrize(
    "content",
    [
        f"{LINE}\n{LINE}",
        f"\ufeff{LINE}\r\n\r\n{LINE}\r\n",
        gzip.compress(f"{LINE}\n{LINE}\n".encode(), mtime=0),
        json.dumps([CHAT, CHAT]),
        json.dumps([CHAT, CHAT], indent=2),
        f"[\n{LINE},\n{LINE}\n]",
        f"[{LINE},\n{LINE}]",
        gzip.compress(json.dumps([CHAT, CHAT]).encode(), mtime=0),
    ],
)
def test_lines_and_documents_give_the_same_records(tmp_path: Path, content: str | bytes) -> None:
    assert values(read(tmp_path, content)) == [CHAT, CHAT]


def test_a_document_of_one_item_within_lines_of_its_own_is_a_document(tmp_path: Path) -> None:
    assert values(read(tmp_path, f"[\n{LINE}\n]")) == [CHAT]


@pytest.mark.parametrize("indent", [None, 1])
def test_items_of_a_document_are_numbered(tmp_path: Path, indent: int | None) -> None:
    records = read(tmp_path, json.dumps([CHAT, 3, CHAT], indent=indent))
    assert [record.line for record in records] == [1, 2, 3]


def test_a_bare_array_of_messages_per_line_is_one_conversation_each(tmp_path: Path) -> None:
    line = json.dumps(CHAT["messages"])
    assert values(read(tmp_path, f"{line}\n{line}")) == [CHAT["messages"]] * 2


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    assert read(tmp_path, "\n \n") == []


def test_a_bad_line_keeps_its_number_and_text_and_the_others_are_read(tmp_path: Path) -> None:
    records = read(tmp_path, f"{LINE}\n\n{{cut\n{LINE}")
    assert [record.line for record in records] == [1, 3, 4]
    assert values(records) == [CHAT, None, CHAT]
    reject = records[1].reject(records[1].problem or "")
    assert reject.reason.startswith("Not JSON")
    assert (reject.line, reject.excerpt) == (3, "{cut")


def test_a_bad_first_line_does_not_hide_the_rest(tmp_path: Path) -> None:
    records = read(tmp_path, f"{LINE[:20]}\n{LINE}\n{LINE}")
    assert [record.problem is None for record in records] == [False, True, True]


def test_a_line_that_is_not_utf8_is_a_problem_of_its_own(tmp_path: Path) -> None:
    records = read(tmp_path, LINE.encode() + b'\n{"a": "\xff"}\n' + LINE.encode())
    assert [record.problem for record in records] == [None, "Not UTF-8 (byte 7).", None]


def test_a_document_that_is_cut_is_a_problem_per_line(tmp_path: Path) -> None:
    records = read(tmp_path, '[\n{"messages": [')
    assert [record.line for record in records if record.problem] == [1, 2]


def test_an_escaped_lone_surrogate_does_not_cost_the_line(tmp_path: Path) -> None:
    records = read(tmp_path, f'{{"messages": "\\ud800"}}\n{LINE}')
    assert records[0].value == {"messages": "\ud800"}
    assert records[0].reject("why").excerpt.startswith('{"messages"')


def test_nesting_without_end_is_a_problem(tmp_path: Path) -> None:
    records = read(tmp_path, f"{LINE}\n{'[' * 200_000}")
    assert records[1].problem is not None


def test_an_excerpt_is_short_and_storable() -> None:
    long = Record(source="s", line=1, value={"a": "\x00é" * 500, "b": [object()], "c": 2**90})
    assert len(long.reject("why").excerpt) == 200
    assert "\x00" not in long.reject("why").excerpt
    raw = Record(source="s", line=1, value=None, raw="é".encode() * 500)
    assert raw.reject("why").excerpt == "é" * 200


def test_a_directory_means_its_visible_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    names = ["b.jsonl", "a.jsonl", "sub/c.jsonl", ".hidden", "_SUCCESS", ".git/config"]
    for name in names:
        write(tmp_path, LINE, name)
    assert find_files(tmp_path) == [
        tmp_path / name for name in ("a.jsonl", "b.jsonl", "sub/c.jsonl")
    ]
    assert find_files(f"{tmp_path}/*.jsonl") == [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    assert find_files(str(tmp_path / "b.jsonl")) == [tmp_path / "b.jsonl"]


@pytest.mark.parametrize("name", ["missing.jsonl", "*.jsonl"])
def test_a_path_without_files_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="No file at") as caught:
        find_files(tmp_path / name)
    assert name in str(caught.value)
