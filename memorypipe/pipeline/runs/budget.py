"""A budget that several runs share, and restarts of one: what is spent is kept beside the table.

::

    budgets/<id>/total.json          what executions that came to their end have spent
    budgets/<id>/<execution>.json    what one that is under way may have spent by now

An execution is a run from its start to its end, once. It writes down what it is going to spend
before it may: after a kill the file says at least what was spent, at most a few seconds more. Each
execution writes its own file and looks at the others in turn, so that two at once do not both take
what is left.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.limits.control import Bounds

__all__ = ["Budget", "Reservation", "Spent", "bounds_left", "check_budget", "reserve_ahead"]

# Calls that may start before the next look, at least.
_LEAST_AHEAD = 16

# What is reserved for calls that start before the next look, in times of those since the last.
_AHEAD = 4

# Tokens and cost of a call are foretold; so much more is set aside.
_MARGIN = 1.5

_TOTAL = "total.json"
_TURN = ".turn"


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was spent.

    Attributes:
        calls: Requests sent.
        tokens: Prompt and completion tokens.
        cost: In the currency of the prices; 0 without prices.
    """

    calls: int = 0
    tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost=self.cost + other.cost,
        )


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """What an execution may do until the next look.

    Attributes:
        calls: Requests that it may have sent in all.
        spent: What that comes to; written down before.
    """

    calls: int
    spent: Spent


class Budget:
    """One budget, as one execution sees it.

    Args:
        folder: Of the budget.
        execution: Names the execution; no other one has it.
        bounds: Of the budget: of all executions together.
    """

    def __init__(self, folder: Path, execution: str, bounds: Bounds) -> None:
        self.name = folder.name
        self.bounds = bounds
        self._folder = folder
        self._own = folder / f"{execution}.json"

    @classmethod
    def of(cls, table_uri: str, budget_id: str, execution: str, bounds: Bounds) -> Self:
        """Give a budget of a table.

        Raises:
            InvalidArgumentError: If `budget_id` cannot name a folder.
        """
        check_budget(budget_id)
        return cls(Path(table_uri) / "budgets" / budget_id, execution, bounds)

    def spent_elsewhere(self) -> Spent:
        """Add up what all other executions have spent, or may have spent by now."""
        total = Spent()
        for path in sorted(self._folder.glob("[!.]*.json")):
            if path != self._own:
                with suppress(FileNotFoundError):  # it has come to its end, and is in the total
                    total += _read(path)
        return total

    def spent(self) -> Spent:
        """Add up what all executions have spent, or may have spent by now."""
        return self.spent_elsewhere() + (_read(self._own) if self._own.exists() else Spent())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let no other execution look or write meanwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / _TURN, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # which gives the turn back

    def reserve(self, spent: Spent) -> None:
        """Write down what this execution may have spent by the next look; durable on return."""
        _write(self._own, spent)

    def close(self, spent: Spent | None) -> None:
        """Add what this execution has spent to the total.

        Args:
            spent: What it has; None where nobody knows: what it had reserved counts then.
        """
        with self.turn():
            if not self._own.exists():
                return
            spent = spent or _read(self._own)
            total = self._folder / _TOTAL
            # In this order: a kill in between counts it twice, never not at all.
            _write(total, spent + (_read(total) if total.exists() else Spent()))
            self._own.unlink()


def check_budget(budget_id: str | None, *, with_batches: bool = False) -> str | None:
    """Check that a run may have a budget of this name.

    Args:
        budget_id: The name; None: no budget.
        with_batches: Whether the run asks in batches.

    Returns:
        The name.

    Raises:
        InvalidArgumentError: If it cannot name a folder, or for batches, which no budget counts.
    """
    if budget_id is None:
        return None
    if with_batches:
        raise InvalidArgumentError(
            f"budget {budget_id!r} (--budget) cannot be kept with batches (--batch-api), which are "
            "sent whole. Leave one of them out."
        )
    is_name = bool(budget_id.strip()) and budget_id == Path(budget_id).name
    if not is_name or budget_id.startswith("."):
        raise InvalidArgumentError(
            f"budget (--budget) must be a name without slashes that does not begin with a dot, "
            f"got {budget_id!r}."
        )
    return budget_id


def bounds_left(bounds: Bounds, elsewhere: Spent) -> Bounds:
    """Give the bounds of one execution: what others have left of those of the budget.

    Example:
        >>> bounds_left(Bounds(max_calls=100), Spent(calls=30, tokens=9.0))
        Bounds(max_calls=70, max_tokens=None, max_cost=None)
    """

    def left(bound: float | None, used: float) -> Any:
        return None if bound is None else max(bound - used, 0)

    return Bounds(
        max_calls=left(bounds.max_calls, elsewhere.calls),
        max_tokens=left(bounds.max_tokens, elsewhere.tokens),
        max_cost=left(bounds.max_cost, elsewhere.cost),
    )


def reserve_ahead(usage: Mapping[str, Any], left: Bounds, *, calls_before: int) -> Reservation:
    """Say what an execution may do until the next look.

    Args:
        usage: As of `memorypipe.llm.limits.run_control.RunControl.usage`.
        left: Its bounds.
        calls_before: `calls` of the usage at the last look.
    """
    used, expected = usage["calls"], usage["expected"]
    calls = used + max(_LEAST_AHEAD, _AHEAD * (used - calls_before))
    if left.max_calls is not None:
        calls = max(used, min(calls, left.max_calls))
    more = _MARGIN * (calls - used)
    spent = Spent(
        calls=calls,
        tokens=expected["tokens"] + more * expected["tokens_each"],
        cost=expected["cost"] + more * expected["cost_each"],
    )
    return Reservation(calls=calls, spent=spent)


def _read(path: Path) -> Spent:
    values: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Spent(calls=values["calls"], tokens=values["tokens"], cost=values["cost"])


def _write(path: Path, spent: Spent) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}.new")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(asdict(spent), file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
