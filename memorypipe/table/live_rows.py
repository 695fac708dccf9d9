"""Reading the live rows of some scopes, for lookups and searches: few columns, no sorting."""

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import TIME
from memorypipe.table.rows import STATE_COLUMNS, as_of, select_states
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.vectors import no_vectors

__all__ = ["live_rows"]


def live_rows(  # noqa: PLR0913  # which rows of which moment, and what of them
    snapshot: Snapshot,
    scope_keys: Collection[str] | None,
    columns: Sequence[str],
    *,
    commit_time: datetime | None,
    now: datetime,
    vectors_by: str | None = None,
) -> pa.Table:
    """Read the live, unexpired rows of scopes, in any order.

    Args:
        snapshot: Of the table.
        scope_keys: As from `memorypipe.ids.scope_key`; None for all scopes.
        columns: Names of columns.
        commit_time: Of a past version whose live rows are meant; None for the newest.
        now: A row with `expires_at` at or before it is expired.
        vectors_by: Name of an embedder; vectors that another one made come as null. None takes
            them as they are.
    """
    if commit_time in (None, snapshot.head.committed_at):
        # What is live says all but what has expired: nothing else need be read.
        where = Where(scope_keys=scope_keys, rows="live")
        rows = snapshot.scan(list(dict.fromkeys([*columns, "expires_at"])), where)
        rows = _unexpired(rows, now).select(columns)
    else:
        where = Where(scope_keys=scope_keys)
        rows = snapshot.scan(list(dict.fromkeys([*columns, *STATE_COLUMNS])), where)
        rows = select_states(as_of(rows, commit_time), ("live",), now).select(columns)
    if vectors_by not in (None, snapshot.head.settings.embedder) and "vector" in columns:
        place = rows.schema.get_field_index("vector")
        nothing = no_vectors(rows.num_rows, snapshot.head.vector_dim)
        rows = rows.set_column(place, rows.schema.field(place), nothing)
    return rows


def _unexpired(rows: pa.Table, now: datetime) -> pa.Table:
    """Leave out what has expired; most tables have nothing that ever does."""
    expires = rows["expires_at"]
    if expires.null_count == rows.num_rows:
        return rows
    return rows.filter(pc.fill_null(pc.greater(expires, pa.scalar(now, TIME)), True))
