"""The windows of a run: what a plan sends and what an estimate counts are cut the same way."""

from collections.abc import Collection, Iterator

import pyarrow as pa
import ray

from memorypipe.id_key import IdKeySource, read_id_key
from memorypipe.logs.keyed import keyed_names
from memorypipe.logs.known import pack_keys
from memorypipe.logs.read import windows
from memorypipe.logs.sources import PULLED_ROWS
from memorypipe.logs.windows import windows_batch
from memorypipe.pipeline.runs.selection import Selection, select_conversations
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.table.erasing.erased import without_erased

__all__ = ["cut_here", "cut_windows"]


def cut_windows(  # noqa: PLR0913  # what is cut, and what is left out of it
    conversations: ray.data.Dataset,
    settings: ConsolidationSettings,
    *,
    known_keys: Collection[bytes],
    erased: Collection[str] = (),
    selection: Selection | None = None,
    id_key: IdKeySource | None = None,
) -> ray.data.Dataset:
    """Cut conversations into the windows of a run, on Ray.

    Args:
        conversations: With the columns of `memorypipe.schema.CONVERSATIONS`.
        settings: How windows are cut.
        known_keys: Ledger keys of the messages that earlier runs have dealt with.
        erased: Names of the scopes that were erased, as the table's settings have them: nothing
            of theirs is read, sent or written down.
        selection: What is taken of them; None: everything.
        id_key: Where the key of the table's ids comes from, on every worker; None: it has none.

    Returns:
        One row per window, with the columns of `memorypipe.schema.WINDOWS`.
    """
    names = frozenset(erased)
    if names or id_key is not None or selection not in {None, Selection()}:
        conversations = conversations.map_batches(
            lambda batch: _taken(batch, names, selection, id_key), batch_format="pyarrow"
        )
    return windows(
        conversations,
        window_tokens=settings.window_tokens,
        overlap_messages=settings.overlap_messages,
        known_keys_ref=ray.put(pack_keys(known_keys)) if known_keys else None,
    )


def cut_here(  # noqa: PLR0913  # as above
    conversations: pa.Table,
    settings: ConsolidationSettings,
    *,
    known_keys: Collection[bytes],
    erased: Collection[str] = (),
    selection: Selection | None = None,
    id_key: IdKeySource | None = None,
) -> Iterator[pa.Table]:
    """Cut conversations in this process, a portion at a time; else as `cut_windows`."""
    names, keys = frozenset(erased), pack_keys(known_keys) if known_keys else None
    for start in range(0, conversations.num_rows, PULLED_ROWS):
        yield windows_batch(
            _taken(conversations.slice(start, PULLED_ROWS), names, selection, id_key),
            window_tokens=settings.window_tokens,
            overlap_messages=settings.overlap_messages,
            known_keys=keys,
        )


def _taken(
    batch: pa.Table,
    erased: frozenset[str],
    selection: Selection | None,
    id_key: IdKeySource | None,
) -> pa.Table:
    """Give what is taken of a batch of conversations, under the names that the table has."""
    if erased:
        batch = without_erased(batch, erased)
    if selection is not None:
        batch = select_conversations(batch, selection)
    return batch if id_key is None else keyed_names(batch, read_id_key(id_key))
