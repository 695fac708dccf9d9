"""What a command ends with: exit codes, and the thresholds that decide between them. Pure."""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from memorypipe.errors import InvalidArgumentError

if TYPE_CHECKING:  # it imports Arrow, which ``--help`` need not wait for
    from memorypipe.pipeline.runs.summary import RunSummary

__all__ = ["ExitCode", "Threshold", "exit_code"]

_COUNT = re.compile(r"\d+")
_SHARE = re.compile(r"\d*\.\d+|\d+\.")
_PERCENT = re.compile(r"(\d+\.?\d*|\.\d+)\s*%")


class ExitCode(IntEnum):
    """The exit codes; where several apply, `exit_code` takes the gravest."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    INCOMPLETE = 3
    STOPPED = 4
    HELD = 5
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """How many of something are too many.

    Attributes:
        count: More than this are too many; None where `share` decides.
        share: More than this part of all, from 0 to 1, are too many; None where `count` decides.
    """

    count: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, option: str, text: str) -> "Threshold":
        """Read a whole number as a count, and a decimal fraction or a percentage as a share.

        Raises:
            InvalidArgumentError: For anything else, and for a share above 1.

        Example:
            >>> Threshold.parse("--max-failed", "1%")
            Threshold(count=None, share=0.01)
        """
        word = text.strip()
        if _COUNT.fullmatch(word):
            return cls(count=int(word))
        share = None
        if _SHARE.fullmatch(word):
            share = float(word)
        elif percent := _PERCENT.fullmatch(word):
            share = float(percent[1]) / 100
        if share is None or share > 1:
            raise InvalidArgumentError(
                f"{option} must be a count such as 5, or a share such as 0.01 or 1%, got {text!r}."
            )
        return cls(share=share)

    def is_exceeded(self, count: int, total: int) -> bool:
        """Whether `count` of `total` are too many.

        Example:
            >>> Threshold(share=0.01).is_exceeded(2, 100), Threshold(count=2).is_exceeded(2, 100)
            (True, False)
        """
        allowed = self.share * total if self.share is not None else self.count or 0
        return count > allowed


def exit_code(summary: "RunSummary", *, max_rejected: Threshold, max_failed: Threshold) -> ExitCode:
    """Give the exit code of a run that came to its end.

    Args:
        summary: The run.
        max_rejected: Of the log's records, rejected ones included.
        max_failed: Of the run's windows.
    """
    if summary.status == "failed":
        return ExitCode.ERROR
    if summary.status in {"held", "undone"}:
        return ExitCode.HELD
    if summary.status == "stopped":
        return ExitCode.STOPPED
    rejected = summary.rejected_lines
    too_many = max_rejected.is_exceeded(rejected, rejected + summary.conversations)
    if too_many or max_failed.is_exceeded(summary.windows_failed, summary.windows):
        return ExitCode.INCOMPLETE
    return ExitCode.DONE
