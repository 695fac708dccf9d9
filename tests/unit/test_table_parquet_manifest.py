"""The manifest of a Parquet table: what it says, and how scopes find their bucket."""

from dataclasses import replace

import pyarrow as pa
import pytest

from memorypipe.errors import TableError, TableVersionError
from memorypipe.table.parquet.manifest import (
    HASHES,
    DataFile,
    Manifest,
    manifest_name,
    scope_hash,
    scope_hashes,
    version_of,
)
from memorypipe.table.records import Head, Settings, head_row
from tests.support.table_actions import START

HEAD = Head(
    number=3,
    committed_at=START,
    created_at=START,
    vector_dim=4,
    settings=Settings(revision_ttl_days=7),
)
FILE = DataFile(name="data/a.parquet", kind="current", bucket=0, rows=5, size_bytes=99)


def manifest(*bounds: int) -> Manifest:
    (row,) = head_row(HEAD).select(["revision", "valid_from", "payload"]).to_pylist()
    return Manifest(version=12, token="t", head_row=row, bounds=(0, *bounds), files=(FILE,))


def test_what_is_written_is_read_back() -> None:
    again = Manifest.decode(manifest(7).encode(), "place")
    assert again == manifest(7)
    assert again.head == HEAD


def test_names_of_manifests_sort_as_versions_do() -> None:
    names = [manifest_name(version) for version in (1, 2, 9, 10, 999, 1000, 10**12)]
    assert names == sorted(names)
    assert [version_of(name) for name in names] == [1, 2, 9, 10, 999, 1000, 10**12]


@pytest.mark.parametrize("name", ["manifests/.ab.tmp", "manifests/7.json", "notes", ""])
def test_what_is_no_manifest_has_no_version(name: str) -> None:
    assert version_of(name) is None


def test_hashes_of_scopes_never_change() -> None:
    assert scope_hash('[["user_id","u1"]]') == 2133494498
    assert scope_hash("[]") == 223132457


def test_a_column_is_hashed_as_its_values_are() -> None:
    keys = ["b", "a", "b", "ü", ""]
    column = pa.chunked_array([keys[:2], keys[2:]])
    assert scope_hashes(column).tolist() == [scope_hash(key) for key in keys]
    assert scope_hashes(pa.chunked_array([], pa.string())).tolist() == []


def test_each_hash_has_the_bucket_whose_range_it_lies_in() -> None:
    key = "[]"
    own = scope_hash(key)
    for bounds, bucket, end in [
        ((), 0, HASHES),
        ((own,), own, HASHES),
        ((own + 1,), 0, own + 1),
        ((5, own, own + 1), own, own + 1),
    ]:
        one = manifest(*bounds)
        assert (one.bucket(key), one.end(bucket)) == (bucket, end)
        assert one.buckets(scope_hashes(pa.chunked_array([[key]]))).tolist() == [bucket]


def test_a_manifest_of_a_later_format_asks_for_a_newer_library() -> None:
    with pytest.raises(TableVersionError, match="upgrade memorypipe"):
        Manifest.decode(manifest().encode().replace(b'"format":1', b'"format":2'), "place")


def test_what_is_no_manifest_is_refused() -> None:
    for data in (b"", b"[]", b"null", b'{"format":1}', manifest().encode()[:-20]):
        with pytest.raises(TableError, match="'place' cannot be read"):
            Manifest.decode(data, "place")


def test_two_manifests_of_the_same_files_differ_by_their_token() -> None:
    assert replace(manifest(), token="u").encode() != manifest().encode()
