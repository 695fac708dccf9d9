"""What a search over all scopes asks of a back end."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import TIME

__all__ = ["FOUND", "Wanted", "filtered", "is_served"]

# What a back end gives back: the record, and how well it fits.
FOUND = pa.schema(
    [
        pa.field("record_type", pa.string(), nullable=False),
        pa.field("memory_id", pa.string(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The best of all live, unexpired rows of the table.

    Attributes:
        kind: ``"keyword"``: by BM25 of `search_text`; ``"vector"``: by cosine of `vector`.
        query: Words; for ``"keyword"``.
        vector: ``float64[dim]`` of length 1; for ``"vector"``.
        k: Rows wanted.
        now: A row with `expires_at` at or before it is expired, UTC.
        filter: A `pyarrow.compute.Expression`: rows for which it does not hold are not found, and
            take no place of one that is; None for no condition.
    """

    kind: Literal["keyword", "vector"]
    query: str = ""
    vector: NDArray[np.float64] | None = None
    k: int
    now: datetime
    filter: Any = None


def is_served(now: datetime) -> Any:
    """Give the condition that a row is live and has not expired, as an Arrow expression."""
    expires = pc.field("expires_at")
    return pc.field("is_live") & (expires.is_null() | (expires > pa.scalar(now, TIME)))


def filtered(rows: pa.Table, condition: Any) -> NDArray[np.int64]:
    """Give the numbers of the rows for which a condition holds.

    Args:
        rows: With the columns that it names.
        condition: A `pyarrow.compute.Expression`; None holds for every row.

    Raises:
        InvalidArgumentError: If it cannot be computed over these rows.
    """
    if condition is None:
        return np.arange(rows.num_rows)
    place = "_place"
    numbered = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    try:
        kept = numbered.filter(condition)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError) as error:
        raise InvalidArgumentError(f"filter cannot be computed over the table: {error}.") from error
    return np.asarray(kept[place])
