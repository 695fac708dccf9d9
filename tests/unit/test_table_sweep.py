"""The search tells what is left of the erased from what others say, and hides nothing."""

import json
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.erasing.sweep import Sweep, check_searchable, sweep
from memorypipe.table.erasing.targets import Targets

GONE, OTHER = {"user_id": "person-1"}, {"user_id": "person-2"}
GONE_KEY, OTHER_KEY = ids.scope_key(GONE), ids.scope_key(OTHER)
TEXT = "Keeps a secret in Zanzibar"


def search(folder: Path, *texts: str, request: EraseRequest | None = None) -> Sweep:
    targets = Targets.of([request or EraseRequest(scope=GONE)])
    return sweep([str(folder)], targets, texts or (TEXT,), journals=())


def write_rows(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)


def left(found: Sweep) -> list[tuple[str, int, int]]:
    return [(Path(each.path).name, each.rows, each.texts) for each in found.left]


def test_a_row_of_the_scope_is_left_whatever_it_says(tmp_path: Path) -> None:
    write_rows(tmp_path / "data" / "a.parquet", {"scope_key": GONE_KEY, "text": "x"})
    found = search(tmp_path)
    assert left(found) == [("a.parquet", 1, 1)]
    assert (found.files, found.tables, found.rows) == (1, 1, 1)


def test_what_others_say_too_is_not_left_but_counted(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", {"scope_key": OTHER_KEY, "text": f"{TEXT}!"})
    found = search(tmp_path)
    assert (left(found), found.shared, found.texts) == ([], 1, 2)


@pytest.mark.parametrize(
    "row",
    [
        {"scope_key": "", "text": TEXT},
        {"scope_key": None, "text": TEXT},
        {"text": TEXT},
        {"scope_key": OTHER_KEY, "record_type": "run", "text": TEXT},
    ],
    ids=["blank scope", "no scope", "no scope column", "a row of the table's own"],
)
def test_a_text_in_a_row_of_nobody_is_left(tmp_path: Path, row: dict[str, Any]) -> None:
    write_rows(tmp_path / "a.parquet", row)
    assert left(search(tmp_path)) == [("a.parquet", 0, 1)]


def test_values_are_found_that_no_byte_search_sees(tmp_path: Path) -> None:
    rows = pa.table({"text": [f"{TEXT} {number}" for number in range(100)]})
    path = tmp_path / "a.parquet"
    pq.write_table(rows, path, use_dictionary=False, compression="gzip", write_statistics=False)
    assert TEXT.encode() not in path.read_bytes()
    assert left(search(tmp_path)) == [("a.parquet", 0, 1)]


def test_beside_the_table_rows_go_as_evidence_and_in_it_only_the_memory(tmp_path: Path) -> None:
    request = EraseRequest(memory_id="mem_0001", scope=GONE)
    rows = [{"scope_key": GONE_KEY, "memory_id": name} for name in ("mem_0001", "mem_0002")]
    write_rows(tmp_path / "data" / "a.parquet", *rows)
    write_rows(tmp_path / "runs" / "r1" / "b.parquet", *rows)
    found = {name: rows for name, rows, _ in left(search(tmp_path, request=request))}
    assert found == {"a.parquet": 1, "b.parquet": 2}


@pytest.mark.parametrize(
    ("scope_key", "expected"),
    [(GONE_KEY, [("s.jsonl", 1, 2)]), (OTHER_KEY, []), (None, [("s.jsonl", 0, 1)])],
    ids=["the scope's", "another's", "nobody's"],
)
def test_lines_of_journals_count_by_whose_they_are(
    tmp_path: Path, scope_key: str | None, expected: list[Any]
) -> None:
    content = json.dumps({"facts": [TEXT]})
    line = {"key": "0" * 32, "usable": True, "scope_key": scope_key, "reply": {"content": content}}
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "s.jsonl").write_bytes(orjson.dumps(line) + b"\n")
    assert left(search(tmp_path)) == expected


def test_any_file_is_searched_and_what_is_no_table_is_told(tmp_path: Path) -> None:
    for name in ("a.lance", "b.parquet", "c.bin"):
        (tmp_path / name).write_bytes(b"\x00" * 100 + TEXT.encode())
    found = search(tmp_path)
    assert [name for name, *_ in left(found)] == ["a.lance", "b.parquet", "c.bin"]
    assert [Path(path).name for path in found.unreadable] == ["a.lance", "b.parquet"]


def test_where_nothing_is_nothing_is_found(tmp_path: Path) -> None:
    found = search(tmp_path / "none")
    assert (found.files, found.left, found.unreadable) == (0, [], [])


def test_what_is_too_short_to_be_searched_is_counted(tmp_path: Path) -> None:
    found = search(tmp_path, "tea", "run", TEXT)
    assert (found.texts, found.too_short) == (2, 2)


@pytest.mark.parametrize("place", ["memory://table", "az://container/table"])
def test_a_place_whose_files_cannot_be_read_is_refused_before_anything(place: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"'{place}'.*Nothing was erased"):
        check_searchable([place])


def test_a_folder_can_be_searched_even_before_it_is_made(tmp_path: Path) -> None:
    check_searchable([str(tmp_path), str(tmp_path / "new")])
