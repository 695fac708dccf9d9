"""The windows of a run: what a plan sends and what an estimate counts are cut the same way."""

from collections.abc import Collection

import ray

from memorypipe.id_key import IdKeySource, read_id_key
from memorypipe.logs.keyed import keyed_names
from memorypipe.logs.known import pack_keys
from memorypipe.logs.read import windows
from memorypipe.pipeline.runs.selection import Selection, select_conversations
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.table.erasing.erased import without_erased

__all__ = ["cut_windows"]


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
    if erased:
        names = frozenset(erased)
        conversations = conversations.map_batches(
            lambda batch: without_erased(batch, names), batch_format="pyarrow"
        )
    if selection is not None and selection != Selection():
        conversations = conversations.map_batches(
            lambda batch: select_conversations(batch, selection), batch_format="pyarrow"
        )
    if id_key is not None:
        source = id_key
        conversations = conversations.map_batches(
            lambda batch: keyed_names(batch, read_id_key(source)), batch_format="pyarrow"
        )
    return windows(
        conversations,
        window_tokens=settings.window_tokens,
        overlap_messages=settings.overlap_messages,
        known_keys_ref=ray.put(pack_keys(known_keys)) if known_keys else None,
    )
