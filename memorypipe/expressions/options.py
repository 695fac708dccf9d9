"""Worker options of an expression."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memorypipe.errors import InvalidArgumentError

__all__ = ["WorkerOptions"]

_VALID = ("num_workers", "batch_size")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How many workers run an expression, and in what portions they take rows.

    Attributes:
        num_workers: How many worker processes.
        num_cpus: CPUs that each of them reserves; 0 for workers that mostly wait for a network.
        batch_size: Rows handed over at a time; None leaves it to the worker. It never caps the
            requests in flight.
    """

    num_workers: int = 1
    num_cpus: int = 0
    batch_size: int | None = None

    @classmethod
    def parse(cls, base: "WorkerOptions", options: Mapping[str, Any]) -> "WorkerOptions":
        """Apply user options to given ones.

        Args:
            base: What holds where the user says nothing.
            options: `num_workers` (an integer, ``{"IO": n}`` or ``{"CPU": n}``) and `batch_size`.

        Raises:
            TypeError: For an unknown option, naming the valid ones.
            InvalidArgumentError: For a value that cannot work.

        Example:
            >>> WorkerOptions.parse(WorkerOptions(), {"num_workers": {"CPU": 2}})
            WorkerOptions(num_workers=2, num_cpus=1, batch_size=None)
        """
        unknown = sorted(set(options) - set(_VALID))
        if unknown:
            raise TypeError(f"Unknown options {unknown!r}; valid ones are {list(_VALID)!r}.")
        num_workers, num_cpus = base.num_workers, base.num_cpus
        if "num_workers" in options:
            num_workers, num_cpus = _parse_workers(options["num_workers"])
        batch_size = options.get("batch_size", base.batch_size)
        if batch_size is not None and not _is_count(batch_size):
            raise InvalidArgumentError(
                f"batch_size must be an integer of at least 1 or None, got {batch_size!r}."
            )
        return cls(num_workers=num_workers, num_cpus=num_cpus, batch_size=batch_size)


def _parse_workers(value: Any) -> tuple[int, int]:
    """Give the number of workers and the CPUs of each."""
    if _is_count(value):
        return value, 0
    if isinstance(value, Mapping) and len(value) == 1:
        kind, count = next(iter(value.items()))
        if kind in {"IO", "CPU"} and _is_count(count):
            return count, int(kind == "CPU")
    raise InvalidArgumentError(
        f"num_workers must be a positive integer, {{'IO': n}} or {{'CPU': n}}, got {value!r}."
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
