"""What the first records of a log tell about options that cannot work with it. Pure.

Found here it is a usage error, before anything is sent; found later it would be a reject for each
record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from memorypipe.errors import InvalidArgumentError
from memorypipe.logs.columns import has_column, list_columns
from memorypipe.logs.conversations import CONSTANT_MARK, Draft
from memorypipe.logs.formats.mapped import missing_column
from memorypipe.logs.messages import role_of
from memorypipe.logs.options import ReadOptions

__all__ = ["check_probe"]

_MAX_SHOWN_CHARS = 40


def check_probe(
    source: str, *, rows: Sequence[Any], drafts: Sequence[Draft], options: ReadOptions
) -> None:
    """Refuse options that cannot work with a log.

    Args:
        source: The log's name.
        rows: The values of its first records.
        drafts: What could be read of them.
        options: Of the reading.

    Raises:
        InvalidArgumentError: The message names option, value and choices.
    """
    records = [row for row in rows if isinstance(row, Mapping)]
    if options.is_mapped and records:
        missing = missing_column(records, options)
        if missing is not None:
            raise InvalidArgumentError(
                f"{missing}, which none of the first records of {source!r} has; columns: "
                f"{list_columns(records)}."
            )
    if not drafts:
        return
    _check_zone(source, drafts, options)
    if not any(_has_scope(draft, options.scope_columns) for draft in drafts):
        raise InvalidArgumentError(_no_scope(source, drafts, options.scope_columns))
    _check_roles(source, drafts, options)


def _check_zone(source: str, drafts: Sequence[Draft], options: ReadOptions) -> None:
    column = options.zone_column
    if column is None or any(has_column(draft.fields, column) for draft in drafts):
        return
    raise InvalidArgumentError(
        f"timezone {column!r} is neither a time zone (Z, a name such as 'Europe/Berlin', or an "
        f"offset such as '+02:00') nor a column of {source!r}; columns: "
        f"{list_columns(draft.fields for draft in drafts)}."
    )


def _has_scope(draft: Draft, scope_columns: Mapping[str, str] | None) -> bool:
    if scope_columns is None:
        return draft.default_scope is not None
    return all(
        column.startswith(CONSTANT_MARK) or has_column(draft.fields, column)
        for column in scope_columns.values()
    )


def _no_scope(source: str, drafts: Sequence[Draft], scope_columns: Mapping[str, str] | None) -> str:
    wanted = "user_id or user" if scope_columns is None else sorted(scope_columns.values())
    return (
        f"{source!r} names no user: none of its first records has {wanted}. Say where the scope "
        "is with --scope user_id=COLUMN, or for the whole log with --scope user_id==VALUE "
        "(in Python scope={'user_id': 'COLUMN'} or {'user_id': '=VALUE'}); fields: "
        f"{list_columns(draft.fields for draft in drafts)}."
    )


def _check_roles(source: str, drafts: Sequence[Draft], options: ReadOptions) -> None:
    """Refuse roles that are not known.

    A mapping is expected to be right: one odd speaker there means that one side of all
    conversations is missing. A known format may hold an odd record.
    """
    unknown = [_unknown_role(draft, options.roles) for draft in drafts]
    found = [role for role in unknown if role is not None]
    if not found or not (options.is_mapped or len(found) == len(drafts)):
        return
    column = options.mapping.get("role", "role")
    raise InvalidArgumentError(
        f"{source!r} has the unknown role {found[0][:_MAX_SHOWN_CHARS]!r} in {column!r}; say what "
        f"it is with --roles NAME=ROLE, e.g. customer=user,agent=assistant (in Python "
        f"roles={{'customer': 'user'}}); known: {', '.join(sorted(options.roles))}."
    )


def _unknown_role(draft: Draft, roles: Mapping[str, str]) -> str | None:
    messages = draft.messages if isinstance(draft.messages, list | tuple) else ()
    values = (item.get("role") for item in messages if isinstance(item, Mapping))
    named = (value for value in values if isinstance(value, str) and value.strip())
    return next((value for value in named if role_of(value, roles) is None), None)
