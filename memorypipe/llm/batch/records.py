"""What is known of each batch, on disk: written before and after every step that may cost money.

A folder holds up to three files per batch, named after the batch's requests:

==================  ================================================================
`<name>.json`       the record: how far the batch has come; replaced as a whole
`<name>.jsonl`      the requests; gone once the provider has taken them
`<name>.keys`       key and scope of each request; gone once the replies are journalled
==================  ================================================================

The record is written last: files without one were never sent, and are swept away.
"""

import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from memorypipe.errors import PlanError

__all__ = ["BatchFolder", "BatchRecord", "BatchState", "BatchTotals"]

BatchState = Literal["written", "uploading", "uploaded", "creating", "created", "done", "failed"]

_FINAL = frozenset({"done", "failed"})

# What is being written, or was when its process was killed: `.new-<pid>-<token>-<name>`.
_SCRATCH = re.compile(r"\.new-(\d+)-")


@dataclass(frozen=True, kw_only=True)
class BatchTotals:
    """What batches came to.

    Attributes:
        batches: Batches of requests.
        requests: Requests in them.
        answered: Usable replies, now in the journal.
        unusable: Replies that were paid for and say nothing, or were cut; what they were to
            answer is asked again.
        failed: Requests that the provider could not answer, or said nothing of.
        expired: Requests that the provider did not get to in time.
        lost: Requests of batches, or of result files, that the provider no longer knows.
        ignored: Lines of result files that answer no request, or one that was answered before.
        prompt_tokens: Of all replies, at the prices of batches.
        completion_tokens: As `prompt_tokens`.
    """

    batches: int = 0
    requests: int = 0
    answered: int = 0
    unusable: int = 0
    failed: int = 0
    expired: int = 0
    lost: int = 0
    ignored: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: "BatchTotals") -> "BatchTotals":
        mine, theirs = asdict(self), asdict(other)
        return BatchTotals(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """One batch, and how far it has come.

    Attributes:
        name: Names its files here, its file at the provider, and the batch there.
        run_id: The run that made it.
        endpoint: The endpoint's name, without secrets.
        model: The model's name there.
        requests: Requests in it.
        size_bytes: Of its file of requests.
        state: ``"written"``: here only; ``"uploading"``, ``"creating"``: sent, and whether it got
            there is not known; ``"uploaded"``: the file is there, no batch works on it;
            ``"created"``: the provider works on it; ``"done"``: its replies are journalled;
            ``"failed"``: the provider refused the whole of it, or no longer knows of it.
        file_id: The provider's name of the uploaded file.
        batch_id: The provider's name of the batch.
        status: The provider's last word on it.
        totals: What came of it; None before it is done.
    """

    name: str
    run_id: str
    endpoint: str
    model: str
    requests: int
    size_bytes: int
    state: BatchState = "written"
    file_id: str | None = None
    batch_id: str | None = None
    status: str | None = None
    totals: BatchTotals | None = None

    @property
    def is_open(self) -> bool:
        """Whether replies may still come of it."""
        return self.state not in _FINAL

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "BatchRecord":
        """Read what `dataclasses.asdict` gave."""
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        totals = known.get("totals")
        return cls(**{**known, "totals": None if totals is None else BatchTotals(**totals)})


class BatchFolder:
    """Reads and writes the records of a folder.

    Args:
        path: The folder; made where there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """Be the only process that sends batches of this folder; a killed one holds nothing up.

        Raises:
            PlanError: If another process is sending.
        """
        with self._opened(".lock") as handle:
            self._lock(handle)
            yield

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        handle = os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            yield handle
        finally:
            os.close(handle)

    def _lock(self, handle: int) -> None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PlanError(
                f"Another process is sending batches of {str(self.path)!r}. Wait until it has "
                f"sent them all, then start again."
            ) from None

    def records(self) -> list[BatchRecord]:
        """Give all records, by name."""
        # A name that begins with a dot is still being written, or was when its writer was killed.
        paths = sorted(self.path.glob("[!.]*.json"))
        found = (self.record(path.stem) for path in paths)
        return [record for record in found if record is not None]

    def record(self, name: str) -> BatchRecord | None:
        """Give a batch's record as it is now; None where it was dropped."""
        try:
            text = self.file(name, "json").read_bytes()
        except FileNotFoundError:
            return None
        return BatchRecord.from_dict(json.loads(text))

    def save(self, record: BatchRecord) -> BatchRecord:
        """Write a record durably; readers see the old or the new one, never a half."""
        text = json.dumps(asdict(record), indent=1)
        self.write_whole(f"{record.name}.json", text.encode())
        return record

    def change(self, old: BatchRecord, new: BatchRecord) -> BatchRecord | None:
        """Write a record, unless another process has changed it since it was read.

        Args:
            old: As it was read.
            new: As it shall be.

        Returns:
            As it is from now on: `new`, or what the other process made of it; None where that
            dropped it.
        """
        with self._opened(".lock-records") as handle:
            # Held while one small file is written.
            fcntl.flock(handle, fcntl.LOCK_EX)
            found = self.record(old.name)
            return self.save(new) if found == old else found

    def drop(self, record: BatchRecord) -> None:
        """Forget a batch that nobody works on."""
        for suffix in ("json", "keys", "jsonl"):
            self.file(record.name, suffix).unlink(missing_ok=True)

    def file(self, name: str, suffix: str) -> Path:
        """Give the path of a batch's file."""
        return self.path / f"{name}.{suffix}"

    def keys(self, name: str) -> dict[bytes, str | None]:
        """Give the keys of a batch's requests (16 bytes each) with their scope keys."""
        try:
            lines = self.file(name, "keys").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        return {bytes.fromhex(line[:32]): line[33:] or None for line in lines}

    def sweep(self) -> None:
        """Remove what a killed process left half-written; only while `submitting`."""
        named = {record.name for record in self.records()}
        for path in self.path.iterdir():
            is_nameless = path.suffix in {".jsonl", ".keys"} and path.stem not in named
            if _is_abandoned(path) if path.name.startswith(".new-") else is_nameless:
                path.unlink(missing_ok=True)

    def scratch(self, file_name: str) -> Path:
        """Give a name for a file that is being written; nobody else has it."""
        return self.path / f".new-{os.getpid()}-{uuid.uuid4().hex}-{file_name}"

    def write_whole(self, file_name: str, content: bytes) -> None:
        """Write a file durably, whole or not at all."""
        scratch = self.scratch(file_name)
        with scratch.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self.path / file_name)
        sync_folder(self.path)


def _is_abandoned(scratch: Path) -> bool:
    """Tell whether nobody writes a file any more: its process is gone."""
    found = _SCRATCH.match(scratch.name)
    if found is None:
        return True
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it is there, and somebody else's
    return False


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
