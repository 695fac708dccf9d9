"""What the expressions that call a model share."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, Self, TypeVar

import pyarrow as pa
from ray.data.expressions import Expr

from memorypipe.errors import InvalidArgumentError, InvalidCellError
from memorypipe.expressions.base import Expression, Rows
from memorypipe.expressions.options import WorkerOptions
from memorypipe.expressions.ray_metrics import publish
from memorypipe.expressions.results import CellResult
from memorypipe.expressions.worker_process import worker_of
from memorypipe.llm.journal.open import absolute_journal
from memorypipe.llm.keys import NO_KEY
from memorypipe.llm.owner import Owner
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, Prices, RateScope
from memorypipe.llm.stage import Outcome, Stage
from memorypipe.llm.types import ChatMessage, Request
from memorypipe.llm.worker import Worker

__all__ = ["LLMExpression"]

# The fewest and the most rows of a block, and how long one should take at a given pace.
_BLOCK_ROWS = (8, 256)
_BLOCK_S = 10.0

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")


class LLMExpression(Expression, Generic[TaskT, ValueT]):
    """An expression each of whose rows is one task for a model.

    Subclasses say how a row becomes a task, and how an outcome becomes a cell.

    Beside what `ModelSpec` says of the parameters: `base_url` may be a list, the replicas of one
    endpoint; `price_in` and `price_out` are per million tokens; ``journal_only=True`` answers
    from `journal` or not at all; a number as `timeout` bounds each call in seconds (600).
    """

    _once = True

    def __init__(  # noqa: PLR0913  # the published signature
        self,
        *,
        base_url: str | Sequence[str],
        model: str,
        api_key: Any = NO_KEY,
        max_qps: float | None = None,
        max_concurrency: int | None = None,
        max_retries: int = 0,
        hint: str | Sequence[str] | None = None,
        ensure_ascii: bool = False,
        hint_mode: Literal["replace", "append"] = "replace",
        on_invalid: Literal["raise", "null"] = "raise",
        journal: str | None = None,
        endpoint_name: str | None = None,
        repeat_key: str | None = None,
        rate_scope: RateScope = "worker",
        max_tokens_per_minute: int | None = None,
        ca_file: str | None = None,
        proxy: str | None = None,
        price_in: float | None = None,
        price_out: float | None = None,
        journal_only: bool = False,
        **kwargs: Any,
    ) -> None:
        if hint_mode not in {"replace", "append"}:
            raise InvalidArgumentError(
                f"hint_mode must be 'replace' or 'append', got {hint_mode!r}."
            )
        if on_invalid not in {"raise", "null"}:
            raise InvalidArgumentError(f"on_invalid must be 'raise' or 'null', got {on_invalid!r}.")
        first, replicas = _addresses(base_url)
        self.spec = ModelSpec(
            base_url=first,
            replicas=replicas,
            model=model,
            api_key=api_key,
            max_qps=max_qps,
            max_concurrency=max_concurrency,
            max_retries=max_retries,
            max_tokens_per_minute=max_tokens_per_minute,
            params=kwargs,
            journal=_found_anywhere(journal),
            endpoint_name=endpoint_name,
            repeat_key=repeat_key,
            rate_scope=rate_scope,
            ca_file=ca_file,
            proxy=proxy,
            prices=_prices(price_in, price_out),
            journal_only=journal_only,
        )
        self._ensure_ascii = ensure_ascii
        self._hint: str | None = hint if isinstance(hint, str | None) else "\n".join(hint)
        self._hint_mode = hint_mode
        self._on_invalid = on_invalid
        self._options = WorkerOptions()
        self._owner: Owner | None = None
        self.stage = self._make_stage()

    def journalled(self, journal: str) -> Self:
        """Give a copy that keeps its replies in a journal, unless it has one already.

        Args:
            journal: Address of the journal. The rule-based model costs nothing and needs none.
        """
        if self.spec.journal is not None or self.spec.base_url == OFFLINE_URL:
            return self
        changed = copy(self)
        changed.spec = replace(self.spec, journal=_found_anywhere(journal))
        return changed

    def limited_with(self, limit_group: str | None) -> Self:
        """Give a copy that shares its limits with all of a run that name the same group.

        Args:
            limit_group: Names the limits; None keeps them to this expression.
        """
        changed = copy(self)
        changed.spec = replace(self.spec, limit_group=limit_group)
        return changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.spec!r}, {self._options!r})"

    @abstractmethod
    def _make_stage(self) -> Stage[TaskT, ValueT]:
        """Make the stage that asks and reads."""

    @abstractmethod
    def _prepare(self, row: tuple[Any, ...], number: int) -> TaskT | CellResult:
        """Turn a row into a task, or into its cell where nothing needs to be asked."""

    @abstractmethod
    def _finish(self, task: TaskT, outcome: Outcome[ValueT]) -> CellResult:
        """Turn an outcome into the cell."""

    @property
    def prompt_hash(self) -> str:
        """Hash of the instructions, the format rule and the schema."""
        return self.stage.prompt_hash

    @property
    def block_rows(self) -> int:
        """Rows that a worker should get at a time."""
        return self._block_rows()

    def _block_rows(self) -> int:
        """As many rows as there are requests in flight: few enough that progress shows.

        A slow pace makes them fewer still: what is in hand should be done in seconds.
        """
        rows = min(max(self.spec.concurrency, _BLOCK_ROWS[0]), _BLOCK_ROWS[1])
        if self.spec.max_qps is None:
            return rows
        return min(rows, max(1, round(self.spec.max_qps * _BLOCK_S)))

    def _begin(self) -> Callable[[], None]:
        """Make the client, before a block's worth of threads wait for it and for each other."""
        return partial(_make_worker, self.spec)

    def _call(self, *cells: Any) -> pa.Array:
        worker = worker_of(self.spec)
        # Here a job is one call: that an earlier one was given up says nothing about this one.
        worker.reset()
        return self._values(*cells)

    def _render(self, *cells: Any) -> list[list[ChatMessage] | None]:
        requests = self.requests(*cells)
        return [None if request is None else list(request.messages) for request in requests]

    def requests(self, *cells: Any) -> list[Request | None]:
        """Give the exact request per row, without a call; None where none is made."""
        prepared = self._prepare_rows(self._rows(cells))
        return [
            None if isinstance(item, CellResult) else self.stage.request(item) for item in prepared
        ]

    def _with_column(self, *cells: Any) -> Expr:
        return super(LLMExpression, self.owned())._with_column(*cells)

    def _with_status(self, *cells: Any) -> Expr:
        return super(LLMExpression, self.owned())._with_status(*cells)

    def owned(self) -> Self:
        """Give a copy for a dataset of this process, whose end ends the calls for it."""
        changed = copy(self)
        changed._owner = Owner.current()  # noqa: SLF001  # a copy of our own
        return changed

    def results(self, *cells: Any) -> list[CellResult]:
        """Compute the cells of these columns, each with its status, in row order."""
        worker = worker_of(self.spec)
        worker.serve(self._owner)
        rows = self._rows(cells)
        with worker.admission.hold(len(rows)) as portion:
            prepared = self._prepare_rows(rows)
            outcomes = iter(self._outcomes(worker, rows, prepared, portion.done))
            publish(worker)
            return [
                item if isinstance(item, CellResult) else self._finish_row(item, next(outcomes))
                for item in prepared
            ]

    def _finish_row(self, task: TaskT, outcome: Outcome[ValueT]) -> CellResult:
        return replace(
            self._finish(task, outcome),
            outcome=outcome,
            model=outcome.model or self.spec.model,
            prompt_hash=self.prompt_hash,
        )

    def _outcomes(
        self,
        worker: Worker,
        rows: Rows,
        prepared: Sequence[TaskT | CellResult],
        on_done: Callable[[], None],
    ) -> list[Outcome[ValueT]]:
        """Ask for the rows that need it."""
        asked = [
            (item, self._scope_key(row))
            for item, row in zip(prepared, rows, strict=True)
            if not isinstance(item, CellResult)
        ]
        if not asked:
            return []
        tasks, scope_keys = zip(*asked, strict=True)
        portion = self.worker_options.batch_size or 1
        return worker.run(
            self.stage, tasks, scope_keys=scope_keys, portion=portion, on_done=on_done
        )

    def _scope_key(self, row: tuple[Any, ...]) -> str | None:
        """Say whose data a row is, where a column tells."""
        if "scope_key" not in self._parameters:
            return None
        key = row[self._parameters.index("scope_key")]
        return key if isinstance(key, str) else None

    def _prepare_rows(self, rows: Rows) -> list[TaskT | CellResult]:
        """Read all rows before the first of them costs anything."""
        return [self._prepare_row(row, number) for number, row in enumerate(rows)]

    def _prepare_row(self, row: tuple[Any, ...], number: int) -> TaskT | CellResult:
        try:
            return self._prepare(row, number)
        except InvalidCellError as error:
            if self._on_invalid == "raise":
                raise
            return CellResult(value=None, status="invalid_input", error=str(error))


def _make_worker(spec: ModelSpec) -> None:
    with suppress(Exception):  # the first row meets it again, where it can be told
        worker_of(spec)


def _addresses(base_url: str | Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Give the first address of an endpoint and those of its replicas."""
    if isinstance(base_url, str) or not isinstance(base_url, Sequence):
        return base_url, ()
    if not base_url:
        raise InvalidArgumentError("base_url must be an address or a list of them, got [].")
    first, *replicas = base_url
    return first, tuple(replicas)


def _found_anywhere(journal: str | None) -> str | None:
    """Make a folder absolute: workers run in other folders, and would each use another one."""
    # What is no address stays as it is, for the spec to refuse.
    is_address = isinstance(journal, str) and bool(journal.strip())
    return absolute_journal(journal) if journal is not None and is_address else journal


def _prices(price_in: float | None, price_out: float | None) -> Prices | None:
    if price_in is None and price_out is None:
        return None
    if price_in is None or price_out is None:
        missing = "price_in" if price_in is None else "price_out"
        raise InvalidArgumentError(f"{missing} is missing: give both prices, per million tokens.")
    return Prices(per_million_in=price_in, per_million_out=price_out)
