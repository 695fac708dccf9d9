"""A number over time, in steps, that never grows beyond a fixed length. Pure."""

__all__ = ["Timeline"]

_FIRST_STEP_S = 0.5
_MAX_STEPS = 1_000


class Timeline:
    """Keeps the largest value of each step; the steps double when there are too many.

    Example:
        >>> timeline = Timeline()
        >>> for at_s, value in [(0.1, 3), (0.2, 7), (1.3, 2)]:
        ...     timeline.note(at_s, value)
        >>> timeline.points()
        [[0.0, 7], [1.0, 2]]
    """

    def __init__(self) -> None:
        self._step_s = _FIRST_STEP_S
        self._steps: dict[int, int] = {}

    def note(self, at_s: float, value: int) -> None:
        """Take a value in.

        Args:
            at_s: Seconds since the start.
            value: The number.
        """
        step = int(at_s / self._step_s)
        self._steps[step] = max(self._steps.get(step, 0), value)
        if len(self._steps) > _MAX_STEPS:
            self._step_s *= 2
            steps, self._steps = self._steps, {}
            for old, number in steps.items():
                self._steps[old // 2] = max(self._steps.get(old // 2, 0), number)

    def points(self) -> list[list[float]]:
        """Give pairs of a step's beginning in seconds and its value."""
        return [[step * self._step_s, value] for step, value in sorted(self._steps.items())]
