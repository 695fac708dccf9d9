"""What goes with the memories of single conversations, from a run into the rows of the table.

Several conversations of one run, of one scope even, may say different things: metadata, how it
meets that of existing memories, labels, and when revisions expire.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

from memorypipe import ids
from memorypipe.cells.metadata import MergeStrategy, metadata_key
from memorypipe.schema import ACTION_OPTIONS

__all__ = ["NOTHING_CARRIED", "OVERLAP", "Carried", "Carry", "carried_columns"]

OVERLAP = "overlap"
"""Flag of a fact whose sources are all background: an earlier window has dealt with them."""

_COLUMNS = ("metadata", "metadata_merge", "revision_labels", "revision_expires_at")


@dataclass(frozen=True, kw_only=True)
class Carry:
    """What goes with the memories of one conversation.

    Attributes:
        metadata: A JSON object; None leaves that of existing memories as it is.
        strategy: How it meets that of existing memories.
        labels: For the revisions that are made; None: those of the run.
        revision_expires_at: When these revisions may be dropped, UTC; None: as the table says.
    """

    metadata: str | None = None
    strategy: MergeStrategy = "OVERWRITE"
    labels: Mapping[str, str] | None = None
    revision_expires_at: datetime | None = None

    @property
    def match(self) -> str | None:
        """What the metadata of a memory must be for it to be changed; None: anything."""
        return metadata_key(self.metadata) if self.strategy == "REQUIRE_EXACT_MATCH" else None

    def columns(self) -> dict[str, Any]:
        """Give the values of the columns of `memorypipe.schema.ACTION_OPTIONS` that say so."""
        return {
            "metadata": self.metadata,
            "metadata_merge": "MERGE" if self.strategy == "MERGE" else None,
            "revision_labels": None
            if self.labels is None
            else orjson.dumps(dict(sorted(self.labels.items()))).decode(),
            "revision_expires_at": self.revision_expires_at,
        }


NOTHING_CARRIED = Carry()


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What goes with the memories of each conversation of a run; picklable.

    A fact of such a conversation has to rest on a message that is no background.

    Attributes:
        by_conversation: Scope key and conversation id to what goes along.
        overlap_messages: Background that a window may have, where that is more than in other runs.
    """

    by_conversation: Mapping[tuple[str, str], Carry] = field(default_factory=dict)
    overlap_messages: int = 0

    def of(self, scope_key: str, conversation_id: str | None) -> Carry | None:
        """Give what goes with a conversation; None where nothing was said of it."""
        return self.by_conversation.get((scope_key, conversation_id or ""))

    def digest(self) -> str:
        """Hash all of it."""
        listed = [
            [*key, {**asdict(carry), "revision_expires_at": str(carry.revision_expires_at)}]
            for key, carry in sorted(self.by_conversation.items())
        ]
        return ids.digest("carried", listed).hex()


def carried_columns(actions: pa.Table, carried: Carried) -> pa.Table:
    """Add the columns that say what goes with the memories of actions.

    Args:
        actions: With `scope_key` and `conversation_id`.
        carried: What does.

    Returns:
        The same with `metadata`, `metadata_merge`, `revision_labels` and `revision_expires_at`.
    """
    keys = zip(
        actions["scope_key"].to_pylist(), actions["conversation_id"].to_pylist(), strict=True
    )
    rows = [(carried.of(*key) or NOTHING_CARRIED).columns() for key in keys]
    for name in _COLUMNS:
        option = ACTION_OPTIONS.field(name)
        actions = actions.append_column(option, pa.array([row[name] for row in rows], option.type))
    return actions
