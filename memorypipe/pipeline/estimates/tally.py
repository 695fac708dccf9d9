"""What is known of a run's windows once they are counted: a few numbers per window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.pipeline.estimates.behaviour import MeasuredExtraction
from memorypipe.schema import FACTS, WINDOWS

__all__ = ["Scopes", "WindowTally", "fact_count", "measured"]

Column = np.ndarray[tuple[int], np.dtype[Any]]

_KEY_DIGITS = 16
_NO_FACTS = -1
_MOST_MEASURED = 400


def measured(row: Mapping[str, Any], counted_tokens: int, new_tokens: int) -> MeasuredExtraction:
    """Say what a row of schema `memorypipe.schema.FACTS` tells of the model."""
    return MeasuredExtraction(
        new_tokens=new_tokens,
        facts=fact_count(row["facts_json"]),
        counted_tokens=counted_tokens,
        prompt_tokens=row["prompt_tokens"],
        completion_tokens=row["completion_tokens"],
        latency_s=row["latency_ms"] / 1e3,
    )


def _key(name: str) -> int:
    """Shorten the name of a request; that two of one run share it is next to impossible."""
    return int(name[:_KEY_DIGITS], 16)


def fact_count(facts_json: str | None) -> int:
    """Count the facts in a cell."""
    return len(orjson.loads(facts_json)["memories"]) if facts_json else 0


@dataclass(frozen=True, kw_only=True)
class Scopes:
    """Numbers per scope, in the order of `keys`.

    Attributes:
        keys: The scopes.
        unknown_tokens: Estimated tokens of new messages whose facts are not known.
        known_facts: Facts that are known.
        is_known: Whether all of a scope's facts are known.
    """

    keys: list[str]
    unknown_tokens: Column
    known_facts: Column
    is_known: Column


@dataclass(kw_only=True)
class WindowTally:
    """Adds the windows of a run up; some thirty bytes a window are kept.

    Attributes:
        sample_size: Windows to keep whole, those with the lowest request names.
        sampled: These windows, schema `memorypipe.schema.WINDOWS`.
        measured: What the journal tells of extractions, of the first some hundred windows.
        known: Their rows, of schema `memorypipe.schema.FACTS`.
    """

    sample_size: int
    sampled: pa.Table = field(default_factory=WINDOWS.empty_table)
    measured: list[MeasuredExtraction] = field(default_factory=list)
    known: list[Mapping[str, Any]] = field(default_factory=list)
    _scopes: dict[str, int] = field(default_factory=dict)
    _columns: list[tuple[Column, ...]] = field(default_factory=list)
    _sampled_names: list[str] = field(default_factory=list)

    def add(self, counted: pa.Table) -> pa.Table:
        """Take one table of schema `COUNTED` in, and give the facts that are known."""
        names = counted["request"].to_pylist()
        known = counted["known"].to_pylist()
        columns = (
            [
                self._scopes.setdefault(k, len(self._scopes))
                for k in counted["scope_key"].to_pylist()
            ],
            [_key(name) if name else 0 for name in names],
            counted["prompt_tokens"].to_pylist(),
            counted["new_tokens"].to_pylist(),
            [_NO_FACTS if row is None else fact_count(row["facts_json"]) for row in known],
        )
        kinds = (np.int32, np.uint64, np.int32, np.int32, np.int32)
        self._columns.append(
            tuple(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True))
        )
        self._keep_sample(counted)
        self._keep_measured(counted, known)
        return pa.Table.from_pylist([row for row in known if row is not None], schema=FACTS)

    def _keep_measured(self, counted: pa.Table, known: Sequence[Mapping[str, Any] | None]) -> None:
        numbers = zip(
            known,
            *(counted[n].to_pylist() for n in ("request", "prompt_tokens", "new_tokens")),
            strict=True,
        )
        for row, name, prompt_tokens, new_tokens in numbers:
            if row is not None and name and len(self.measured) < _MOST_MEASURED:
                self.measured.append(measured(row, prompt_tokens, new_tokens))
                self.known.append(row)

    def _keep_sample(self, counted: pa.Table) -> None:
        new = counted.filter(pc.is_valid(counted["sampled"]))
        names = [*self._sampled_names, *new["request"].to_pylist()]
        rows = [*self.sampled.to_pylist(), *new["sampled"].to_pylist()]
        # Equal requests are one call.
        places = dict(sorted(zip(names, range(len(names)), strict=True)))
        chosen = dict(islice(places.items(), self.sample_size))
        self._sampled_names = list(chosen)
        self.sampled = pa.Table.from_pylist([rows[n] for n in chosen.values()], schema=WINDOWS)

    def sample_numbers(self) -> dict[str, tuple[int, int]]:
        """Give the counted prompt tokens and the new tokens of sampled windows, by window id."""
        _, names, prompt, new, _ = self._all()
        place = {name: n for n, name in enumerate(names.tolist())}
        keys = [place[_key(name)] for name in self._sampled_names]
        window_ids = self.sampled["window_id"].to_pylist()
        return {w: (int(prompt[n]), int(new[n])) for w, n in zip(window_ids, keys, strict=True)}

    def learn(self, facts: Mapping[str, int]) -> None:
        """Take over how many facts sampled windows have, by window id."""
        names = zip(self.sampled["window_id"].to_pylist(), self._sampled_names, strict=True)
        keys = {window_id: _key(name) for window_id, name in names}
        columns = self._all()
        for window_id, count in facts.items():
            columns[4][columns[1] == keys[window_id]] = count

    @property
    def windows(self) -> int:
        """Windows in all."""
        return len(self._all()[0])

    def unpaid(self) -> tuple[int, int, float]:
        """Give the requests to be paid, their prompt tokens, and the tokens that bring facts."""
        _, names, prompt, new, facts = self._all()
        unknown = facts == _NO_FACTS
        _, first = np.unique(names[unknown], return_index=True)
        return (
            len(first),
            int(prompt[unknown][first].sum(dtype=np.int64)),
            float(new[unknown][first].sum(dtype=np.int64)),
        )

    def journal_hits(self) -> int:
        """Count the windows whose reply is known or shared with another window."""
        _, names, _, _, _ = self._all()
        return int((names != 0).sum()) - self.unpaid()[0]

    def scopes(self) -> Scopes:
        """Add up per scope."""
        scope, _, _, new, facts = self._all()
        count, unknown = len(self._scopes), facts == _NO_FACTS
        return Scopes(
            keys=list(self._scopes),
            unknown_tokens=np.bincount(scope, weights=new * unknown, minlength=count),
            known_facts=np.bincount(scope, weights=np.maximum(facts, 0), minlength=count),
            is_known=np.bincount(scope, weights=unknown, minlength=count) == 0,
        )

    def _all(self) -> tuple[Column, ...]:
        if len(self._columns) != 1:
            empty = [np.empty(0, dtype=k) for k in (np.int32, np.uint64, *[np.int32] * 3)]
            parts = zip(empty, *self._columns, strict=True)
            self._columns = [tuple(np.concatenate(part) for part in parts)]
        return self._columns[0]
