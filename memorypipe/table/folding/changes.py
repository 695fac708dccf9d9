"""What a batch comes to: at most one change per memory, as columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Change", "Changes", "Conflict", "Folded"]


@dataclass(slots=True)
class Change:
    """What becomes of one memory.

    Attributes:
        event: The one event that all steps come to.
        memory_id: Its final id.
        base: Number of the row that is closed; for an ADD that of a vacant record, or None.
        steps: Numbers of the actions that led here, in order.
        says: Hash of the text as it is after these steps; None where the memory is not live, or
            has expired.
        is_valid: Whether it is live as long as it has not expired.
        has_expired: Whether it has, by what these steps say.
    """

    event: Literal["ADD", "UPDATE", "DELETE"]
    memory_id: str
    base: int | None
    steps: list[int]
    says: str | None = None
    is_valid: bool = True
    has_expired: bool = False


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Many changes, in the order of their last actions.

    Attributes:
        event: Strings, as `Change.event`.
        memory_id: Strings, as `Change.memory_id`.
        base: int64, as `Change.base`.
        last: int64, number of the last action of each.
        steps: Number of a change to the numbers of its actions, where there are several.
    """

    event: pa.Array
    memory_id: pa.Array
    base: pa.Array
    last: pa.Array
    steps: Mapping[int, Sequence[int]]

    @classmethod
    def of(cls, changes: Iterable[Change]) -> "Changes":
        """Make columns of changes."""
        ordered = sorted(changes, key=lambda change: change.steps[-1])
        return cls(
            event=pa.array([change.event for change in ordered], pa.string()),
            memory_id=pa.array([change.memory_id for change in ordered], pa.string()),
            base=pa.array([change.base for change in ordered], pa.int64()),
            last=pa.array([change.steps[-1] for change in ordered], pa.int64()),
            steps={n: each.steps for n, each in enumerate(ordered) if len(each.steps) > 1},
        )

    def __len__(self) -> int:
        return len(self.last)

    def __iter__(self) -> Iterator[Change]:
        columns = (self.event, self.memory_id, self.base, self.last)
        for number, row in enumerate(zip(*(each.to_pylist() for each in columns), strict=True)):
            event, memory_id, base, last = row
            yield Change(event, memory_id, base, list(self.steps.get(number, [last])))

    def count(self, event: str) -> int:
        """Count the changes of one event."""
        return int(pc.sum(pc.equal(self.event, event)).as_py() or 0)

    def joined(self, other: "Changes") -> "Changes":
        """Put the changes of both into one order."""
        if not len(other):
            return self
        order = np.argsort(np.concatenate([np.asarray(self.last), np.asarray(other.last)]))
        places = np.argsort(order)
        steps = {int(places[number]): each for number, each in self.steps.items()}
        own = len(self)
        steps |= {int(places[own + number]): each for number, each in other.steps.items()}

        def both(name: str) -> Any:
            column = pa.concat_arrays([getattr(self, name), getattr(other, name)])
            return column.take(pa.array(order))

        names = ("event", "memory_id", "base", "last")
        return Changes(**{name: both(name) for name in names}, steps=steps)


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """Why the actions of one scope cannot be taken.

    Attributes:
        changed: Memories that changed since the actions were decided.
        absent: Memories that the scope does not have, or has no more.
    """

    changed: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def memory_ids(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted({*self.changed, *self.absent}))


@dataclass(kw_only=True)
class Folded:
    """What a batch comes to.

    Attributes:
        changes: One per memory that changes.
        ids: Provisional id of an ADD to the final one, where they differ.
        none: Actions that change nothing.
        duplicates: Of `none`, ADDs of what a live memory of their scope says already.
        blocked: Of `none`, what came in as an ADD or UPDATE of what was forgotten.
        blocked: Of `none`, ADDs and UPDATEs of what was forgotten; set by the commit.
        conflicts: Scope key to why none of its actions are in `changes`.
        unseen: Ids that must be looked up before this result can be trusted.
    """

    changes: Changes = field(default_factory=lambda: Changes.of([]))
    ids: dict[str, str] = field(default_factory=dict)
    none: int = 0
    duplicates: int = 0
    blocked: int = 0
    conflicts: dict[str, Conflict] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
