"""What a load left whose driver died goes, what may be under way stays."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.staging import new_staging, remove_stale

_NOW = datetime(2024, 5, 2, tzinfo=UTC)


def test_old_loads_go_and_young_ones_stay(tmp_path: Path) -> None:
    old, young = new_staging(str(tmp_path)), new_staging(f"file://{tmp_path}")
    for folder, age in ((old, 3), (young, 1)):
        folder.mkdir(parents=True)
        (folder / "part.parquet").touch()
        at = (_NOW - timedelta(hours=age)).timestamp()
        for each in (folder / "part.parquet", folder):
            os.utime(each, (at, at))
    assert remove_stale(tmp_path, before=_NOW - timedelta(hours=2)) == 1
    assert (old.exists(), young.exists()) == (False, True)
    assert remove_stale(tmp_path / "elsewhere", before=_NOW) == 0


def test_an_object_store_has_no_folder() -> None:
    with pytest.raises(InvalidArgumentError, match=r"s3://bucket/table.*MemoryTable\.commit"):
        new_staging("s3://bucket/table")
