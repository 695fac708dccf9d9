"""Arrow schemas of every hand-over: between stages, into a plan's files and into the table.

All times are UTC with microseconds. A field is nullable unless it says otherwise.
"""

import pyarrow as pa

__all__ = [
    "ACTIONS",
    "ACTION_OPTIONS",
    "CONVERSATIONS",
    "DEFAULT_VECTOR_DIM",
    "FACTS",
    "LABELS",
    "LEDGER",
    "MESSAGE",
    "PLAN_ACTIONS",
    "RECORD_TYPE_MEMORY",
    "SCOPE",
    "TABLE_FORMAT_VERSION",
    "TIME",
    "WINDOWS",
    "table_schema",
]

TIME = pa.timestamp("us", tz="UTC")
SCOPE = pa.map_(pa.string(), pa.string())
LABELS = pa.map_(pa.string(), pa.string())

RECORD_TYPE_MEMORY = "memory"

# Grows with every change of `table_schema`; a library refuses to write a newer one.
TABLE_FORMAT_VERSION = 2

# Width of `vector` where no embedder has said another; that of the static embeddings.
DEFAULT_VECTOR_DIM = 256


def _required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


# One message of a conversation. `background` marks what the model may read but must take no
# fact from: turns that an earlier window has paid for. (System and tool turns are background
# by their role.)
MESSAGE = pa.struct(
    [
        _required("role", pa.string()),
        pa.field("name", pa.string()),
        _required("content", pa.string()),
        pa.field("timestamp", TIME),
        _required("id", pa.string()),
        pa.field("background", pa.bool_()),
    ]
)

# One row per conversation, as the readers give it; input columns may be carried along.
CONVERSATIONS = pa.schema(
    [
        _required("scope", SCOPE),
        _required("scope_key", pa.string()),
        _required("conversation_id", pa.string()),
        _required("messages", pa.list_(MESSAGE)),
        pa.field("event_time", TIME),  # of the newest dated message; null where none is dated
    ]
)

# One row per window: the messages that one extraction call reads.
WINDOWS = pa.schema(
    [
        _required("scope", SCOPE),
        _required("scope_key", pa.string()),
        _required("conversation_id", pa.string()),
        _required("window_id", pa.string()),
        _required("window_index", pa.int32()),  # within its conversation, from 0
        _required("messages", pa.list_(MESSAGE)),
        pa.field("context", pa.string()),
        pa.field("event_time", TIME),
    ]
)

# One row per window after extraction.
FACTS = pa.schema(
    [
        *(f for f in WINDOWS if f.name not in {"messages", "context"}),
        _required("message_ids", pa.list_(pa.string())),  # of the messages that it pays for
        _required("message_times", pa.list_(TIME)),  # when each of them was said; null items too
        pa.field("facts_json", pa.string()),  # null: the extraction failed
        # Facts that did not stand a check, by their place in `facts_json`, from 0; a flag is
        # "unsupported" (no word of it stands in its sources), "instruction" (it gives the memory
        # system orders, or rests on text that does; no decision is asked about it), "hearsay"
        # (only an assistant says so, or a pasted text, or a sentence about somebody whom it does
        # not name; it changes no memory), or "retold" (a message that is taken again tells what
        # the table has had from it; no decision is asked about it).
        pa.field("flags", pa.list_(pa.struct([("fact", pa.int32()), ("flag", pa.string())]))),
        _required("status", pa.string()),
        pa.field("error", pa.string()),
        _required("attempts", pa.int32()),
        _required("prompt_tokens", pa.int64()),
        _required("completion_tokens", pa.int64()),
        _required("latency_ms", pa.float64()),
        _required("cached", pa.bool_()),
        _required("repaired", pa.int32()),
        _required("dropped_items", pa.int32()),
        pa.field("model", pa.string()),
        pa.field("prompt_hash", pa.string()),
        pa.field("raw_reply", pa.string()),
    ]
)

