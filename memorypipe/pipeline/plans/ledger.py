"""The messages that a plan has dealt with. Pure, over whole columns."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import FACTS, LEDGER

__all__ = ["LEDGER_FACTS", "ledger_rows"]

#: The columns of `memorypipe.schema.FACTS` that the ledger is made of.
LEDGER_FACTS = pa.schema(
    [FACTS.field(n) for n in ("scope_key", "conversation_id", "window_id", "message_ids")]
)

_MESSAGE = ["scope_key", "conversation_id", "message_id"]


def ledger_rows(facts: pa.Table, open_windows: pa.ChunkedArray) -> pa.Table:
    """List the messages all of whose windows are done.

    A message too long for one window stands in several: while one of them is open, it is open.

    Args:
        facts: With the columns of `LEDGER_FACTS`.
        open_windows: Ids of the windows that stay open.

    Returns:
        Schema `memorypipe.schema.LEDGER`, each message once, sorted.
    """
    ids = facts["message_ids"].combine_chunks()
    parents = pc.list_parent_indices(ids)
    rows = facts.select(["scope_key", "conversation_id", "window_id"]).take(parents)
    rows = rows.append_column("message_id", pc.list_flatten(ids))
    is_open = pc.is_in(rows["window_id"], pa.array(open_windows.to_pylist(), pa.string()))
    rows = rows.append_column("is_open", is_open)
    rows = rows.append_column("place", pa.array(np.arange(rows.num_rows)))
    by_message = rows.group_by(_MESSAGE).aggregate([("is_open", "any"), ("place", "max")])
    done = by_message.filter(pc.invert(by_message["is_open_any"]))
    done = done.sort_by([(name, "ascending") for name in _MESSAGE])
    windows = rows["window_id"].take(done["place_max"])
    return done.append_column("window_id", windows).select(LEDGER.names).cast(LEDGER)
