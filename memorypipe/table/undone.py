"""Which commits count: those that no undo took back, or whose undo was itself undone. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from memorypipe.table.records import RunRecord

__all__ = ["UNDO_KIND", "counted_ledgers", "numbered", "reopened_numbers", "undone_numbers"]

UNDO_KIND = "undo"


def undone_numbers(runs: Sequence[RunRecord]) -> set[int]:
    """Find the commits that do not count.

    Args:
        runs: All of the table's, oldest first.

    Returns:
        Numbers of commits.
    """
    by_number = {run.number: run for run in runs}
    off: set[int] = set()
    for run in runs:
        for number in run.undoes:
            _turn(by_number, number, off, is_off=True)
    return off


def _turn(by_number: Mapping[int, RunRecord], number: int, off: set[int], *, is_off: bool) -> None:
    """Turn a commit off or on; what an undo took back goes the other way."""
    if is_off:
        off.add(number)
    else:
        off.discard(number)
    if (run := by_number.get(number)) is not None:
        for each in run.undoes:
            _turn(by_number, each, off, is_off=not is_off)


def reopened_numbers(runs: Sequence[RunRecord]) -> set[int]:
    """Find the commits whose ledger does not count, because an undo opened their windows."""
    off = undone_numbers(runs)
    return {number for run in runs if run.number not in off for number in run.reopens}


def counted_ledgers(runs: Sequence[RunRecord]) -> list[str]:
    """Name the ledger files that count.

    Args:
        runs: All of the table's, oldest first.
    """
    reopened = reopened_numbers(runs)
    return [run.ledger for run in runs if run.ledger is not None and run.number not in reopened]


def numbered(verb: str, name: str, taken: Iterable[str]) -> str:
    """Name a run after what it does to what: the first such name that is free.

    Who asks for the same at the same time gets the same name, and it is done once.

    Args:
        verb: E.g. ``"undo"``.
        name: Of what it is done to.
        taken: The run ids in the table.

    Example:
        >>> numbered("undo", "r1", []), numbered("undo", "r1", ["undo-r1"])
        ('undo-r1', 'undo2-r1')
    """
    used = set(taken)
    ordinal, run_id = 1, f"{verb}-{name}"
    while run_id in used:
        ordinal += 1
        run_id = f"{verb}{ordinal}-{name}"
    return run_id
