"""Blocks brought to the size that suits a worker, without a task and without moving data.

A block is what a worker answers as a whole: the unit of progress and of loss. Blocks come as
large as 128 MB, which may be hundreds of thousands of rows: one worker would be busy for hours
while the others wait. They also come as small as a row, and each task of Ray costs some
milliseconds. Ray's own `repartition` cuts and joins them in tasks that copy every row and take a
CPU. Ray Data's bundles can name slices of a block, and several of them, and its map tasks read
just these: so an operator that only rewrites bundles, on the driver, does it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import groupby
from typing import Any

from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder
from ray.data._internal.execution.interfaces import PhysicalOperator, RefBundle, TaskContext
from ray.data._internal.execution.operators.actor_pool_map_operator import ActorPoolMapOperator
from ray.data._internal.execution.operators.base_physical_operator import OneToOneOperator
from ray.data._internal.execution.operators.map_transformer import (
    BlockMapTransformFn,
    MapTransformer,
    MapTransformFn,
)
from ray.data._internal.logical.interfaces import LogicalOperator, PhysicalPlan, Rule
from ray.data._internal.logical.operators import Project
from ray.data._internal.logical.rules import FuseOperators
from ray.data.block import Block, BlockAccessor
from ray.data.context import DataContext

from memorypipe.expressions.ray_exprs import WorkerExpr, worker_exprs

__all__ = ["CutBlocks"]

# Long transcripts are cut finer: a worker holds many slices at once.
_SLICE_BYTES = 1024 * 1024


class _CutOperator(OneToOneOperator):
    """Hands blocks on in slices of at most so many rows, small ones together.

    It waits for none: what is joined is what has come.
    """

    def __init__(self, source: PhysicalOperator, context: DataContext, rows: int) -> None:
        self._rows = rows
        self._slices: deque[RefBundle] = deque()
        super().__init__(f"Cut[{rows} rows]", source, context)

    def _add_input_inner(self, refs: RefBundle, input_index: int) -> None:  # noqa: ARG002  # the only one
        for piece in _cut(refs, self._rows):
            self._slices.append(piece)
            self._metrics.on_output_queued(piece)

    def has_next(self) -> bool:
        """Whether a slice waits."""
        return bool(self._slices)

    def _get_next_inner(self) -> RefBundle:
        together: list[RefBundle] = []
        rows = size = 0
        while self._slices:
            piece = self._slices[0]
            more = piece.num_rows()
            rows += self._rows if more is None else more
            size += piece.size_bytes()
            if together and (rows > self._rows or size > _SLICE_BYTES):
                break
            together.append(self._slices.popleft())
            self._metrics.on_output_dequeued(piece)
        return together[0] if len(together) == 1 else RefBundle.merge_ref_bundles(together)

    def get_stats(self) -> dict[str, Any]:
        """Give no statistics: nothing is computed here."""
        return {}

    def num_outputs_total(self) -> int | None:
        """Say that the number of slices is not known before the last block has come."""
        return None

    def implements_accurate_memory_accounting(self) -> bool:
        """Slices are counted where they wait."""
        return True


def _cut(refs: RefBundle, rows: int) -> Iterator[RefBundle]:
    """Give slices of one bundle, in order; a bundle of unknown size stays whole."""
    total = refs.num_rows()
    if total:
        bytes_per_row = max(1, refs.size_bytes() // total)
        rows = max(1, min(rows, _SLICE_BYTES // bytes_per_row))
        while total > rows:
            piece, refs = refs.slice(rows)
            total -= rows
            yield piece
    yield refs


def _joined(blocks: Iterable[Block], _context: TaskContext) -> Iterator[Block]:
    """Make one block of those that a task got, so that their rows are asked at the same time.

    Those with other columns stay apart. The driver cannot tell: it thinks that all blocks have
    the columns of the first.
    """
    for _, alike in groupby(blocks, key=lambda block: BlockAccessor.for_block(block).schema()):
        first, *others = alike
        yield first if not others else _concatenated([first, *others])


def _concatenated(blocks: list[Block]) -> Block:
    builder: Any = DelegatingBlockBuilder()  # type: ignore[no-untyped-call]  # of Ray
    for block in blocks:
        builder.add_block(block)
    return builder.build()


def _made_ready(transformer: MapTransformer, exprs: Sequence[WorkerExpr]) -> MapTransformer:
    """Let workers begin before they have rows, and see small blocks as one.

    What comes out is not shaped: Ray would make one block of a task's, whatever their columns.
    """
    begins = [transformer._init_fn, *(e.begin for e in exprs if e.begin is not None)]  # noqa: SLF001  # the only way

    def begin() -> None:
        for each in begins:
            each()

    steps = [_joined, *(step._fn for step in transformer.get_transform_fns())]  # noqa: SLF001  # as above
    unshaped: list[MapTransformFn] = [
        BlockMapTransformFn(step, disable_block_shaping=True) for step in steps
    ]
    return MapTransformer(unshaped, init_fn=begin)


class CutBlocks(Rule):
    """Puts a cut before each pool of workers that asks for one.

    It has to come before operators are fused: what is fused with a read gets its blocks whole.
    """

    @classmethod
    def dependents(cls) -> list[type[Rule]]:
        """Run before the rule that fuses operators, which also lays the links between them anew."""
        return [FuseOperators]

    def apply(self, plan: Any) -> PhysicalPlan:
        """Rewrite the plan; applying it twice changes nothing."""
        operators: dict[PhysicalOperator, LogicalOperator] = plan.op_map
        for operator, logical in list(operators.items()):
            exprs = worker_exprs(logical.get_all_exprs()) if isinstance(logical, Project) else []
            rows = min((e.block_rows for e in exprs if e.block_rows is not None), default=None)
            source = operator.input_dependencies[0] if operator.input_dependencies else None
            if (
                rows is None
                or source is None
                or not isinstance(operator, ActorPoolMapOperator)
                or isinstance(source, _CutOperator)
            ):
                continue
            cut = _CutOperator(source, plan.context, rows)
            operator._input_dependencies = [cut]  # noqa: SLF001  # the only way to do it
            operator._map_transformer = _made_ready(  # noqa: SLF001  # as above
                operator.get_map_transformer(), exprs
            )
            operator._data_context = _without_polls(plan.context)  # noqa: SLF001  # as above
            operators[cut] = logical  # the rules that come after look every operator up
        done: PhysicalPlan = plan
        return done


def _without_polls(context: DataContext) -> DataContext:
    """Give the settings without the thread per task in hand that looks at the memory in use.

    They all look at the same moment, once a second, and hold every request up meanwhile.
    """
    changed = copy(context)
    changed.memory_usage_poll_interval_s = None
    return changed
