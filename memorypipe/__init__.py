"""Turn conversation logs into a clean, trustworthy memory table for AI agents.

Public names are loaded on first use: the command line and the readers of a table need no Ray.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memorypipe.expressions.apply_actions import ApplyActions
    from memorypipe.expressions.build_action import MemoryBuildAction
    from memorypipe.expressions.extract import MemoryExtract
    from memorypipe.expressions.lookup import LookupExisting
    from memorypipe.llm.embed.endpoint import EndpointEmbedder
    from memorypipe.llm.embed.wordllama import WordLlamaEmbedder
    from memorypipe.llm.spec import ModelSpec
    from memorypipe.logs.read import ConversationLog, read_conversations
    from memorypipe.pipeline.pipeline import MemoryPipeline
    from memorypipe.pipeline.plans.compare import Comparison, compare
    from memorypipe.pipeline.plans.diff import PlanDiff
    from memorypipe.pipeline.plans.plan import Plan
    from memorypipe.pipeline.runs.selection import Selection
    from memorypipe.pipeline.runs.summary import RunSummary
    from memorypipe.prompts.decide import BUILD_ACTION_HINT
    from memorypipe.prompts.extract import EXTRACT_HINT
    from memorypipe.rank.lookup import Lookup
    from memorypipe.streams.operations import Operation
    from memorypipe.streams.streams import EventStreams
    from memorypipe.table.erasing.requests import EraseRequest
    from memorypipe.table.ray_io import MemoryTableSink
    from memorypipe.table.reprocess import Reprocess
    from memorypipe.table.search import ALL
    from memorypipe.table.table import MemoryTable

__all__ = [
    "ALL",
    "BUILD_ACTION_HINT",
    "EXTRACT_HINT",
    "ApplyActions",
    "Comparison",
    "ConversationLog",
    "EndpointEmbedder",
    "EraseRequest",
    "EventStreams",
    "Lookup",
    "LookupExisting",
    "MemoryBuildAction",
    "MemoryExtract",
    "MemoryPipeline",
    "MemoryTable",
    "MemoryTableSink",
    "ModelSpec",
    "Operation",
    "Plan",
    "PlanDiff",
    "Reprocess",
    "RunSummary",
    "Selection",
    "WordLlamaEmbedder",
    "compare",
    "read_conversations",
]

_HOMES = {
    "ALL": "table.search",
    "BUILD_ACTION_HINT": "prompts.decide",
    "EXTRACT_HINT": "prompts.extract",
    "ApplyActions": "expressions.apply_actions",
    "Comparison": "pipeline.plans.compare",
    "ConversationLog": "logs.read",
    "EndpointEmbedder": "llm.embed.endpoint",
    "EraseRequest": "table.erasing.requests",
    "EventStreams": "streams.streams",
    "Lookup": "rank.lookup",
    "LookupExisting": "expressions.lookup",
    "MemoryBuildAction": "expressions.build_action",
    "MemoryExtract": "expressions.extract",
    "MemoryPipeline": "pipeline.pipeline",
    "MemoryTable": "table.table",
    "MemoryTableSink": "table.ray_io",
    "ModelSpec": "llm.spec",
    "Operation": "streams.operations",
    "Plan": "pipeline.plans.plan",
    "PlanDiff": "pipeline.plans.diff",
    "Reprocess": "table.reprocess",
    "RunSummary": "pipeline.runs.summary",
    "Selection": "pipeline.runs.selection",
    "WordLlamaEmbedder": "llm.embed.wordllama",
    "compare": "pipeline.plans.compare",
    "read_conversations": "logs.read",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
