"""`ingest` and `flush`: events into streams, and memories of what is due."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any

import orjson
from rich.text import Text

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import Output, counted, plain, shown_scope, shown_time
from memorypipe.cli.prepare import Prepared, prepare
from memorypipe.cli.run_commands import check_access, interrupted, running_pipeline
from memorypipe.cli.run_options import RunOptions
from memorypipe.cli.stream_options import IngestOptions, run_options
from memorypipe.errors import InvalidArgumentError, InvalidRequestError
from memorypipe.llm.spec import OFFLINE_MODEL
from memorypipe.streams.flush import FlushedStream, FlushReport
from memorypipe.streams.generation import Generate, Generated, Generation
from memorypipe.streams.operations import IngestedBatch
from memorypipe.streams.streams import EventStreams

__all__ = ["flush", "flush_lines", "ingest", "watch"]

_SHOWN_STREAMS = 20


def ingest(options: IngestOptions) -> int:
    """Store the events of requests, one JSON line each."""
    output = Output(as_json=options.json)
    streams = EventStreams(options.table)
    counts = dict.fromkeys(("requests", "events", "new", "duplicates"), 0)
    with _opened(options.requests) as lines:
        try:
            for numbers, requests in _batches(lines, options.batch):
                batch = _ingest_batch(streams, numbers, requests)
                counts["requests"] += len(requests)
                counts["events"] += batch.events
                counts["new"] += batch.new
                counts["duplicates"] += batch.duplicates
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{error} {_stored(counts['requests'])}") from error
    due = len(streams.due())
    value = {"status": "done", **counts, "due": due, "table": options.table}
    output.result(value, _ingest_lines(counts, due))
    return ExitCode.DONE


def _ingest_batch(
    streams: EventStreams, numbers: Sequence[int], requests: Sequence[Mapping[str, Any]]
) -> IngestedBatch:
    try:
        return streams.ingest_batch(requests)
    except InvalidRequestError as error:
        raise InvalidArgumentError(f"Line {numbers[error.number]}: {error.reason}") from error


def _ingest_lines(counts: Mapping[str, int], due: int) -> Iterator[Text]:
    yield Text("stored", style="bold green")
    told = f"  {counts['new']:,} new of {counted(counts['events'], 'event')}"
    yield Text(f"{told}, in {counted(counts['requests'], 'request')}")
    if due:
        yield Text(f"  streams that are due: {due:,} (memorypipe flush)", style="dim")


def _opened(name: str) -> IO[bytes]:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise InvalidArgumentError(f"FILE {name!r} cannot be read: {error.strerror}.") from error


def _batches(lines: IO[bytes], size: int) -> Iterator[tuple[list[int], list[Mapping[str, Any]]]]:
    """Read requests, so many at a time, each batch with the numbers of its lines."""
    numbered = ((n, line) for n, line in enumerate(lines, start=1) if line.strip())
    while batch := list(islice(numbered, size)):
        yield [number for number, _ in batch], [_request(number, line) for number, line in batch]


def _request(number: int, line: bytes) -> Mapping[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidArgumentError(f"Line {number} is no JSON: {error}.") from error
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(
            f"Line {number} must be an object with the fields of a request, got {value!r:.40}."
        )
    return value


def _stored(requests: int) -> str:
    if not requests:
        return "Nothing is stored."
    return f"What came before its batch is stored: {counted(requests, 'request')}."


def flush(options: Any) -> int:
    """Make memories of what is due in the streams."""
    output = Output(as_json=options.json)
    if options.dry_run:
        return _show_due(EventStreams(options.table), output)
    run = run_options(options)
    prepared = prepare(run, offline_model=OFFLINE_MODEL)
    with ExitStack() as stack:
        generate = _lazily(run, prepared, output, stack)
        streams = EventStreams(options.table, pipeline=generate)
        try:
            if options.watch:
                return watch(streams.flush, output, every_s=options.every)
            report = streams.flush()
        except KeyboardInterrupt as interrupt:
            return interrupted(output, getattr(interrupt, "__notes__", ()))
    output.result(_value(report), flush_lines(report))
    return _exit_code(report)


def _lazily(run: RunOptions, prepared: Prepared, output: Output, stack: ExitStack) -> Generate:
    """Give what starts model and Ray once something is due, and not before."""
    made: list[Generate] = []

    def generate(generation: Generation) -> Mapping[bytes, Generated]:
        if not made:
            from memorypipe.streams.on_pipeline import PipelineGenerate  # noqa: PLC0415  # imports Ray

            check_access(prepared)
            pipeline = stack.enter_context(running_pipeline(run, prepared, output))
            made.append(PipelineGenerate(pipeline))
        return made[0](generation)

    return generate


def watch(
    flush_once: Callable[[], FlushReport],
    output: Output,
    *,
    every_s: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Flush now and then, until interrupted; tell of what was due.

    Args:
        flush_once: Flushes.
        output: Where to.
        every_s: Seconds from the end of one to the next.
        sleep: Waits.
        clock: Gives the time that is shown.
    """
    output.note(f"Flushing every {every_s:g} s; Ctrl-C ends it.")
    while True:
        report = flush_once()
        if report.streams:
            at = clock()
            shown = Text(f"{shown_time(at)}  ", style="dim")
            first, *rest = flush_lines(report)
            output.result({"at": at, **_value(report)}, [shown + first, *rest])
        try:
            sleep(every_s)
        except KeyboardInterrupt:
            return ExitCode.DONE


