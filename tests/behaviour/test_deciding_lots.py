"""What is decided does not depend on which worker takes which scopes, and when."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe import Lookup, MemoryBuildAction
from memorypipe.ids import scope_key
from memorypipe.llm.owner import Owner
from memorypipe.llm.spec import OFFLINE_MODEL, OFFLINE_URL
from memorypipe.pipeline.deciding import Decider, LotDecider
from memorypipe.pipeline.lots import Lot, make_lots
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.scope_results import SCOPE_RESULTS, write_results
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.sorting import Sorter
from memorypipe.schema import FACTS

SAID = ("Lives in Leeds", "Owns a piano", "Lives in Oslo now", "Likes green tea", "Owns a piano")
DAY = datetime(2025, 1, 1, tzinfo=UTC)


def rows() -> Iterator[dict[str, Any]]:
    numbers = {f.name: 0 for f in FACTS if pa.types.is_integer(f.type)}
    for user in range(12):
        for number in range(1 + user * user % 23):
            yield {
                **numbers,
                "scope": [("user_id", f"u{user}")],
                "scope_key": scope_key({"user_id": f"u{user}"}),
                "conversation_id": f"c{number}",
                "window_id": f"w{user}-{number}",
                "event_time": DAY + timedelta(days=number // 2),
                "message_ids": [f"m{number}"],
                "message_times": [None],
                "facts_json": json.dumps({"memories": [{"text": SAID[number % len(SAID)]}]}),
                "status": "ok",
                "latency_ms": 0.0,
                "cached": False,
            }


@pytest.fixture(name="decider")
def _decider(tmp_path: Path) -> Decider:
    return Decider(
        decide=MemoryBuildAction(base_url=OFFLINE_URL, model=OFFLINE_MODEL),
        settings=ConsolidationSettings(lookup=Lookup(strategy="all"), facts_per_call=3),
        table_uri=str(tmp_path),
        base_version=None,
        owner=Owner.current(),
    )


def plan(folder: Path, facts: Sequence[dict[str, Any]], decider: Decider, workers: int) -> bytes:
    """Write facts that came in some order, decide them, and give the files of the plan."""
    run = RunFolder(folder)
    folder.mkdir()
    order = ("scope_key", "event_time", "conversation_id", "window_index", "window_id")
    sorter = Sorter(folder / "sorting", FACTS, by=order, run_bytes=workers * 5_000)
    for row in facts:
        sorter.add(pa.Table.from_pylist([row], schema=FACTS))
    for part, table in enumerate(sorter.groups(least_rows=40)):
        run.write_part("facts", part, table)
    lots: list[Lot] = make_lots(run.parts("facts"), at_least=4 * workers)
    decide = [LotDecider(decider) for _ in range(workers)]
    results = Sorter(folder / "sorting", SCOPE_RESULTS, by=["scope_key"], run_bytes=1)
    for number, lot in enumerate(lots[::-1] if workers > 1 else lots):
        results.add(decide[number % workers](lot))
    write_results(run, results.groups(least_rows=5))
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*.parquet")))


def test_files_are_the_same_to_the_byte(decider: Decider, tmp_path: Path) -> None:
    facts = list(rows())
    wanted = plan(tmp_path / "one", facts, decider, 1)
    mixed = sorted(facts, key=lambda row: row["window_id"][::-1])
    assert mixed != facts
    assert plan(tmp_path / "four", mixed, decider, 4) == wanted
    actions = RunFolder(tmp_path / "one").read_table("actions")
    assert {"ADD", "UPDATE", "NONE"} <= set(actions["event"].to_pylist())
