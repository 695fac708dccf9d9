"""Two plans beside each other: which windows and facts they share, and what each cost."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import PlanError
from memorypipe.evidence.likeness import content_words
from memorypipe.pipeline.plans.facts import fact_rows, window_rows
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.summary import RunSummary

__all__ = ["COMPARED_FACTS", "COMPARED_WINDOWS", "Comparison", "compare"]

#: One row per window of either plan; what one of them does not have is null.
COMPARED_WINDOWS = pa.schema(
    [
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("conversation_id", pa.string(), nullable=False),
        pa.field("window_id", pa.string(), nullable=False),
        pa.field("found_in", pa.string(), nullable=False),  # both, a, b
        pa.field("status_a", pa.string()),
        pa.field("status_b", pa.string()),
        pa.field("facts_a", pa.int64()),
        pa.field("facts_b", pa.int64()),
        pa.field("tokens_a", pa.int64()),  # prompt and completion
        pa.field("tokens_b", pa.int64()),
    ]
)

#: One row per fact of either plan, or pair of facts.
COMPARED_FACTS = pa.schema(
    [
        pa.field("scope_key", pa.string(), nullable=False),
        pa.field("conversation_id", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),  # same, reworded, only_a, only_b
        pa.field("text_a", pa.string()),
        pa.field("text_b", pa.string()),
        pa.field("window_id_a", pa.string()),
        pa.field("window_id_b", pa.string()),
        pa.field("source_ids_a", pa.list_(pa.string())),
        pa.field("source_ids_b", pa.list_(pa.string())),
    ]
)

_VERDICTS = ("same", "reworded", "only_a", "only_b")
_MARKS = {"same": "=", "reworded": "~", "only_a": "-", "only_b": "+"}

# Facts that share this part of the words of the shorter one may be one fact in other words.
_ALIKE_SHARE = 0.5
_FROM_SUMMARY = ("calls", "tokens_in", "tokens_out", "cost", "added", "updated", "deleted", "none")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two plans beside each other.

    Attributes:
        a: Numbers of the first plan.
        b: Numbers of the second.
        windows: Schema `COMPARED_WINDOWS`, by scope, conversation and window.
        facts: Schema `COMPARED_FACTS`, by scope and conversation.
    """

    a: RunSummary
    b: RunSummary
    windows: pa.Table
    facts: pa.Table

    def __str__(self) -> str:
        return self.to_text()

    def count(self, verdict: str) -> int:
        """Count the facts of a verdict: ``"same"``, ``"reworded"``, ``"only_a"``, ``"only_b"``."""
        return int(pc.sum(pc.equal(self.facts["verdict"], verdict)).as_py() or 0)

    def count_windows(self, found_in: str) -> int:
        """Count the windows that are in ``"both"``, or in ``"a"`` or ``"b"`` alone."""
        return int(pc.sum(pc.equal(self.windows["found_in"], found_in)).as_py() or 0)

    def different_status(self) -> int:
        """Count the windows of both that ended with another status."""
        differs = pc.not_equal(self.windows["status_a"], self.windows["status_b"])
        return int(pc.sum(differs).as_py() or 0)

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Give the comparison as JSON values.

        Args:
            limit: At most so many facts that differ; None: all.
        """
        found = ("both", "a", "b")
        return {
            "run_a": self.a.run_id,
            "run_b": self.b.run_id,
            "windows": {
                **{name: self.count_windows(name) for name in found},
                "different_status": self.different_status(),
            },
            "facts": {verdict: self.count(verdict) for verdict in _VERDICTS},
            "a": {name: getattr(self.a, name) for name in _FROM_SUMMARY},
            "b": {name: getattr(self.b, name) for name in _FROM_SUMMARY},
            "differences": self.differences(limit),
        }

    def differences(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Give the facts that are not the same in both, as Python values; at most `limit`."""
        rows = self.facts.filter(pc.not_equal(self.facts["verdict"], "same"))
        rows = rows if limit is None else rows.slice(0, limit)
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    def to_text(self, limit: int | None = None) -> str:
        """Show the comparison as lines: ``~ a → b`` reworded, ``- only in a``, ``+ only in b``.

        Args:
            limit: At most so many facts that differ; None: all.
        """
        return "\n".join(self._lines(limit))

    def _lines(self, limit: int | None) -> Iterator[str]:
        yield f"A  {self.a.run_id}"
        yield f"B  {self.b.run_id}"
        windows = [f"{self.count_windows(name):,} {name}" for name in ("both", "a", "b")]
        yield f"windows  {', '.join(windows)}; {self.different_status():,} with another status"
        facts = ", ".join(f"{self.count(verdict):,} {verdict}" for verdict in _VERDICTS)
        yield f"facts    {facts}"
        shown = self.differences(limit)
        for row in shown:
            texts = [text for text in (row["text_a"], row["text_b"]) if text is not None]
            yield f"  {_MARKS[row['verdict']]} {' → '.join(texts)}"
        more = sum(map(self.count, _VERDICTS[1:])) - len(shown)
        if more:
            yield f"  … {more:,} more"


