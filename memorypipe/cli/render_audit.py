"""An audit as text for people. Pure."""

import json
from collections.abc import Iterator

from rich.text import Text

from memorypipe.cli.output import plain, shown_scope
from memorypipe.cli.render_change import table_option
from memorypipe.table.auditing.report import AuditReport, Check, Example, Finding

__all__ = ["audit_lines"]

_TITLES: dict[Check, tuple[str, str]] = {
    "duplicates": ("duplicates", "say what an earlier memory of their scope says"),
    "near_duplicates": ("near duplicates", "say it in nearly the same words"),
    "contradictions": ("may contradict", "give another value, or deny what another one says"),
    "unknown_run": ("unknown run", "name a run that the table does not know"),
    "unknown_conversation": ("unknown log", "name a conversation that no run has dealt with"),
    "unknown_source": ("unknown source", "name a message that no run has dealt with"),
    "no_source": ("no source", "name no message"),
    "no_time": ("no time", "do not tell when they were said"),
    "no_vector": ("no vector", "are found by no search for their meaning"),
    "empty": ("empty", "have a blank text"),
    "one_word": ("one word", "have a text of one word"),
    "question": ("questions", "ask something"),
    "chatter": ("chatter", "are what an assistant says"),
    "transcript": ("transcript", "are a piece of a log as it was"),
    "instruction": ("instructions", "give the memory system orders"),
    "forgotten": ("forgotten", "say what was forgotten, on no later evidence"),
    "large_scope": ("large scopes", "are in a scope of very many"),
}
_CHANCE = 0.0005
_SHOWN_SCOPES = 3


def audit_lines(report: AuditReport, *, table: str) -> Iterator[Text]:
    """Show what an audit found, the checks that found something with examples.

    Args:
        report: What it found.
        table: The table's place, as the user gave it.
    """
    found = [finding for finding in report.findings.values() if finding.count]
    style = "bold yellow" if found else "bold green"
    head = (
        "clean" if not found else f"{len(found)} of {len(report.findings)} checks found something"
    )
    yield Text.assemble((head, style), f"  version {report.version}")
    yield Text.assemble(
        ("  memories   ", "dim"), f"{report.memories:,} in {report.scopes:,} scopes"
    )
    if report.tombstones or report.erased_scopes:
        blocked = (
            f"{report.tombstones:,} forgotten memories, {report.erased_scopes:,} erased scopes"
        )
        yield Text.assemble(("  blocked    ", "dim"), blocked)
    for finding in found:
        yield Text("")
        yield from _finding_lines(finding)
    if report.unchecked:
        yield Text("")
    for check, reason in sorted(report.unchecked.items()):
        yield Text(
            f"  not checked in full: {_TITLES[_as_check(check)][0]} ({plain(reason)})", "dim"
        )
    if any(report.findings[c].count for c in ("duplicates", "near_duplicates", "contradictions")):
        yield Text("")
        command = f"memorypipe consolidate{table_option(table)}"
        yield Text.assemble(
            (f"  {command}", "cyan"), ("  plan to put in order what is alike", "dim")
        )


def _as_check(name: str) -> Check:
    return next(check for check in _TITLES if check == name)


def _finding_lines(finding: Finding) -> Iterator[Text]:
    title, what = _TITLES[finding.check]
    count = f"{finding.count:,} ({_percent(finding.share)})"
    yield Text.assemble((f"  {title:<16}", "bold"), f" {count}  {what}")
    if finding.scopes > 1:
        most = list(finding.by_scope.items())[:_SHOWN_SCOPES]
        named = ", ".join(f"{_scope(key)} {count:,}" for key, count in most)
        yield Text(f"      in {finding.scopes:,} scopes: {named}", style="dim")
    for example in finding.examples:
        yield _example_line(example)


def _example_line(example: Example) -> Text:
    line = Text.assemble(
        (f"      {_scope(example.scope_key)}  ", "dim"), plain(example.text) or "(blank)"
    )
    if example.other_text is not None:
        line.append("  ↔  ", style="dim").append(plain(example.other_text))
    return line.append(f"  {example.memory_id}", style="dim")


def _scope(scope_key: str) -> str:
    return shown_scope(json.loads(scope_key))


def _percent(share: float) -> str:
    """Show a share.

    Example:
        >>> _percent(0.123), _percent(0.0001)
        ('12.3 %', 'under 0.1 %')
    """
    return "under 0.1 %" if share < _CHANCE else f"{100 * share:.1f} %"
