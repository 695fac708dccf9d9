"""What a planning works with, and how it tells how far it has come."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.id_key import IdKeySource
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.limits.control import Bounds
from memorypipe.pipeline.scopes.settings import ConsolidationSettings

__all__ = ["PlanConfig", "Progress", "ProgressStage"]

ProgressStage = Literal["windows", "batch", "extract", "decide", "consolidate", "commit"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come.

    Attributes:
        stage: What is being done.
        done: Windows done in that stage; of ``"consolidate"`` scopes.
        total: Windows, or scopes, in that stage; None while nobody knows.
    """

    stage: ProgressStage
    done: int
    total: int | None


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """What a planning works with.

    Attributes:
        table_uri: The memory table.
        extract: How facts are extracted.
        decide: How facts are decided.
        settings: How windows are cut and facts are grouped.
        on_progress: Called with each step forward.
        clock: Gives the time of the run.
        bounds: Where the run stops, whatever is left.
        budget: What the bounds hold for together with other runs; None: for this run alone.
        batch: How batches are cut where the extraction is asked in batches; None where not.
        embedder: Makes the vectors, as for `MemoryTable.open`.
        id_key: Where the key of the ids comes from, likewise.
    """

    table_uri: str
    extract: MemoryExtract
    decide: MemoryBuildAction
    settings: ConsolidationSettings
    on_progress: Callable[[Progress], None]
    clock: Callable[[], datetime]
    bounds: Bounds = field(default_factory=Bounds)
    budget: str | None = None
    batch: BatchSettings | None = None
    embedder: str | Embedder | None = None
    backend: str | None = None
    mirror: str | None = None
    id_key: IdKeySource | None = None