def compare(plan_a: Plan, plan_b: Plan) -> Comparison:
    """Match the windows and facts of two plans, of two models or prompts say.

    Windows match by their id, which follows from what they hold. Facts match within a
    conversation, whatever windows it was cut into: as the same where they say the same but for
    small matters of form; as reworded where they share a source and half of their words, the
    likest first.

    Args:
        plan_a: One plan.
        plan_b: Another one, of the same table or not.

    Raises:
        PlanError: For a plan without windows, as that of an import.
    """
    for plan in (plan_a, plan_b):
        if not plan.fact_parts() and plan.actions().num_rows:
            raise PlanError(
                f"Run {plan.run_id!r} was not made from a log: it has no windows and facts to "
                "compare; look at it with plan.diff() (memorypipe diff)."
            )
    return Comparison(
        a=plan_a.summary(),
        b=plan_b.summary(),
        windows=_compare_windows(window_rows(plan_a), window_rows(plan_b)),
        facts=_compare_facts(fact_rows(plan_a), fact_rows(plan_b)),
    )


def _compare_windows(a: pa.Table, b: pa.Table) -> pa.Table:
    keys = ["scope_key", "conversation_id", "window_id"]
    joined = _numbers(a, "a").join(_numbers(b, "b"), keys=keys, join_type="full outer")
    in_a, in_b = pc.is_valid(joined["status_a"]), pc.is_valid(joined["status_b"])
    found_in = pc.if_else(pc.and_(in_a, in_b), "both", pc.if_else(in_a, "a", "b"))
    rows = joined.append_column("found_in", found_in).select(COMPARED_WINDOWS.names)
    return rows.cast(COMPARED_WINDOWS).sort_by([(name, "ascending") for name in keys])


def _numbers(windows: pa.Table, side: str) -> pa.Table:
    tokens = pc.add(windows["prompt_tokens"], windows["completion_tokens"])
    rows = windows.drop_columns(["prompt_tokens", "completion_tokens"])
    rows = rows.append_column("tokens", tokens)
    return rows.rename_columns(
        [f"{n}_{side}" if n in {"status", "facts", "tokens"} else n for n in rows.column_names]
    )


def _compare_facts(a: pa.Table, b: pa.Table) -> pa.Table:
    """Pair the facts of two plans, by their places."""
    same_a, same_b = _same(a["says"], b["says"])
    left_a, left_b = _left(a.num_rows, same_a), _left(b.num_rows, same_b)
    pairs = _reworded(a.take(pa.array(left_a)), b.take(pa.array(left_b)))
    near_a = left_a[np.array([pair[0] for pair in pairs], np.int64)]
    near_b = left_b[np.array([pair[1] for pair in pairs], np.int64)]
    only_a = np.setdiff1d(left_a, near_a)
    only_b = np.setdiff1d(left_b, near_b)
    none_a, none_b = np.full(len(only_b), -1), np.full(len(only_a), -1)
    parts = [
        ("same", same_a, same_b),
        ("reworded", near_a, near_b),
        ("only_a", only_a, none_b),
        ("only_b", none_a, only_b),
    ]
    rows = pa.concat_tables([_paired(a, b, *part) for part in parts])
    names = ("scope_key", "conversation_id", "verdict", "window_id_a", "window_id_b", "text_a")
    return rows.sort_by([(name, "ascending") for name in (*names, "text_b")])


