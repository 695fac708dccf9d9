"""The record of a run as OpenMetrics text, for whatever scrapes a folder. Pure."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from memorypipe.llm.metrics import bucket_end_ms

__all__ = ["open_metrics"]

# The bounds that are shown: every seventh, so that each is about twice the one before.
_SHOWN_BUCKETS = range(0, 171, 7)

_Sample = tuple[str, dict[str, str], float]


def open_metrics(record: Mapping[str, Any]) -> str:
    r"""Write the record of a run as OpenMetrics text.

    Args:
        record: `RunSummary.to_dict()`, with `heartbeat_at`, `stage`, `windows_done`, `in_flight`,
            `paused`, `latency_buckets` and `latency_total_ms` where the record has them.

    Returns:
        Text that ends in ``# EOF``. Counters have the labels `run_id` and `stage`.

    Example:
        >>> lines = open_metrics({"run_id": "r", "status": "done"}).splitlines()
        >>> print(lines[0], lines[2], lines[-1], sep="\n")
        # TYPE memorypipe_run info
        memorypipe_run_info{run_id="r",status="done",model=""} 1
        # EOF
    """
    return "".join(_lines(record)) + "# EOF\n"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    run = {"run_id": str(record["run_id"])}
    info = {"status": str(record["status"]), "model": str(record.get("model", ""))}
    yield from _family("memorypipe_run", "info", "The run.", [("_info", {**run, **info}, 1)])
    yield from _gauges(record, run)
    yield from _counters(record, run)
    yield from _latencies(record, run)


def _gauges(record: Mapping[str, Any], run: dict[str, str]) -> Iterator[str]:
    windows = {
        "cut": record.get("windows", 0),
        "open": record.get("windows_failed", 0),
        "done": record.get("windows_done", 0),
    }
    samples = [("", {**run, "state": state}, count) for state, count in windows.items()]
    what = "Windows of the run: all, left open, done in the stage under way."
    yield from _family("memorypipe_windows", "gauge", what, samples)
    points = record.get("in_flight") or ()
    gauges = {
        "memorypipe_in_flight": ("Requests under way.", points[-1][1] if points else 0),
        "memorypipe_max_in_flight": (
            "The most requests at one time.",
            record.get("max_in_flight", 0),
        ),
        "memorypipe_run_seconds": ("From its start.", record.get("wall_s", 0.0)),
        "memorypipe_paused": (
            "1 while nothing is sent, since most calls fail.",
            int(record.get("paused") is not None),
        ),
    }
    for name, (told, value) in gauges.items():
        yield from _family(name, "gauge", told, [("", run, value)])
    if heartbeat_at := record.get("heartbeat_at"):
        at_s = datetime.fromisoformat(heartbeat_at).timestamp()
        what = "When this was written."
        yield from _family(
            "memorypipe_heartbeat_timestamp_seconds", "gauge", what, [("", run, at_s)]
        )


def _counters(record: Mapping[str, Any], run: dict[str, str]) -> Iterator[str]:
    stages: Mapping[str, Mapping[str, Any]] = record.get("stages", {})
    plain = {
        "calls": "Requests that were needed, the journal's included.",
        "attempts": "Requests sent.",
        "journal_hits": "Rows and decisions that the journal answered.",
        "cost": "In the currency of the prices.",
    }
    for name, what in plain.items():
        samples = [
            ("_total", {**run, "stage": stage}, numbers[name])
            for stage, numbers in stages.items()
            if numbers.get(name) is not None
        ]
        yield from _family(f"memorypipe_{name}", "counter", what, samples)
    tokens = [
        ("_total", {**run, "stage": stage, "direction": direction}, numbers[f"tokens_{direction}"])
        for stage, numbers in stages.items()
        for direction in ("in", "out")
    ]
    yield from _family("memorypipe_tokens", "counter", "Prompt and completion tokens.", tokens)
    for name, label, field, what in (
        ("memorypipe_failures", "kind", "failures", "Failures by class."),
        ("memorypipe_waited_seconds", "limit", "waited_s", "Waited for a limit, over attempts."),
    ):
        samples = [
            ("_total", {**run, "stage": stage, label: key}, value)
            for stage, numbers in stages.items()
            for key, value in (numbers[field] or {}).items()
        ]
        if any(numbers[field] is None for numbers in stages.values()):
            # Of stages that went on at the same time only the run can tell.
            samples = [
                ("_total", {**run, "stage": "all", label: key}, value)
                for key, value in record[field].items()
            ]
        yield from _family(name, "counter", what, samples)


def _latencies(record: Mapping[str, Any], run: dict[str, str]) -> Iterator[str]:
    totals_ms: Mapping[str, float] = record.get("latency_total_ms", {})
    samples = [
        sample
        for stage, buckets in record.get("latency_buckets", {}).items()
        if buckets
        for sample in _histogram(buckets, totals_ms.get(stage, 0.0), {**run, "stage": stage})
    ]
    what = "Of attempts, from sending to the last byte."
    yield from _family("memorypipe_latency_seconds", "histogram", what, samples)


def _histogram(
    buckets: Mapping[str, int], total_ms: float, labels: dict[str, str]
) -> Iterator[_Sample]:
    counted = {int(number): count for number, count in buckets.items()}
    for shown in _SHOWN_BUCKETS:
        below = sum(count for number, count in counted.items() if number <= shown)
        yield "_bucket", {**labels, "le": f"{bucket_end_ms(shown) / 1e3:.6g}"}, below
    everything = sum(counted.values())
    yield "_bucket", {**labels, "le": "+Inf"}, everything
    yield "_count", labels, everything
    yield "_sum", labels, total_ms / 1e3


def _family(name: str, kind: str, what: str, samples: list[_Sample]) -> Iterator[str]:
    if not samples:
        return
    yield f"# TYPE {name} {kind}\n"
    if name.endswith("_seconds"):
        yield f"# UNIT {name} seconds\n"
    yield f"# HELP {name} {what}\n"
    for suffix, labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{suffix}{{{shown}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
