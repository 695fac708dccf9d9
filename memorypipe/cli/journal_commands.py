"""`journal show` and `journal compact`: look into a reply journal, and make it smaller."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.journal_options import JournalCompactOptions, JournalShowOptions
from memorypipe.cli.output import Output, counted, plain, shown_size, shown_time
from memorypipe.llm.journal.open import compact_journal, take_inventory
from memorypipe.llm.journal.types import Compaction, Inventory

__all__ = ["compact", "compaction_lines", "inventory_lines", "inventory_value", "show"]

_NULL = "null"


def show(options: JournalShowOptions) -> int:
    """Show what lies in a journal."""
    found = take_inventory(_uri(options))
    Output(as_json=options.json).result(inventory_value(found), inventory_lines(found))
    return ExitCode.DONE


def compact(options: JournalCompactOptions) -> int:
    """Merge the finished segments of a journal, and show what that changed."""
    uri = _uri(options)
    before = take_inventory(uri)
    done = compact_journal(uri, keep_unusable=not options.drop_unusable)
    after = take_inventory(uri)
    value = {
        **asdict(done),
        "before": inventory_value(before),
        "after": inventory_value(after),
    }
    Output(as_json=options.json).result(value, compaction_lines(done, before, after))
    return ExitCode.DONE


def _uri(options: JournalShowOptions | JournalCompactOptions) -> str:
    return f"{options.table.rstrip('/')}/journal" if options.uri is None else options.uri


def inventory_value(found: Inventory) -> dict[str, Any]:
    """Give an inventory as JSON values, its times as ISO 8601 in UTC."""
    times = {"oldest": _moment(found.oldest), "newest": _moment(found.newest)}
    return {**asdict(found), **times}


def inventory_lines(found: Inventory) -> Iterator[Text]:
    """Show an inventory to people."""
    yield Text(counted(found.usable, "reply", "replies"), style="bold").append(
        _beside(found), style="dim"
    )
    yield Text(
        f"{counted(found.segments, 'segment')}, {shown_size(found.size_bytes)}, and "
        f"{shown_size(found.index_bytes)} of indexes"
    )
    if found.newest is not None:
        first, last = (shown_time(_moment(at)) for at in (found.oldest, found.newest))
        yield Text(f"written {last}" if first == last else f"written {first} to {last}")
    for model, count in found.models.items():
        name = "(model not told)" if model == _NULL else plain(model)
        yield Text(f"  {count:>12,}  ").append(name, style="cyan")


def compaction_lines(done: Compaction, before: Inventory, after: Inventory) -> Iterator[Text]:
    """Show to people what a compaction changed."""
    yield Text(f"{counted(done.merged, 'segment')} became {done.made:,}", style="bold")
    yield Text(f"segments  {before.segments:,} → {after.segments:,}")
    sizes = [one.size_bytes + one.index_bytes for one in (before, after)]
    yield Text(f"size      {shown_size(sizes[0])} → {shown_size(sizes[1])}")
    yield Text(f"replies   {before.usable:,} → {after.usable:,}")
    if done.dropped:
        yield Text(f"{done.dropped:,} lines left out: repeated, unusable or damaged", style="dim")
    if done.left_alone:
        yield Text(
            f"{done.left_alone:,} segments left alone: their writers may be at work", style="dim"
        )


def _beside(found: Inventory) -> str:
    parts = [
        f"{found.unusable:,} that could not be used" if found.unusable else "",
        f"{found.unreadable:,} lines that cannot be read" if found.unreadable else "",
    ]
    told = ", ".join(filter(None, parts))
    return f"  (and {told})" if told else ""


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(int(at), UTC)