def _value(report: FlushReport) -> dict[str, Any]:
    status = "partial" if report.failed else "done" if report.streams else "nothing"
    return {"status": status, **report.to_dict()}


def _exit_code(report: FlushReport) -> int:
    return ExitCode.INCOMPLETE if report.failed else ExitCode.DONE


def flush_lines(report: FlushReport) -> Iterator[Text]:
    """Show a report to people."""
    if not report.streams:
        yield Text("nothing is due", style="bold")
        yield Text(f"  of {counted(report.evaluated, 'stream')}")
        return
    good = [each for each in report.streams if each.error is None]
    due = {(shown_scope(each.scope), each.stream_id) for each in report.streams}
    style = "bold yellow" if report.failed else "bold green"
    yield Text("partial" if report.failed else "done", style=style).append(
        f"  {len(due):,} of {report.evaluated:,} streams were due", style="default"
    )
    totals = [sum(getattr(each, name) for each in good) for name in ("created", "updated")]
    deleted = sum(each.deleted for each in good)
    yield Text(
        f"  +{totals[0]:,} ~{totals[1]:,} -{deleted:,} memories, run {', '.join(report.run_ids)}"
    )
    yield from _stream_lines(report.streams)


def _stream_lines(streams: Sequence[FlushedStream]) -> Iterator[Text]:
    # Those that failed first: of the others nothing has to be done.
    ordered = sorted(streams, key=lambda each: each.error is None)
    for each in ordered[:_SHOWN_STREAMS]:
        line = Text(f"  {shown_scope(each.scope)} / {plain(each.stream_id)}: ")
        line.append(f"{counted(each.events, 'event')}, {each.reason}", style="dim")
        if each.error is not None:
            line.append(f"  failed, stays pending: {plain(each.error)}", style="yellow")
        yield line
    if len(ordered) > _SHOWN_STREAMS:
        yield Text(f"  … and {len(ordered) - _SHOWN_STREAMS:,} more", style="dim")


def _show_due(streams: EventStreams, output: Output) -> int:
    due, evaluated = streams.due(), streams.count()
    value = {"status": "preview", "due": due, "evaluated": evaluated}
    lines = [Text(f"streams that are due: {len(due):,} of {evaluated:,}", style="bold")]
    lines += [Text(f"  {name}: {reason}") for name, reason in list(due.items())[:_SHOWN_STREAMS]]
    output.result(value, lines)
    return ExitCode.DONE
