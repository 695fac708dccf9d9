"""Actions as a commit takes them: checked, in the order of their scopes and steps."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import NO_ID_KEY
from memorypipe.schema import ACTION_OPTIONS, ACTIONS, LEDGER
from memorypipe.table.content_hash import content_hash
from memorypipe.table.records import SYSTEM_TYPES
from memorypipe.table.side_by_side import begun, in_two
from memorypipe.table.text_hashes import text_hashes
from memorypipe.table.vectors import one_chunk, take_vectors

__all__ = ["EVENTS", "Batch", "batch_hash", "check_actions", "check_ledger"]

# A key of one pair of harmless strings: the canonical form of its scope, at a glance.
_PLAIN_KEY = re.compile(r'\[\["[\w.:@-]+","[\w.:@-]+"\]\]', re.ASCII)

EVENTS = ("ADD", "UPDATE", "DELETE", "NONE")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The actions of one commit.

    Attributes:
        actions: Columns of `ACTIONS` and `ACTION_OPTIONS`, sorted by `scope_key`, then `seq`;
            every ADD has a `memory_id`.
        text_hash: Per action: hash of the text it leaves behind; null for DELETE and NONE.
        scopes: Scope key to scope, for every scope in the batch.
        id_key: What ids and hashes are made with.
    """

    actions: pa.Table
    text_hash: pa.Array
    scopes: Mapping[str, Mapping[str, str]]
    id_key: bytes = field(default=NO_ID_KEY, repr=False)


def check_actions(actions: pa.Table, key: bytes = NO_ID_KEY) -> Batch:
    """Check actions and put them in order.

    Args:
        actions: Columns of the schema `ACTIONS`, and any of `ACTION_OPTIONS`, in any order;
            further columns are ignored.
        key: That of the table.

    Raises:
        InvalidArgumentError: For a missing column, a null or blank value where one is needed, an
            unknown event, a record type of the table's own, or a scope key that is not the
            scope's.
    """
    table = _conform(actions, _with_options(actions), "actions")
    for option in ACTION_OPTIONS:
        if option.name not in table.column_names:
            table = table.append_column(option, pa.nulls(table.num_rows, option.type))
    count = table.num_rows
    order = begun(lambda: _order(table), rows=count)
    # Vectors are moved apart from the rest, as Arrow is slow there.
    vectors = begun(lambda: take_vectors(table["vector"], order()), rows=count)
    # Hashing is nearly all Python, and the rest is nearly none.
    (ordered, scopes), hashes = in_two(
        lambda: _checked(table.drop_columns(["vector"]), order()),
        lambda: _text_hashes(table, key),
        rows=count,
    )
    place, field = table.schema.get_field_index("vector"), ACTION_OPTIONS.field("vector")
    return Batch(
        actions=_mint_missing_ids(ordered, key).add_column(place, field, vectors()),
        text_hash=hashes.take(pa.array(order())),
        scopes=scopes,
        id_key=key,
    )


def _checked(table: pa.Table, order: Any) -> tuple[pa.Table, dict[str, dict[str, str]]]:
    """Put rows in order and check their values; with their scopes."""
    ordered = table.take(pa.array(order)).combine_chunks()
    _check_values(ordered)
    return ordered, _scopes(ordered)


def check_ledger(ledger: pa.Table | None) -> pa.Table:
    """Check ledger rows; None means none.

    Raises:
        InvalidArgumentError: For a missing column or a null.
    """
    if ledger is None:
        return LEDGER.empty_table()
    return _conform(ledger, LEDGER, "ledger")


def batch_hash(batch: Batch, ledger: pa.Table) -> str:
    """Hash what a commit is asked to do; the order in which the rows came does not count."""
    rows = ledger.sort_by([(name, "ascending") for name in LEDGER.names])
    # The scope map is dropped: the scope key says the same. A vector follows from the text, and
    # an option that nobody uses is as good as not there.
    options = [
        name
        for name in ACTION_OPTIONS.names
        if name != "vector" and batch.actions[name].null_count < batch.actions.num_rows
    ]
    names = [name for name in ACTIONS.names if name != "scope"]
    return content_hash(batch.actions.select([*names, *options]), rows)


