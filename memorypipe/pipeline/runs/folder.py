"""The folder of one run: `runs/<run_id>/` beside the table.

=====================  =============================================================
`manifest.json`        what ran: settings, models, prompts, versions, base version
`windows/*.parquet`    schema `memorypipe.schema.WINDOWS`
`facts/*.parquet`      schema `memorypipe.schema.FACTS`
`actions.parquet`      schema `memorypipe.schema.ACTIONS`, sorted by scope and `seq`
`scopes.parquet`       schema `SCOPES`: decision calls per scope, one after the other
`open.parquet`         windows that the next run takes up again, with the reason
`run.json`             the summary, as `--json` prints it, and requests in flight over time;
                       while the run goes on the numbers so far
`metrics.prom`         the same as OpenMetrics text
`rejects.jsonl`        log lines that could not be read
=====================  =============================================================
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe.errors import PlanError
from memorypipe.llm.owner import Owner
from memorypipe.pipeline.runs.file_lock import is_locked, locked
from memorypipe.table.run_status import is_under_way

__all__ = ["OPEN_WINDOWS", "SCOPES", "RunFolder"]

OPEN_WINDOWS = pa.schema(
    [
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("conversation_id", pa.string(), nullable=False),
        pa.field("window_id", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)

SCOPES = pa.schema(
    [
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("decision_calls", pa.int64(), nullable=False),
    ]
)

# Rows that are read at once from a part: a worker takes a few windows or scopes out of it.
_GROUP_ROWS = {"windows": 64, "facts": 1_024}

# The file whose lock is held by whoever applies the plan.
_APPLYING = ".applying"

_NAMED_RUNS = 5
_NOTHING: Mapping[str, Any] = MappingProxyType({})

_logger = logging.getLogger(__name__)


class RunFolder:
    """Reads and writes the files of one run.

    Args:
        path: The folder; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, table_uri: str, run_id: str) -> "RunFolder":
        """Give the folder of a run of a table.

        Raises:
            PlanError: If `run_id` cannot name a folder.
        """
        if not run_id.strip() or run_id != os.path.basename(run_id) or run_id.startswith("."):  # noqa: PTH119  # a name is judged, no path
            raise PlanError(
                f"run_id {run_id!r} must be a name without slashes that does not begin with a dot."
            )
        return cls(Path(table_uri) / "runs" / run_id)

    @classmethod
    @contextmanager
    def scratch(cls, table_uri: str) -> "Iterator[RunFolder]":
        """Give a folder for a run that has no id yet; unless it becomes a run's, it goes."""
        runs = Path(table_uri) / "runs"
        runs.mkdir(parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=".planning-", dir=runs))
        try:
            yield cls(path)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def become(
        self, run_id: str, *, now: datetime, told: Mapping[str, Any] = _NOTHING
    ) -> "RunFolder":
        """Turn a scratch folder into the folder of a run; what an earlier try left is gone.

        From then on it says that the run goes on: nobody else may take it.

        Args:
            run_id: The run.
            now: The time.
            told: What else its record says.

        Raises:
            PlanError: If another process is at work on this run.
        """
        folder = RunFolder.of(str(self.path.parent.parent), run_id)
        folder.check_idle(now)
        owner = Owner.current()
        at = now.isoformat()
        times = {"started_at": at, "heartbeat_at": at}
        done = {"stage": "windows", "windows": 0, "windows_done": 0}
        who = {"run_id": run_id, "host": owner.host, "pid": owner.pid}
        self.write_json("run", {**who, "status": "running", **times, **done, **told})
        shutil.rmtree(folder.path, ignore_errors=True)
        try:
            return RunFolder(self.path.rename(folder.path))
        except OSError:
            # Somebody else was faster by a moment, or the disk fails.
            folder.check_idle(now)
            raise

    @contextmanager
    def applying(self) -> Iterator[None]:
        """Let one process at a time apply the plan of the run; the next one waits.

        Raises:
            PlanError: If there is no such run.
        """
        self.read_json("run")
        if self.is_applied_now():
            _logger.warning(
                "Somebody else is applying the plan of run %r; waiting for that.", self.path.name
            )
        with locked(self.path / _APPLYING):
            yield

    def is_applied_now(self) -> bool:
        """Whether a process is at it."""
        return is_locked(self.path / _APPLYING)

    def check_idle(self, now: datetime) -> None:
        """Check that nobody is at work on the run.

        Raises:
            PlanError: If somebody is.
        """
        if not (self.path / "run.json").exists():
            return
        if self.is_applied_now():
            raise PlanError(
                f"The plan of run {self.path.name!r} is being applied: wait for that, and start "
                "again."
            )
        record = self.read_json("run")
        if is_under_way(record, now):
            raise PlanError(
                f"Run {self.path.name!r} is under way already: process {record.get('pid')!r} on "
                f"{record.get('host')!r} wrote to it at {record['heartbeat_at']}. Wait for its "
                f"end, or, where it was killed, start again a minute later."
            )

    def write_part(self, name: str, part: int, rows: pa.Table) -> None:
        """Write one file of a table that comes in parts; empty parts are left out."""
        folder = self.path / name
        folder.mkdir(exist_ok=True)
        if rows.num_rows:
            path = folder / f"part-{part:06d}.parquet"
            pq.write_table(rows, path, row_group_size=_GROUP_ROWS.get(name))

    def parts(self, name: str) -> list[str]:
        """List the files of a table that came in parts, in order."""
        return sorted(str(path) for path in (self.path / name).glob("part-*.parquet"))

    def read_parts(self, name: str, schema: pa.Schema) -> pa.Table:
        """Read a table that came in parts; only the columns of the schema."""
        tables = [
            pq.read_table(path, schema=schema, columns=schema.names) for path in self.parts(name)
        ]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def share(self, names: Iterable[str], folder: "RunFolder") -> None:
        """Have files and parts of another run in this one too; no bytes are copied where it can be.

        Args:
            names: Of files, and of tables that came in parts; what is not there is passed over.
            folder: Of the other run, whose files never change but by being replaced.
        """
        for name in names:
            if (folder.path / name).is_dir():
                (self.path / name).mkdir(exist_ok=True)
            for path in (folder.path / name, *map(Path, folder.parts(name))):
                if path.is_file():
                    _link(path, self.path / path.relative_to(folder.path))

    def write_table(self, name: str, rows: pa.Table) -> None:
        """Write a table of one file."""
        pq.write_table(rows, self.path / f"{name}.parquet")

    def read_table(self, name: str, schema: pa.Schema | None = None) -> pa.Table:
        """Read a table of one file.

        Args:
            name: Of the file, without its ending.
            schema: Of the table; None: as it is.

        Raises:
            PlanError: If the run has no such file: it was never planned to its end.
        """
        path = self.path / f"{name}.parquet"
        if not path.exists():
            raise PlanError(self._what_is_there(name))
        return pq.read_table(path, schema=schema)

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON file; readers see the old or the new one, never a half."""
        text = json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
        self.write_text(f"{name}.json", text)

    def write_text(self, file_name: str, text: str) -> None:
        """Write a text file; readers see the old or the new one, never a half."""
        scratch = self.path / f".{file_name}.new"
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(self.path / file_name)

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a JSON file.

        Raises:
            PlanError: If the run has no such file.
        """
        path = self.path / f"{name}.json"
        if not path.exists():
            raise PlanError(self._what_is_there(name))
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return value

    def write_lines(self, name: str, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write a file of JSON lines; no lines, no file."""
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        if text:
            (self.path / f"{name}.jsonl").write_text(text, encoding="utf-8")

    def _what_is_there(self, wanted: str) -> str:
        """Say why a file is not there."""
        if self.path.exists():
            return (
                f"Run {self.path.name!r} was not finished: it has no {wanted} yet. The command "
                "that began it goes on from there; what was answered is not paid again."
            )
        runs = self.path.parent
        known = sorted(p.name for p in runs.glob("[!.]*") if p.is_dir())
        named = ", ".join(known[:_NAMED_RUNS]) + (", …" if len(known) > _NAMED_RUNS else "")
        return (
            f"There is no run {self.path.name!r} in {str(runs.parent)!r}; its runs are: "
            f"{named or 'none'}. `memorypipe runs` lists them."
        )


def _link(path: Path, new: Path) -> None:
    try:
        os.link(path, new)
    except OSError:  # the disk knows no links
        shutil.copy2(path, new)
