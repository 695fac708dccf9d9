"""Where the records of a table's batches are, and which of them are open."""

from pathlib import Path

from memorypipe.llm.batch.records import BatchFolder, BatchRecord

__all__ = ["batch_folder", "open_batches"]


def batch_folder(table_uri: str) -> BatchFolder:
    """Give the folder of a table's batches; made where there is none."""
    return BatchFolder(_place(table_uri))


def open_batches(table_uri: str, run_id: str | None = None) -> list[BatchRecord]:
    """Give the batches that replies may still come of; those of one run, or all of a table."""
    if not _place(table_uri).exists():
        return []
    records = batch_folder(table_uri).records()
    return [each for each in records if each.is_open and run_id in {None, each.run_id}]


def _place(table_uri: str) -> Path:
    return Path(table_uri.removeprefix("file://")) / "batches"
