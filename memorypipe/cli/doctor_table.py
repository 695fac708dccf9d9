"""What `doctor` looks at in a table: the table itself, its embedder, journal and runs."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from memorypipe.cli.doctor_report import Finding, fail, good, skip, warn
from memorypipe.errors import MemoryPipeError
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.llm.journal.open import take_inventory
from memorypipe.schema import TABLE_FORMAT_VERSION
from memorypipe.table.backends import open_storage
from memorypipe.table.run_status import shown_status
from memorypipe.table.table import MemoryTable

__all__ = ["check_embedder", "check_journal_health", "check_runs", "check_table"]

_SAMPLE = "Lives in Rome"


def check_table(uri: str) -> Iterator[Finding]:
    """Open the table and read its head; nothing is made where there is none."""
    try:
        is_there = MemoryTable.exists(uri)
        if not is_there:
            yield skip("table", f"none at {uri!r} yet", "The first `memorypipe backfill` makes it.")
            return
        head = open_storage(uri.rstrip("/"), None).snapshot().head
    except MemoryPipeError as error:
        yield fail("table", str(error), "Check --table, and that the place can be read.")
        return
    told = f"version {head.number}, format {head.format_version} of {TABLE_FORMAT_VERSION}"
    if head.format_version > TABLE_FORMAT_VERSION:
        yield fail("table", told, "Install the library that wrote it, or a later one.")
    else:
        yield good("table", told)
    place = Path(uri.removeprefix("file://"))
    if place.exists() and not os.access(place, os.W_OK):
        step = "Give this user the right to write there, or name another --table."
        yield fail("table is writable", f"no, {str(place)!r} is read-only", step)


def check_embedder(uri: str, embedder: Embedder | str | None, *, asks: bool) -> Iterator[Finding]:
    """Look whether the table's embedder is there and makes vectors as wide as the table's.

    Args:
        uri: Of the table.
        embedder: As for `MemoryTable.open`.
        asks: Whether an endpoint may be asked for one vector.
    """
    if not MemoryTable.exists(uri):
        yield skip("embedder", "no table yet")
        return
    try:
        table = MemoryTable.open(uri, create=False, embedder=embedder)
        found = table.find_embedder()
        if found is None:
            yield good("embedder", "the table has none: search is by words")
            return
        if not (asks or isinstance(embedder, str) or embedder is None):
            yield skip("embedder", f"{found.name} was not asked", "--ask asks for one vector.")
            return
        width = len(embed_texts(found, [_SAMPLE])[0])
    except MemoryPipeError as error:
        yield fail("embedder", str(error), "Name the table's embedder with --embedder.")
        return
    if width != table.vector_dim:
        told = f"{found.name} gives {width} dimensions, the table has {table.vector_dim}"
        yield fail("embedder", told, "`memorypipe reembed` moves the table to another embedder.")
    else:
        yield good("embedder", f"{found.name}, {width} dimensions")


def check_journal_health(uri: str) -> Iterator[Finding]:
    """Read what lies in the journal.

    Args:
        uri: Of the journal.
    """
    if "://" not in uri and not Path(uri).exists():
        yield skip("journal", "none yet")
        return
    try:
        found = take_inventory(uri)
    except MemoryPipeError as error:
        yield fail("journal", str(error), "Check --journal, and that the place can be read.")
        return
    told = f"{found.usable:,} replies in {found.segments:,} segments"
    if found.unreadable:
        told += f", {found.unreadable:,} lines that cannot be read"
        step = "A killed run leaves one torn line; `memorypipe journal compact` drops them."
        yield warn("journal", told, step)
    else:
        yield good("journal", told)


def check_runs(
    uri: str, *, now: datetime, read: Callable[[Path], str] = Path.read_text
) -> Iterator[Finding]:
    """Look for runs that are under way, or ended in the middle.

    Args:
        uri: Of the table.
        now: The time.
        read: Reads a file.
    """
    statuses: Counter[str] = Counter()
    broken: list[str] = []
    for path in sorted((Path(uri) / "runs").glob("[!.]*/run.json")):
        try:
            status = shown_status(json.loads(read(path)), now)
        except (OSError, ValueError, KeyError):
            status = "unreadable"
        statuses[status] += 1
        if status in {"crashed", "failed", "unreadable"}:
            broken.append(path.parent.name)
    if not statuses:
        yield skip("runs", "none yet")
        return
    told = ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))
    if broken:
        step = f"`memorypipe runs show {broken[-1]}` says why; the same command goes on from there."
        yield warn("runs", told, step)
    else:
        yield good("runs", told)
