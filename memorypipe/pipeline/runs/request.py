"""What is asked of one run, beside the log: its name, its labels, and what it takes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.selection import Selection
from memorypipe.pipeline.scopes.carrying import Carried
from memorypipe.table.reprocess import Reprocess

__all__ = ["RunRequest"]


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One run, as it was asked for.

    Attributes:
        run_id: Its name; None derives one from inputs, settings and base version.
        selection: What it takes of the log.
        labels: For its run row, and for every revision that it writes.
        reprocess: Which messages that earlier runs have dealt with it takes again; None: none.
        carried: What goes with the memories of single conversations; None: nothing.
        has_revisions: Whether what it supersedes is kept for as long as the table says.

    Raises:
        InvalidArgumentError: For a label without a name or a value.
    """

    run_id: str | None = None
    selection: Selection = field(default_factory=Selection)
    labels: Mapping[str, str] = field(default_factory=dict)
    reprocess: Reprocess | None = None
    carried: Carried | None = None
    has_revisions: bool = True

    def __post_init__(self) -> None:
        for name, value in self.labels.items():
            if not (isinstance(value, str) and name.strip() and value.strip()):
                raise InvalidArgumentError(
                    f"A label must have a name and a text, such as team='search', got "
                    f"{name!r}: {value!r}."
                )

    def to_dict(self) -> dict[str, Any]:
        """Give what was asked as JSON values, for the run id and the manifest.

        What was not asked for is not in it: a run that takes everything keeps its id whatever
        else may be asked for one day.
        """
        asked: dict[str, Any] = {}
        if chosen := self.selection.to_dict():
            asked["selection"] = chosen
        if self.labels:
            asked["labels"] = dict(sorted(self.labels.items()))
        if self.reprocess is not None:
            asked["reprocess"] = self.reprocess.to_dict()
        if self.carried is not None:
            asked["carried"] = self.carried.digest()
        if not self.has_revisions:
            asked["has_revisions"] = False
        return asked
