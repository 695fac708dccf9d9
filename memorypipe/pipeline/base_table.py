"""What a planning takes from its table before it begins."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from memorypipe.errors import PlanError
from memorypipe.id_key import IdKeySource
from memorypipe.llm.embed.types import Embedder
from memorypipe.pipeline.embedders import embedder_to_plan
from memorypipe.pipeline.id_keys import id_key_to_plan
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.table.table import MemoryTable

__all__ = ["BaseTable"]


@dataclass(frozen=True, kw_only=True)
class BaseTable:
    """The table that a plan is made against.

    Attributes:
        version: Its version; None: there is no table yet.
        known_keys: Ledger keys of the messages that are not taken.
        erased: Names of the scopes that were erased.
        embedder: Of its memories; None: they have no vectors.
        id_key: Where the key of its ids comes from; None: they have none.
        last_asked: Whom the last run asked, as of
            `memorypipe.pipeline.runs.identity.asked_of`; None where no run says so.
    """

    version: int | None = None
    known_keys: Collection[bytes] = ()
    erased: Collection[str] = ()
    embedder: Embedder | None = None
    id_key: IdKeySource | None = None
    last_asked: Mapping[str, str] | None = field(default=None)

    @classmethod
    def read(
        cls,
        uri: str,
        request: RunRequest,
        *,
        embedder: str | Embedder | None,
        backend: str | None,
        id_key: IdKeySource | None = None,
    ) -> Self:
        """Read it.

        Args:
            uri: Of the table, which need not exist.
            request: What is asked of the run.
            embedder: As for `MemoryTable.open`.
            backend: Likewise.
            id_key: Likewise.

        Raises:
            PlanError: If the run that is asked for is committed.
            TableError: If the table's embedder needs an address, and none was given.
            InvalidArgumentError: For another embedder back end or key than the table's.
        """
        if not MemoryTable.exists(uri):
            return cls(
                embedder=embedder_to_plan(embedder, None), id_key=id_key_to_plan(id_key, None)
            )
        table = MemoryTable.open(
            uri, create=False, backend=backend, embedder=embedder, id_key=id_key
        )
        runs = table.runs()
        _check_is_new(request.run_id, runs["run_id"].to_pylist())
        return cls(
            version=table.version,
            known_keys=table.ledger_keys(reprocess=request.reprocess).to_pylist(),
            erased=table.settings.erased,
            embedder=embedder_to_plan(embedder, table),
            id_key=id_key_to_plan(id_key, table),
            last_asked=_last_asked(runs),
        )


def _check_is_new(run_id: str | None, committed: Collection[str]) -> None:
    if run_id in committed:
        raise PlanError(
            f"Run {run_id!r} is committed already; choose another run id. What it has dealt with "
            "is not paid again, and what it left open is taken up."
        )


def _last_asked(runs: pa.Table) -> Mapping[str, str] | None:
    """Give what the newest run that stands says of whom it asked."""
    told = zip(runs["info"].to_pylist(), runs["undone"].to_pylist(), strict=True)
    for info, undone in reversed(list(told)):
        asked: Mapping[str, str] | None = json.loads(info).get("asked")
        if asked and not undone:
            return asked
    return None
