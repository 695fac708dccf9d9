import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.errors import LogFormatError
from memorypipe.logs.files import read_records
from memorypipe.logs.records import Record

ROW = {"uid": "u1", "text": 'She said "tea",\nthen left; ok|', "n": "1"}


def write(place: Path, content: str | bytes, name: str) -> Path:
    path = place / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(place: Path, content: str | bytes, name: str = "log.csv", **options: Any) -> list[Record]:
    return list(read_records(write(place, content, name), **options))


def zstd(raw: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


CSV = 'uid,text,n\n"u1","She said ""tea"",\nthen left; ok|",1\nu2,Hi,\n'
VALUES = [ROW, {"uid": "u2", "text": "Hi", "n": None}]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.csv", CSV),
        ("log.CSV", "\ufeff" + CSV.replace("\n", "\r\n").replace(",\r\nthen", ",\nthen")),
        ("log.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("log.csv.zst", zstd(CSV.encode())),
        ("log.csv", CSV.encode("utf-16")),
        ("log.tsv", 'uid\ttext\tn\nu1\t"She said ""tea"",\nthen left; ok|"\t1\nu2\tHi\t\n'),
        ("log.csv", 'uid ; text;n\nu1;"She said ""tea"",\nthen left; ok|";1\n\nu2;Hi;\n'),
    ],
)
def test_csv_is_read_by_its_header_whatever_parts_packs_and_encodes_it(
    tmp_path: Path, name: str, content: str | bytes
) -> None:
    assert [record.value for record in read(tmp_path, content, name)] == VALUES


def test_a_file_that_begins_like_no_json_is_csv_where_a_mapping_says_what_is_where(
    tmp_path: Path,
) -> None:
    assert [r.value for r in read(tmp_path, CSV, "log", is_mapped=True)] == VALUES
    assert read(tmp_path, CSV, "log")[0].problem is not None


def test_bad_rows_have_the_number_of_their_line_and_the_others_are_read(tmp_path: Path) -> None:
    content = b'uid,text\nu1,"two\nlines"\nu2\nu3,a,b\nu4,\xff\n\nu5,Hi\n'
    records = read(tmp_path, content)
    assert [(record.line, record.problem is None) for record in records] == [
        (2, True),
        (4, False),
        (5, False),
        (6, False),
        (8, True),
    ]
    assert records[1].problem == "The row has 1 cells, the first line names 2 columns."
    assert records[3].problem == "Not UTF-8."
    assert records[1].reject("why").excerpt == "u2"


def test_a_cell_of_megabytes_is_read(tmp_path: Path) -> None:
    text = "word " * 400_000
    assert read(tmp_path, f"uid,text\nu1,{text}\n")[0].value == {"uid": "u1", "text": text}


@pytest.mark.parametrize("header", ["a,a", "a,,b"])
def test_a_header_that_does_not_name_each_column_is_an_error(tmp_path: Path, header: str) -> None:
    with pytest.raises(LogFormatError, match="must name each column once"):
        read(tmp_path, f"{header}\n1,2\n")


def test_an_empty_table_has_no_records(tmp_path: Path) -> None:
    assert read(tmp_path, "") == []
    assert read(tmp_path, "uid,text\n") == []


def test_parquet_is_known_by_its_content(tmp_path: Path) -> None:
    rows = [{"uid": n, "log": [{"role": "user", "content": f"{n}"}]} for n in range(600)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log")
    records = list(read_records(tmp_path / "log"))
    assert [record.value for record in records] == rows
    assert [record.line for record in records] == list(range(1, 601))


def test_a_damaged_parquet_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match=r"log\.pq"):
        read(tmp_path, b"PAR1 and no more", "log.pq")


def test_a_zip_archive_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match="unpack it"):
        read(tmp_path, b"PK\x03\x04rest", "export.zip")


LINES = "".join(f'{{"n": {n}, "pad": "{n * 7919 % 1009}"}}\n' for n in range(3000))


@pytest.mark.parametrize(
    "content",
    [LINES, zstd(LINES.encode()), LINES.encode("utf-16"), "\ufeff" + LINES.replace("\n", "\r\n")],
)
def test_json_lines_are_read_whatever_packs_and_encodes_them(
    tmp_path: Path, content: str | bytes
) -> None:
    assert [r.value for r in read(tmp_path, content, "log", is_mapped=True)] == [
        json.loads(line) for line in LINES.splitlines()
    ]


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_a_compressed_file_that_is_cut_is_read_up_to_there(tmp_path: Path, pack: Any) -> None:
    records = read(tmp_path, pack(LINES.encode() * 20)[:-40], "log", is_mapped=True)
    assert [record.problem is None for record in records[:3]] == [True] * 3
    assert "damaged or cut" in str(records[-1].problem)


def test_a_document_of_rows_is_taken_apart_under_a_mapping(tmp_path: Path) -> None:
    """Rows with a role each are no conversation there."""
    rows = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    for text in (json.dumps(rows), json.dumps(rows, indent=1)):
        assert [r.value for r in read(tmp_path, text, "log", is_mapped=True)] == rows
        assert [r.value for r in read(tmp_path, text, "log")] == [rows]
