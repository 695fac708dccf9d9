"""`audit`: what is wrong in a table."""

from collections.abc import Iterator

from memorypipe.cli.audit_options import AuditOptions
from memorypipe.cli.exit_codes import ExitCode, Threshold
from memorypipe.cli.output import Output
from memorypipe.cli.render_audit import audit_lines
from memorypipe.cli.table_commands import open_table
from memorypipe.cli.values import parse_scope
from memorypipe.table.auditing.report import AuditReport

__all__ = ["audit", "exceeded"]


def audit(options: AuditOptions) -> int:
    """Look for what is wrong in the live memories of a table; changes nothing."""
    output = Output(as_json=options.json)
    limits = _limits(options)
    scope = parse_scope(options.scope or [])
    report = open_table(options.table).audit(
        scope, examples=options.examples, large_scope=options.large_scope
    )
    broken = list(exceeded(report, limits))
    value = {
        "status": "exceeded" if broken else "done",
        **report.to_dict(),
        "exceeded": broken,
        "table": options.table,
    }
    output.result(value, audit_lines(report, table=options.table))
    for message in broken:
        output.error(message)
    return ExitCode.INCOMPLETE if broken else ExitCode.DONE


def _limits(options: AuditOptions) -> dict[str, Threshold]:
    given = {
        name: getattr(options, f"max_{name}")
        for name in ("duplicates", "near_duplicates", "contradictions", "orphans", "junk")
    }
    return {
        name: Threshold.parse(_option(name), text)
        for name, text in given.items()
        if text is not None
    }


def _option(name: str) -> str:
    return f"--max-{name.replace('_', '-')}"


def exceeded(report: AuditReport, limits: dict[str, Threshold]) -> Iterator[str]:
    """Say which limits a report exceeds.

    Args:
        report: The report.
        limits: By ``"orphans"``, ``"junk"``, or the name of a check.
    """
    counts = {"orphans": report.orphans, "junk": report.junk}
    counts |= {check: finding.count for check, finding in report.findings.items()}
    for name, limit in limits.items():
        if limit.is_exceeded(counts[name], report.memories):
            what = name.replace("_", " ")
            yield f"{counts[name]:,} {what} of {report.memories:,} are more than {_option(name)}."