# One row per decided action: what a plan shows and what a commit takes.
ACTIONS = pa.schema(
    [
        _required("scope", SCOPE),
        _required("scope_key", pa.string()),
        _required("seq", pa.int32()),  # order within the scope, from 0
        _required("record_type", pa.string()),
        _required("event", pa.string()),  # ADD, UPDATE, DELETE, NONE
        pa.field("memory_id", pa.string()),  # ADD: the minted id; NONE: null
        _required("text", pa.string()),
        pa.field("old_memory", pa.string()),
        pa.field("context", pa.string()),
        pa.field("topics", pa.list_(pa.string())),
        pa.field("event_time", TIME),  # when it was said, not when it happened
        pa.field("conversation_id", pa.string()),
        pa.field("window_id", pa.string()),
        pa.field("source_ids", pa.list_(pa.string())),
        pa.field("rationale", pa.string()),
        pa.field("model", pa.string()),
        pa.field("prompt_hash", pa.string()),
    ]
)

# As a plan keeps them. `rests_on` is the memory, not its own, without which an action would have
# come out otherwise: the one that says so already, or that rests on something newer.
PLAN_ACTIONS = pa.schema([*ACTIONS, pa.field("rests_on", pa.string())])

# Columns that actions may carry beside those of `ACTIONS`; a missing one is null throughout.
ACTION_OPTIONS = pa.schema(
    [
        pa.field("external_id", pa.string()),  # of the record in a store it was imported from
        pa.field("metadata", pa.string()),  # JSON object
        # "MERGE": both the metadata given and that of the memory, the given one wins; else, and
        # null: it replaces the memory's.
        pa.field("metadata_merge", pa.string()),
        pa.field("revision_labels", pa.string()),  # JSON object; null: the labels of the run
        pa.field("revision_expires_at", TIME),  # of the revision made; null: as the table says
        pa.field("payload", pa.string()),  # JSON object of type-specific fields
        pa.field("created_at", TIME),  # in the store it was imported from; of an ADD alone
        pa.field("updated_at", TIME),  # likewise; else the commit's time
        pa.field("expires_at", TIME),
        # Of `text`, by the table's embedder, as wide as the table's; null: the commit embeds.
        pa.field("vector", pa.list_(pa.float32())),
    ]
)

# One row per message that a committed run has dealt with.
LEDGER = pa.schema(
    [
        _required("scope_key", pa.string()),
        _required("conversation_id", pa.string()),
        _required("message_id", pa.string()),
        _required("window_id", pa.string()),
    ]
)


def table_schema(vector_dim: int = DEFAULT_VECTOR_DIM) -> pa.Schema:
    """Columns of the memory table: one row per revision of a record.

    Args:
        vector_dim: Width of `vector`.

    Returns:
        The schema; (`record_type`, `memory_id`, `revision`) is the key.
    """
    return pa.schema(
        [
            # identity
            _required("record_type", pa.string()),
            _required("memory_id", pa.string()),
            pa.field("external_id", pa.string()),
            _required("revision", pa.int32()),  # 1, 2, …
            _required("is_current", pa.bool_()),
            _required("event", pa.string()),
            # scope
            _required("scope", SCOPE),
            _required("scope_key", pa.string()),
            pa.field("user_id", pa.string()),
            pa.field("agent_id", pa.string()),
            pa.field("thread_id", pa.string()),
            # content
            _required("text", pa.string()),
            pa.field("context", pa.string()),
            pa.field("topics", pa.list_(pa.string())),
            pa.field("metadata", pa.string()),  # JSON object
            pa.field("payload", pa.string()),  # JSON object of type-specific fields
            # time
            pa.field("event_time", TIME),  # when it was said, not when it happened
            _required("created_at", TIME),
            _required("updated_at", TIME),
            _required("valid_from", TIME),
            pa.field("valid_to", TIME),  # null: this revision still stands
            pa.field("expires_at", TIME),
            # state
            _required("deleted", pa.bool_()),
            _required("status", pa.string()),  # valid, invalid
            _required("is_live", pa.bool_()),
            # provenance
            _required("run_id", pa.string()),
            pa.field("conversation_id", pa.string()),
            pa.field("source_ids", pa.list_(pa.string())),
            pa.field("rationale", pa.string()),
            pa.field("model", pa.string()),
            pa.field("prompt_hash", pa.string()),
            pa.field("labels", LABELS),
            pa.field("revision_expires_at", TIME),
            # retrieval; search_text and vector are null on every row that is not live
            pa.field("text_hash", pa.string()),
            pa.field("search_text", pa.string()),
            pa.field("vector", pa.list_(pa.float32(), vector_dim)),
        ],
        metadata={"memorypipe.format_version": str(TABLE_FORMAT_VERSION)},
    )