def _with_options(actions: pa.Table) -> pa.Schema:
    return pa.schema(
        [*ACTIONS, *(field for field in ACTION_OPTIONS if field.name in actions.column_names)]
    )


def _conform(table: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise InvalidArgumentError(
            f"The {what} lack the columns {missing!r}; they need {schema.names!r}."
        )
    for each in schema:
        if not each.nullable and table[each.name].null_count:
            raise InvalidArgumentError(
                f"Column {each.name!r} of the {what} holds {table[each.name].null_count} nulls; "
                "it needs a value in every row."
            )
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgumentError(
            f"The {what} do not have the types of the published schema: {error}."
        ) from error


def _order(table: pa.Table) -> Any:
    """Give the row numbers in the order of scope key and step."""
    # Sorting the few keys that there are, then numbers, is quicker than sorting all rows by text.
    encoded = table["scope_key"].combine_chunks().dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[np.asarray(pc.sort_indices(encoded.dictionary))] = np.arange(len(ranks))
    return np.lexsort((np.asarray(table["seq"]), ranks[np.asarray(encoded.indices)]))


def _check_values(table: pa.Table) -> None:
    events = set(pc.unique(table["event"]).to_pylist())
    if unknown := sorted(events.difference(EVENTS)):
        raise InvalidArgumentError(f"Unknown event {unknown[0]!r}; choices: {EVENTS!r}.")
    types = set(pc.unique(table["record_type"]).to_pylist())
    if reserved := sorted(types.intersection(SYSTEM_TYPES)):
        raise InvalidArgumentError(
            f"Record type {reserved[0]!r} is the table's own; no action may use it."
        )
    changes = pc.is_in(table["event"], pa.array(["UPDATE", "DELETE"]))
    if pc.any(pc.and_(changes, pc.is_null(table["memory_id"]))).as_py():
        raise InvalidArgumentError("An UPDATE or DELETE has no memory_id; it must name its target.")
    says = pc.is_in(table["event"], pa.array(["ADD", "UPDATE"]))
    blank = pc.equal(pc.utf8_trim_whitespace(table["text"]), "")
    if pc.any(pc.and_(says, blank)).as_py():
        raise InvalidArgumentError(
            "An ADD or UPDATE has a blank text; a memory must say something."
        )


def _scopes(table: pa.Table) -> dict[str, dict[str, str]]:
    """Read each scope from its key, which alone decides where rows go."""
    encoded = table["scope_key"].combine_chunks().dictionary_encode()
    # The rows are sorted by the key: where it changes, the next one begins.
    firsts = np.flatnonzero(np.diff(np.asarray(encoded.indices), prepend=-1))
    keys, scopes = encoded.dictionary.to_pylist(), table["scope"].take(pa.array(firsts)).to_pylist()
    return {key: _checked_scope(key, dict(scope)) for key, scope in zip(keys, scopes, strict=True)}


def _checked_scope(key: str, scope: dict[str, Any]) -> dict[str, str]:
    if _PLAIN_KEY.fullmatch(key) and (said := dict(orjson.loads(key))) == scope:
        return said
    if ids.scope_key(scope) != key:
        raise InvalidArgumentError(
            f"Scope key {key!r} does not belong to the scope {scope!r}, whose key is "
            f"{ids.scope_key(scope)!r}; make it with memorypipe.ids.scope_key."
        )
    return dict(orjson.loads(key))


def _text_hashes(table: pa.Table, key: bytes) -> pa.Array:
    says = pc.is_in(table["event"], pa.array(["ADD", "UPDATE"]))
    texts = pc.if_else(says, table["text"], pa.scalar(None, pa.string()))
    return text_hashes(one_chunk(texts), key)


def _mint_missing_ids(table: pa.Table, key: bytes) -> pa.Table:
    missing = pc.and_(pc.equal(table["event"], "ADD"), pc.is_null(table["memory_id"]))
    if not pc.any(missing).as_py():
        return table
    wanted = table.filter(missing).select(["record_type", "scope_key", "text"]).to_pylist()
    minted = pa.array([ids.memory_id(*row.values(), key=key) for row in wanted], pa.string())
    filled = pc.replace_with_mask(
        table["memory_id"].combine_chunks(), missing.combine_chunks(), minted
    )
    return table.set_column(table.schema.get_field_index("memory_id"), "memory_id", filled)
