"""Does a heavy scope hold the others up, while all of them are decided?

    python benchmarks/skewed_scopes.py [--heavy 5000] [--light 5000] [--in-flight 64]
        [--latency-ms 200] [--workers 1]

One scope has `--heavy` windows, and so many others have one each. Facts are extracted by the
rule-based model; decisions go to a local endpoint with a fixed latency. The decisions of the
heavy scope can only be made one after the other, and its chain is the longest; so as long as
other scopes are left the requests in flight should stay at the limit, and after that only those
of the heavy one are left. There is no randomness.

Targets: until the last decision of a light scope is asked, the requests in flight are at 90 % of
the limit on average (the first and the last half second left out); the heavy scope is asked about
while the first lots are, which are five times the limit; every window is decided.

Prints one JSON object: the figure over time, the targets, the machine.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import common  # the checkout comes first
from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline
from memorypipe.llm.spec import OFFLINE_MODEL, OFFLINE_URL
from tests.support.endpoint import endpoint

_STEP_S = 0.25
_EDGE_STEPS = 2
_THING = re.compile(r"\bz[a-z]{5,}\b")
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "tu")


def make_log(heavy: int, light: int) -> Iterator[dict[str, Any]]:
    """Make the log; a word that begins with z tells the requests of the heavy user from others."""
    for number in range(light):
        yield _conversation(f"light-{number:06d}", "y", number, 0)
    for number in range(heavy):
        yield _conversation("heavy", "z", number, number)


def _conversation(user: str, mark: str, number: int, place: int) -> dict[str, Any]:
    # Made-up words of their own: facts that share words would be decided one after the other.
    word = "".join(_SYLLABLES[int(digit)] for digit in f"{number:06d}")
    things = " ".join(f"{mark}{word}{end}" for end in ("x", "q", "w", "j"))
    at = f"2025-01-{1 + place // 1_440 % 28:02d}T{place // 60 % 24:02d}:{place % 60:02d}:00Z"
    said = {"role": "user", "content": f"I own a {things} cupboard.", "timestamp": at}
    return {"user_id": user, "conversation_id": f"{user}-{place}", "messages": [said]}


def is_heavy(call: Mapping[str, Any]) -> bool:
    """Tell whether a decision is one of the heavy scope."""
    return _THING.search(json.dumps(call["body"]["messages"])) is not None


def figure(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give requests in flight over time, and what they were while light scopes were left."""
    begin_s = min(call["at_s"] for call in calls)
    last_light_s = max(call["at_s"] for call in calls if not is_heavy(call)) - begin_s
    means = common.in_flight_means(calls, _STEP_S)
    until = int(last_light_s / _STEP_S)
    first = sorted(calls, key=lambda call: call["at_s"])
    return {
        "step_s": _STEP_S,
        "in_flight": means,
        "last_light_asked_s": round(last_light_s, 2),
        "while_light_left": round(fmean(means[_EDGE_STEPS : max(until - 1, 3)]), 1),
        "least_while_light_left": min(means[_EDGE_STEPS : max(until - 1, 3)]),
        "heavy_first_asked": next(n for n, call in enumerate(first, 1) if is_heavy(call)),
        "heavy_calls": sum(map(is_heavy, calls)),
    }


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heavy", type=int, default=5_000)
    parser.add_argument("--light", type=int, default=5_000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--latency-ms", type=float, default=200.0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with (
        common.ray_up(),
        endpoint(latency_s=options.latency_ms / 1e3, lifetime_s=3_600) as server,
        tempfile.TemporaryDirectory(prefix="skewed-") as table,
    ):
        decide = MemoryBuildAction(
            base_url=server.base_url, model="test", max_concurrency=options.in_flight
        ).options(num_workers=options.workers)
        pipeline = MemoryPipeline(
            table=table,
            extract=MemoryExtract(base_url=OFFLINE_URL, model=OFFLINE_MODEL),
            decide=decide,
            embedder="none",
        )
        plan = pipeline.plan(list(make_log(options.heavy, options.light)))
        summary = plan.summary()
        actions = plan.actions()
        calls = server.calls()
    shown = figure(calls)
    limit = options.in_flight * options.workers
    decided = len(set(actions["window_id"].to_pylist()))
    targets = {
        "in_flight_while_light_left": common.Target(
            value=shown["while_light_left"], at_least=0.9 * limit
        ),
        "heavy_first_asked": common.Target(value=shown["heavy_first_asked"], at_most=5 * limit),
        "windows_not_decided": common.Target(
            value=options.heavy + options.light - decided, at_least=0, at_most=0
        ),
    }
    common.finish(
        {
            "question": "Does a heavy scope hold the others up, while all of them are decided?",
            "options": vars(options),
            "calls": len(calls),
            "wall_s": summary.wall_s,
            **shown,
            "machine": common.machine("ray", "memorypipe"),
        },
        targets,
    )


if __name__ == "__main__":
    main()
