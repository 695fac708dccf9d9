"""What a look at a machine, a table and an endpoint found, line by line. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from memorypipe.cli.output import plain

__all__ = ["Finding", "State", "doctor_lines", "fail", "good", "skip", "warn"]

State = Literal["ok", "warn", "fail", "skip"]

_STYLES: dict[State, str] = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line.

    Attributes:
        check: What was looked at.
        state: How it is: ``"fail"`` keeps a run from working, ``"warn"`` may; ``"skip"`` was not
            looked at.
        told: What was found.
        next_step: What to do; None where nothing is to be done.
    """

    check: str
    state: State
    told: str
    next_step: str | None = None


def good(check: str, told: str) -> Finding:
    """Say that something is as it should be."""
    return Finding(check=check, state="ok", told=told)


def warn(check: str, told: str, next_step: str) -> Finding:
    """Say that something may go wrong."""
    return Finding(check=check, state="warn", told=told, next_step=next_step)


def fail(check: str, told: str, next_step: str) -> Finding:
    """Say that something is wrong."""
    return Finding(check=check, state="fail", told=told, next_step=next_step)


def skip(check: str, told: str, next_step: str | None = None) -> Finding:
    """Say that something was not looked at."""
    return Finding(check=check, state="skip", told=told, next_step=next_step)


def doctor_lines(findings: Sequence[Finding]) -> Iterator[Text]:
    """Show findings, each with its next step."""
    width = max((len(finding.check) for finding in findings), default=0)
    for finding in findings:
        style = _STYLES[finding.state]
        line = Text.assemble((f"  {finding.state:<4}", style), f"  {finding.check:<{width}}  ")
        yield line.append(plain(finding.told))
        if finding.next_step is not None:
            yield Text(f"{'':{width + 10}}→ {plain(finding.next_step)}", style="cyan")
    counts = [
        f"{sum(finding.state == state for finding in findings)} {word}"
        for state, word in (("ok", "ok"), ("warn", "to look at"), ("fail", "wrong"))
    ]
    yield Text("")
    yield Text("  " + ", ".join(counts), style="bold")