def _left(count: int, taken: Any) -> Any:
    return np.setdiff1d(np.arange(count), taken)


def _same(a: pa.ChunkedArray, b: pa.ChunkedArray) -> tuple[Any, Any]:
    """Pair equal values, the first of each side with the first of the other, and so on."""
    columns = [*a.chunks, *b.chunks]
    encoded = pa.chunked_array(columns, pa.binary(16)).combine_chunks().dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int64)
    # Of equal ones, the n-th has the n-th number.
    keyed_a, keyed_b = (_numbered(each, len(codes)) for each in (codes[: len(a)], codes[len(a) :]))
    _, places_a, places_b = np.intersect1d(
        keyed_a, keyed_b, assume_unique=True, return_indices=True
    )
    return places_a, places_b


def _numbered(codes: Any, limit: int) -> Any:
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[len(ordered) > 0], np.diff(ordered) != 0]))
    lengths = np.diff(np.append(starts, len(ordered)))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return codes * (limit + 1) + numbers


def _reworded(a: pa.Table, b: pa.Table) -> list[tuple[int, int]]:
    """Pair facts that are left in conversations of both sides, by their places."""
    in_a, in_b = _by_conversation(a, b), _by_conversation(b, a)
    pairs: list[tuple[int, int]] = []
    for key, ours in in_a.items():
        theirs = in_b[key]
        scored = [
            (-likeness, n, m)
            for n, one in ours.items()
            for m, other in theirs.items()
            if (likeness := _likeness(one, other)) >= _ALIKE_SHARE
        ]
        free_a, free_b = set(ours), set(theirs)
        for _, n, m in sorted(scored):
            if n in free_a and m in free_b:
                free_a.remove(n)
                free_b.remove(m)
                pairs.append((n, m))
    return pairs


_Fact = tuple[frozenset[str], frozenset[str]]


def _by_conversation(
    rows: pa.Table, others: pa.Table
) -> Mapping[tuple[str, str], dict[int, _Fact]]:
    """Give sources and words of facts, by their places; of conversations that others have too."""
    names = ["scope_key", "conversation_id"]
    keys = [
        pc.binary_join_element_wise(*(each[name] for name in names), "\n")
        for each in (rows, others)
    ]
    shared = np.flatnonzero(np.asarray(pc.is_in(keys[0], keys[1].combine_chunks())))
    found: defaultdict[tuple[str, str], dict[int, _Fact]] = defaultdict(dict)
    chosen = rows.select([*names, "text", "source_ids"]).take(pa.array(shared))
    for place, row in zip(shared.tolist(), chosen.to_pylist(), strict=True):
        sources, words = frozenset(row["source_ids"] or ()), content_words(row["text"])
        found[row["scope_key"], row["conversation_id"]][place] = (sources, frozenset(words))
    return found


def _likeness(one: _Fact, other: _Fact) -> float:
    """Give the part of the words of the shorter text that both have; 0 without a source of both."""
    (sources, words), (other_sources, other_words) = one, other
    if sources and other_sources and not sources & other_sources:
        return 0.0
    shorter = min(len(words), len(other_words))
    return len(words & other_words) / shorter if shorter else 0.0


def _paired(a: pa.Table, b: pa.Table, verdict: str, in_a: Any, in_b: Any) -> pa.Table:
    """Lay pairs out; -1 where a side has none."""
    sides = [
        side.take(pa.array(places, pa.int64(), mask=places < 0))
        for side, places in ((a, in_a), (b, in_b))
    ]
    columns: dict[str, Any] = {
        name: pc.coalesce(sides[0][name], sides[1][name])
        for name in ("scope_key", "conversation_id")
    }
    columns["verdict"] = pa.array([verdict] * len(in_a), pa.string())
    for side, rows in zip("ab", sides, strict=True):
        for name in ("text", "window_id", "source_ids"):
            columns[f"{name}_{side}"] = rows[name]
    ordered: Sequence[Any] = [columns[name] for name in COMPARED_FACTS.names]
    return pa.table(ordered, schema=COMPARED_FACTS)
