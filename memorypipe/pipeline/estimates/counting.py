"""Counting the extraction requests of a run, on Ray: exact, and without a call."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.data import ActorPoolStrategy, Dataset

from memorypipe.cells.facts import encode_facts
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.expressions.results import CellResult, status_column
from memorypipe.expressions.worker_errors import plainly
from memorypipe.llm.journal.keys import journal_key
from memorypipe.llm.journal.open import open_journal
from memorypipe.llm.stage import Outcome
from memorypipe.llm.tokens import RequestCounter, TokenCounter, estimate_tokens
from memorypipe.llm.types import Reply, Request
from memorypipe.pipeline.extracted import EXTRACTED, facts_table
from memorypipe.pipeline.on_ray import arrow_batches
from memorypipe.schema import FACTS, WINDOWS

__all__ = ["COUNTED", "KnownReplies", "count_windows"]

#: One row per window.
COUNTED = pa.schema(
    [
        ("scope_key", pa.string()),
        ("request", pa.string()),  # names the request; null where the window asks nothing
        ("prompt_tokens", pa.int64()),
        ("new_tokens", pa.int64()),  # of the messages that the window pays for
        ("known", pa.struct(list(FACTS))),  # where the journal has the reply, or nothing is asked
        ("sampled", pa.struct(list(WINDOWS))),  # where the window is in the batch's sample
    ]
)

# Windows that one call of a counter holds.
_BATCH_WINDOWS = 1_024
_MAX_COUNTERS = 8


class KnownReplies:
    """What a journal knows; it is read, never made or written.

    Args:
        expression: Whose requests are looked up, with its journal.
    """

    def __init__(self, expression: LLMExpression[Any, Any]) -> None:
        self._spec = spec = expression.spec
        place = None if spec.journal is None else spec.journal.removeprefix("file://")
        # Opening one makes its folder.
        there = place is not None and ("://" in place or Path(place).is_dir())
        self._journal = open_journal(place) if place is not None and there else None
        self._loop = asyncio.Runner()

    def key(self, request: Request) -> str:
        """Name a request as the worker does."""
        spec = self._spec
        params = {**request.params, **spec.params}
        return journal_key(spec.endpoint, spec.model, params, request.messages, spec.repeat_key)

    def reply(self, key: str) -> Reply | None:
        """Give the reply to a request; None where there is none."""
        return None if self._journal is None else self._loop.run(self._journal.get(key))


@dataclass(frozen=True, kw_only=True)
class CountSettings:
    """What a counter needs; picklable.

    Attributes:
        extract: Whose requests are counted.
        count_tokens: Counts a text; None takes what is best for the model.
        sample: Windows of a batch that are given whole, those with the lowest request names.
    """

    extract: MemoryExtract
    count_tokens: TokenCounter | None
    sample: int


def count_windows(
    windows: Dataset, extract: MemoryExtract, *, count_tokens: TokenCounter | None, sample: int
) -> Iterator[pa.Table]:
    """Count the requests of windows.

    Args:
        windows: With the columns of `memorypipe.schema.WINDOWS`.
        extract: The expression, with its journal.
        count_tokens: Counts a text; None takes what is best for the model.
        sample: Windows to give whole, per batch.

    Yields:
        Tables of schema `COUNTED`, in any order.
    """
    settings = CountSettings(extract=extract, count_tokens=count_tokens, sample=sample)
    counted = windows.map_batches(
        _Counting,
        fn_constructor_args=(settings,),
        batch_size=_BATCH_WINDOWS,
        batch_format="pyarrow",
        num_cpus=0,  # else it could keep the only CPU from those that cut
        compute=ActorPoolStrategy(min_size=1, max_size=_MAX_COUNTERS),
    )
    yield from arrow_batches(counted)


class _Counting:
    """Counts batches of windows."""

    def __init__(self, settings: CountSettings) -> None:
        self._extract = settings.extract
        self._sample = settings.sample
        self._counter = RequestCounter(settings.extract.spec.model, settings.count_tokens)
        self._replies = KnownReplies(settings.extract)

    def __call__(self, windows: pa.Table) -> pa.Table:
        with plainly():
            requests = self._extract.requests(windows["messages"], windows["context"])
            rows = windows.to_pylist()
            counted = [self._row(*pair) for pair in zip(rows, requests, strict=True)]
        self._add_known(windows, requests, counted)
        for place in _lowest(counted, self._sample):
            counted[place]["sampled"] = rows[place]
        return pa.Table.from_pylist(counted, schema=COUNTED)

    def _row(self, window: Mapping[str, Any], request: Request | None) -> dict[str, Any]:
        new = [m["content"] for m in window["messages"] if not m["background"]]
        return {
            "scope_key": window["scope_key"],
            "request": None if request is None else self._replies.key(request),
            "prompt_tokens": 0 if request is None else self._counter.request(request.messages),
            "new_tokens": sum(map(estimate_tokens, new)),
            "known": None,
            "sampled": None,
        }

    def _add_known(
        self,
        windows: pa.Table,
        requests: Sequence[Request | None],
        counted: Sequence[dict[str, Any]],
    ) -> None:
        cells = {
            place: cell
            for place, request in enumerate(requests)
            if (cell := self._known_cell(request, counted[place]["request"])) is not None
        }
        if not cells:
            return
        known = windows.take(list(cells)).append_column(
            EXTRACTED, status_column(list(cells.values()))
        )
        for place, facts in zip(cells, facts_table(known).to_pylist(), strict=True):
            counted[place]["known"] = facts

    def _known_cell(self, request: Request | None, key: str | None) -> CellResult | None:
        """Give what an extraction would make of a request that costs nothing."""
        if request is None or key is None:
            return CellResult(value=encode_facts(()), status="empty")
        reply = self._replies.reply(key)
        if reply is None:
            return None
        task: Any = request.task
        reading = self._extract.stage.read(task, reply)
        outcome = Outcome(
            value=reading.value,
            status=reading.status,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            latency_ms=reply.latency_ms,
            cached=True,
        )
        value = None if reading.value is None else encode_facts(reading.value)
        return CellResult(value=value, status=reading.status, outcome=outcome)


def _lowest(counted: Sequence[Mapping[str, Any]], size: int) -> list[int]:
    """Choose windows whose reply is not known, by their names: chance that is reproducible."""
    unknown = [(row["request"], place) for place, row in enumerate(counted) if row["known"] is None]
    return [place for _, place in sorted(unknown)[:size]]
