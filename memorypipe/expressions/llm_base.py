"""What the expressions that call a model share."""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Generic, Literal, Self, TypeVar

import pyarrow as pa

from memorypipe.errors import InvalidArgumentError, InvalidCellError
from memorypipe.expressions.base import Expression
from memorypipe.expressions.options import WorkerOptions
from memorypipe.expressions.results import CellResult
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, RateScope
from memorypipe.llm.stage import Outcome, Stage
from memorypipe.llm.types import ChatMessage
from memorypipe.llm.worker import get_worker

__all__ = ["LLMExpression"]

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")


class LLMExpression(Expression, Generic[TaskT, ValueT]):
    """An expression each of whose rows is one task for a model.

    Subclasses say how a row becomes a task, and how an outcome becomes a cell.
    """

    _once = True

    def __init__(  # noqa: PLR0913  # the published signature
        self,
        *,
        base_url: str,
        model: str,
        api_key: Any = "NOT_SET",
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
        **kwargs: Any,
    ) -> None:
        if hint_mode not in {"replace", "append"}:
            raise InvalidArgumentError(
                f"hint_mode must be 'replace' or 'append', got {hint_mode!r}."
            )
        if on_invalid not in {"raise", "null"}:
            raise InvalidArgumentError(f"on_invalid must be 'raise' or 'null', got {on_invalid!r}.")
        self.spec = ModelSpec(
            base_url=base_url,
            model=model,
            api_key=api_key,
            max_qps=max_qps,
            max_concurrency=max_concurrency,
            max_retries=max_retries,
            max_tokens_per_minute=max_tokens_per_minute,
            params=kwargs,
            journal=journal,
            endpoint_name=endpoint_name,
            repeat_key=repeat_key,
            rate_scope=rate_scope,
        )
        self._ensure_ascii = ensure_ascii
        self._hint: str | None = hint if isinstance(hint, str | None) else "\n".join(hint)
        self._hint_mode = hint_mode
        self._on_invalid = on_invalid
        self._options = WorkerOptions()
        self.stage = self._make_stage()

    def journalled(self, journal: str) -> Self:
        """Give a copy that keeps its replies in a journal, unless it has one already.

        Args:
            journal: Folder of the journal. The rule-based model costs nothing and needs none.
        """
        if self.spec.journal is not None or self.spec.base_url == OFFLINE_URL:
            return self
        changed = copy(self)
        changed.spec = replace(self.spec, journal=journal)
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

    def _call(self, *cells: Any) -> pa.Array:
        worker = get_worker(self.spec)
        # Here a job is one call: that an earlier one was given up says nothing about this one.
        worker.reset()
        return self._values(*cells)

    def _render(self, *cells: Any) -> list[list[ChatMessage] | None]:
        prepared = self._prepare_rows(cells)
        return [
            None if isinstance(item, CellResult) else list(self.stage.request(item).messages)
            for item in prepared
        ]

    def results(self, *cells: Any) -> list[CellResult]:
        """Compute the cells of these columns, each with its status, in row order."""
        prepared = self._prepare_rows(cells)
        tasks = [item for item in prepared if not isinstance(item, CellResult)]
        outcomes = iter(self._outcomes(tasks))
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

    def _outcomes(self, tasks: Sequence[TaskT]) -> list[Outcome[ValueT]]:
        if not tasks:
            return []
        portion = self.worker_options.batch_size or 1
        return get_worker(self.spec).run(self.stage, tasks, portion=portion)

    def _prepare_rows(self, cells: Sequence[Any]) -> list[TaskT | CellResult]:
        """Read all rows before the first of them costs anything."""
        return [self._prepare_row(row, number) for number, row in enumerate(self._rows(cells))]

    def _prepare_row(self, row: tuple[Any, ...], number: int) -> TaskT | CellResult:
        try:
            return self._prepare(row, number)
        except InvalidCellError as error:
            if self._on_invalid == "raise":
                raise
            return CellResult(value=None, status="invalid_input", error=str(error))
