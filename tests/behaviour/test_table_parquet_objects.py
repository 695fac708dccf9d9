"""A Parquet table in an object store: in memory, and on S3 as far as a server on loopback goes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pyarrow as pa
import pytest

from memorypipe.errors import TableError, TableNotFoundError
from memorypipe.schema import table_schema
from memorypipe.table.parquet.files import DataFiles, publish
from memorypipe.table.parquet.objects import Objects
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.records import head_row
from memorypipe.table.storage import RaceLostError, UnknownOutcomeError, Where
from memorypipe.table.table import MemoryTable
from tests.support.s3 import make_bucket, serve
from tests.support.stored_rows import DIM, store, stored_rows
from tests.support.table_actions import (
    START,
    SteppingClock,
    actions,
    add,
    ledger,
    ledger_key,
    minted,
    update,
)

pytest.importorskip("obstore")
moto_server = pytest.importorskip("moto.server")

NONE = pa.array([], pa.uint64())


@pytest.fixture
def memory() -> str:
    return f"memory://{uuid4().hex}/tables/t"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    yield from serve(moto_server)


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return f"{make_bucket(endpoint, monkeypatch)}/runs/table"


def texts(storage: ParquetStorage) -> list[str]:
    return sorted(storage.snapshot().scan(["text"], Where())["text"].to_pylist())


def put(storage: ParquetStorage, text: str) -> None:
    """Commit one row, again and again until it lands."""
    while True:
        snapshot = storage.snapshot()
        head = head_row(snapshot.head.after_commit(snapshot.head.committed_at))
        rows = stored_rows([text], [{"user_id": text}])
        try:
            snapshot.commit(closed=NONE, rows=rows, head=head)
        except RaceLostError:
            continue
        return


def test_commits_are_seen_by_all_who_open_the_address(memory: str) -> None:
    storage = ParquetStorage(memory)
    with pytest.raises(TableNotFoundError):
        storage.snapshot()
    store(storage, stored_rows(["a", "b"], [{"user_id": "u"}, {}]))
    other = ParquetStorage(memory)
    put(other, "c")
    assert texts(storage) == texts(other) == ["a", "b", "c"]


def test_of_writers_at_once_none_is_lost_and_none_doubled(memory: str) -> None:
    store(ParquetStorage(memory), table_schema(DIM).empty_table())
    names = [f"text {number}" for number in range(24)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: put(ParquetStorage(memory), name), names))
    storage = ParquetStorage(memory)
    assert texts(storage) == sorted(names)
    assert storage.snapshot().head.number == 24


def test_maintenance_leaves_the_rows_and_nothing_else(memory: str) -> None:
    storage = ParquetStorage(memory)
    store(storage, stored_rows(["a"], [{}]))
    for name in "bcd":
        put(storage, name)
    objects = Objects(memory)
    objects.write("data/current-dead.parquet", b"half")
    storage.clean(older_than=timedelta(hours=1))
    assert objects.identity("data/current-dead.parquet") is not None
    storage.optimize()
    storage.purge()
    assert len(objects.listing("data")) == len(storage.snapshot().manifest.files) == 1
    assert len(objects.listing("manifests")) == 1
    assert texts(storage) == list("abcd")


def test_a_commit_on_a_version_that_is_gone_does_not_land(memory: str) -> None:
    storage = ParquetStorage(memory)
    store(storage, stored_rows(["a"], [{}]))
    late = storage.snapshot()
    manifest = replace(late.manifest, version=late.manifest.version + 1, token="late")
    put(storage, "b")
    storage.purge()
    # Its number is free again, and others have looked for it.
    with pytest.raises(UnknownOutcomeError):
        publish(DataFiles(Objects(memory), memory), late.manifest, manifest, ())
    assert len(Objects(memory).listing("manifests")) == 1
    assert texts(ParquetStorage(memory)) == texts(storage) == ["a", "b"]


def test_a_table_has_its_ledger_where_its_rows_are(memory: str) -> None:
    table = MemoryTable.open(memory, backend="parquet", embedder="none", clock=SteppingClock())
    assert table.commit(actions(), run_id="r1", ledger=ledger("m1", "m2")).outcome == "landed"
    table.commit(actions(add("Likes tea")), run_id="r2", ledger=ledger("m3"))
    objects = Objects(memory)
    assert len(objects.listing("ledger")) == 2
    objects.write("ledger/left.parquet", b"of a commit that failed")
    again = MemoryTable.open(memory, clock=SteppingClock(START + timedelta(days=9999)))
    assert len(again.ledger_keys()) == 3
    assert again.vacuum().ledgers == 1
    assert table.undo("r1", reopen=True).outcome == "landed"
    assert table.ledger_keys().to_pylist() == [ledger_key("m3")]


def test_a_name_is_given_once_and_its_taker_is_known_by_what_it_wrote(memory: str) -> None:
    objects = Objects(memory)
    assert objects.create("manifests/1", b"mine")
    # As when the answer to the first put was lost and the client put it again.
    assert objects.create("manifests/1", b"mine")
    assert not objects.create("manifests/1", b"other")
    assert objects.read("manifests/1") == b"mine"


def test_a_table_on_s3_takes_commits_with_their_ledger_and_a_mirror(s3: str) -> None:
    table = MemoryTable.open(
        s3, backend="parquet", vector_dim=DIM, mirror=f"{s3}-mirror", clock=SteppingClock()
    )
    table.commit(actions(add("Likes tea")), run_id="r1", ledger=ledger("m1"))
    again = MemoryTable.open(s3, clock=SteppingClock())
    again.commit(actions(update(minted("Likes tea"), "Likes coffee")), run_id="r2")
    assert table.to_arrow(columns=["text"])["text"].to_pylist() == ["Likes coffee"]
    assert (table.version, len(again.ledger_keys())) == (2, 1)
    table.commit(actions(add("Runs")), run_id="r3")
    assert list(Objects(f"{s3}-mirror").listing("")) == ["memories.parquet"]


def test_a_bucket_that_is_not_there_is_one_clear_error(s3: str) -> None:
    storage = ParquetStorage(s3.replace("bucket", "nobucket"))
    with pytest.raises(TableError, match="cannot be read") as caught:
        storage.snapshot()
    assert len(str(caught.value)) < 400
    with pytest.raises((OSError, UnknownOutcomeError)):
        Objects(s3.replace("bucket", "nobucket")).create("manifests/1", b"")


def test_an_address_that_no_store_has_is_one_clear_error() -> None:
    with pytest.raises(TableError, match="no table at"):
        ParquetStorage("nonsense://bucket/t")
