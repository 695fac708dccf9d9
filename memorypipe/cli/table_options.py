"""Options about the table itself, and a memory of it, that several commands share."""

from typing import Annotated, Literal

import typer

__all__ = ["BackendOption", "IdKeyOption", "MirrorOption", "RecordTypeOption"]

BackendOption = Annotated[
    Literal["lance", "parquet"] | None,
    typer.Option(
        "--backend",
        help="How a new table is stored: lance, or plain Parquet (lance; one that is there stays "
        "as it is).",
    ),
]
IdKeyOption = Annotated[
    str | None,
    typer.Option(
        "--id-key",
        metavar="env:NAME|file:PATH",
        help="Where the key is that a new table makes its ids and hashes with (none; of a table "
        "that has one is looked for in MEMORYPIPE_ID_KEY).",
    ),
]
MirrorOption = Annotated[
    str | None,
    typer.Option(
        "--mirror",
        metavar="URI",
        envvar="MEMORYPIPE_MIRROR",
        help="A folder that is kept as plain Parquet with exactly the live memories.",
    ),
]
RecordTypeOption = Annotated[
    str | None,
    typer.Option(
        "--record-type", metavar="TYPE", help="Of the memory, where several types have its id."
    ),
]
