"""An estimate as text for people. Pure."""

from collections.abc import Iterator

from rich.text import Text

from memorypipe.cli.output import plain
from memorypipe.pipeline.estimates.estimate import Estimate, Range

__all__ = ["estimate_lines", "shown_duration", "shown_range"]

_LIMITS = {
    "longest_scope": "the longest scope, whose decisions wait for each other",
    "max_concurrency": "the requests in flight (--max-concurrency)",
    "max_qps": "the request rate (--max-qps)",
    "max_tokens_per_minute": "the token rate (--max-tokens-per-minute)",
    "nothing": "nothing: there is no call to make",
    "workers": "the worker processes (--workers)",
}
_MINUTE_S = 60
_HOUR_S = 3600


def estimate_lines(estimate: Estimate) -> Iterator[Text]:
    """Show an estimate as a short table."""
    yield Text("estimate", style="bold cyan")
    yield _line("log", f"{estimate.conversations:,} conversations · {_windows(estimate)}")
    calls = f"{estimate.calls_extract:,} extract + {shown_range(estimate.calls_decide)} decide"
    yield _line("calls", calls)
    yield _line("tokens in", shown_range(estimate.tokens_in))
    yield _line("tokens out", shown_range(estimate.tokens_out))
    yield _line("cost", _cost(estimate))
    wall = estimate.wall_s
    times = [shown_duration(seconds) for seconds in (wall.mid, wall.low, wall.high)]
    yield _line("time", times[0] + _between(times[1], times[2]))
    yield _line("waits for", _LIMITS[estimate.limit])
    yield _line("model", plain(estimate.model))
    yield from _grounds(estimate)
    if estimate.rejected_lines:
        yield Text(f"  ! could not be read: {estimate.rejected_lines:,} lines", style="yellow")


def _windows(estimate: Estimate) -> str:
    if not estimate.windows:
        return "nothing new in it"
    known = f", {estimate.journal_hits:,} of them answered already" if estimate.journal_hits else ""
    return f"{estimate.windows:,} new windows{known}"


def _cost(estimate: Estimate) -> str:
    cost = estimate.cost
    if cost is None:
        return "unknown; --price-in X --price-out Y give the prices of a million tokens"
    return f"{cost.mid:,.4f}" + _between(f"{cost.low:,.4f}", f"{cost.high:,.4f}")


def _grounds(estimate: Estimate) -> Iterator[Text]:
    behaviour = estimate.behaviour
    says = (
        f"{behaviour.facts_per_1000_tokens:.1f} facts per 1,000 tokens of log, "
        f"{behaviour.tokens_per_fact:.0f} reply tokens per fact, "
        f"{behaviour.tokens_per_action:.0f} per decided fact"
    )
    if estimate.measured_calls:
        yield _line("measured", f"{says}, on {estimate.measured_calls:,} replies")
    else:
        yield _line("assumed", f"{says}; --calibrate N measures them")
    counted = {"estimate": "an estimate by scripts", "given": "the given function"}
    yield _line("tokenizer", counted.get(estimate.tokenizer, estimate.tokenizer))
    spent = estimate.spent
    if spent.calls:
        cost = "" if spent.cost is None else f", cost {spent.cost:,.4f}"
        tokens = f"{spent.tokens_in:,} + {spent.tokens_out:,} tokens"
        yield _line("spent", f"{spent.calls:,} calls to calibrate, {tokens}{cost}")


def _line(label: str, text: str) -> Text:
    return Text.assemble((f"  {label:<11}", "dim"), text)


def shown_range(number: Range) -> str:
    """Show a number with its range; alone where there is none.

    Example:
        >>> shown_range(Range(low=900, mid=1000.4, high=1200))
        '1,000 (900 - 1,200)'
    """
    return f"{number.mid:,.0f}" + _between(f"{number.low:,.0f}", f"{number.high:,.0f}")


def _between(low: str, high: str) -> str:
    return "" if low == high else f" ({low} - {high})"


def shown_duration(seconds: float) -> str:
    """Show how long something takes.

    Example:
        >>> shown_duration(42.4), shown_duration(200), shown_duration(9000)
        ('42 s', '3 min 20 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min {whole % _MINUTE_S} s"
    return f"{whole // _HOUR_S:,} h {whole % _HOUR_S // _MINUTE_S} min"
