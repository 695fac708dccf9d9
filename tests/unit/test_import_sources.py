"""The files of another store's export, record by record."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.pipeline.imports.sources import parquet_embedder, read_export

_ROWS = [{"id": "a"}, {"id": "b"}]


def _values(path: Path, source: str = "jsonl") -> list[object]:
    return [record.value for record in read_export(str(path), source)]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(map(json.dumps, _ROWS)),
        "\ufeff" + "\n\n".join(map(json.dumps, _ROWS)) + "\n",
        json.dumps(_ROWS),
        json.dumps(_ROWS, indent=1),
        json.dumps({"count": 2, "next": None, "results": _ROWS}),
        json.dumps({"memories": _ROWS}, indent=2),
    ],
    ids=["lines", "lines with a mark", "list", "indented list", "results", "indented memories"],
)
def test_lines_lists_and_the_answers_of_stores_give_their_records(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "export.json"
    path.write_text(text, encoding="utf-8")
    assert _values(path, "mem0") == _ROWS


def test_a_single_line_with_a_record_is_that_record(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text('{"id": "a", "text": "Likes tea"}')
    assert _values(path) == [{"id": "a", "text": "Likes tea"}]


def test_a_line_that_is_no_json_is_a_record_with_its_number_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text('{"id": "a"}\n{"id": \n{"id": "b"}\n')
    first, broken, last = read_export(str(path), "jsonl")
    assert (first.value, last.value, last.line) == ({"id": "a"}, {"id": "b"}, 3)
    assert broken.line == 2
    assert "Not JSON" in (broken.problem or "")


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "export.jsonl").touch()
    assert _values(tmp_path / "export.jsonl") == []


def test_rows_of_all_parquet_files_of_a_folder_come_in_order(tmp_path: Path) -> None:
    for name, row in zip("ab", _ROWS, strict=True):
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"{name}.parquet")
    assert _values(tmp_path, "parquet") == _ROWS
    assert parquet_embedder(str(tmp_path)) is None


def test_what_is_no_parquet_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}")
    with pytest.raises(LogFormatError, match="no Parquet file; import JSON with --from"):
        _values(tmp_path / "x.jsonl", "parquet")
    with pytest.raises(InvalidArgumentError, match="nowhere"):
        _values(tmp_path / "nowhere.jsonl")
