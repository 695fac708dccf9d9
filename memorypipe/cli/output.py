"""Where a command writes: its result to standard output, everything else to standard error."""

import json
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import IO, Any, Self

from rich.console import Console
from rich.text import Text

__all__ = [
    "DEBUG_VARIABLE",
    "Output",
    "WarningsTo",
    "counted",
    "plain",
    "shown_scope",
    "shown_size",
    "shown_time",
]

DEBUG_VARIABLE = "MEMORYPIPE_DEBUG"

_BYTES_PER_UNIT = 1000

_CONTROL_REPLACEMENT = "\ufffd"
_BIDI_CONTROLS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Output:
    """The two streams of a command.

    Args:
        as_json: Whether the result is one JSON object.
        stdout: Where the result goes; None is the process's.
        stderr: Where everything else goes; None is the process's.

    Attributes:
        err: The console on standard error.
        has_result: Whether the result was written.
    """

    def __init__(
        self, *, as_json: bool, stdout: IO[str] | None = None, stderr: IO[str] | None = None
    ) -> None:
        self.as_json = as_json
        self.has_result = False
        self._stdout = stdout or sys.stdout
        self.err = Console(file=stderr or _own_stderr(), highlight=False, soft_wrap=True)

    @property
    def debugs(self) -> bool:
        """Whether the user looks for a fault and wants to see everything."""
        return os.environ.get(DEBUG_VARIABLE) == "1"

    @property
    def is_terminal(self) -> bool:
        """Whether somebody reads the result in a terminal."""
        return not self.as_json and self._stdout.isatty()

    def result(self, value: Mapping[str, Any], lines: Iterable[Text]) -> None:
        """Write the result: the value as JSON, or the lines for people.

        Args:
            value: JSON values; times are written as ISO 8601.
            lines: What a person reads; not asked for where JSON is wanted.
        """
        self.has_result = True
        if self.as_json:
            text = json.dumps(value, ensure_ascii=False, default=_json_value)
            self._stdout.write(text + "\n")
            self._stdout.flush()
            return
        console = Console(file=self._stdout, highlight=False, soft_wrap=True)
        for line in lines:
            console.print(line)

    def note(self, message: str) -> None:
        """Tell something beside the result."""
        self.err.print(Text(message))

    def warn(self, message: str) -> None:
        """Tell something that the user may want to change."""
        self.err.print(Text.assemble(("warning: ", "yellow"), message))

    def error(self, message: str) -> None:
        """Tell what went wrong, on one line.

        Args:
            message: What, the value, the choices, the next step.
        """
        self.err.print(Text.assemble(("error: ", "bold red"), plain(message)))

    def fail(self, message: str) -> None:
        """Tell what went wrong, where there is no result; arguments as of `error`."""
        self.error(message)
        if self.as_json and not self.has_result:
            self.result({"status": "failed", "error": plain(message)}, ())


class WarningsTo(logging.Handler):
    """Tells the warnings that the package logs as notes of a command.

    Args:
        output: Where to.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def __enter__(self) -> Self:
        logging.getLogger("memorypipe").addHandler(self)
        return self

    def __exit__(self, *_error: object) -> None:
        logging.getLogger("memorypipe").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one warning."""
        self._output.warn(plain(record.getMessage()))


def _own_stderr() -> IO[str]:
    """Open standard error once more: it stays when others are kept from writing to theirs."""
    try:
        number = os.dup(sys.stderr.fileno())
    except OSError:  # it is no file, as in some notebooks
        return sys.stderr
    return os.fdopen(number, "w", encoding=sys.stderr.encoding, errors="backslashreplace")


def _json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def plain(text: str) -> str:
    r"""Bring a text to one line that cannot steer a terminal.

    Example:
        >>> plain("a\n  b\x1b[31m")
        'a b\ufffd[31m'
    """
    line = " ".join(text.split())
    return "".join(
        character if character.isprintable() or not _steers(character) else _CONTROL_REPLACEMENT
        for character in line
    )


def _steers(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or character in _BIDI_CONTROLS  # noqa: PLR2004  # C0, DEL, C1


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with what it counts.

    Example:
        >>> counted(1, "run"), counted(1_200, "memory", "memories")
        ('1 run', '1,200 memories')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shown_scope(scope: Any) -> str:
    """Show a scope, as Arrow gives it (pairs) or as a mapping.

    Example:
        >>> shown_scope([("user_id", "u1")]), shown_scope({})
        ('user_id=u1', '(no scope)')
    """
    pairs = sorted(dict(scope).items())
    return plain(" ".join(f"{name}={value}" for name, value in pairs)) or "(no scope)"


def shown_time(moment: datetime | None) -> str:
    """Show a time to the minute, in UTC; a date alone where it is midnight; "" for None.

    Example:
        >>> from datetime import UTC
        >>> shown_time(datetime(2024, 5, 1, tzinfo=UTC))
        '2024-05-01'
    """
    if moment is None:
        return ""
    at_midnight = (moment.hour, moment.minute, moment.second) == (0, 0, 0)
    return moment.strftime("%Y-%m-%d" if at_midnight else "%Y-%m-%d %H:%M")


def shown_size(size_bytes: int) -> str:
    """Write a size as people do.

    Example:
        >>> shown_size(999), shown_size(1_234_567)
        ('999 B', '1.2 MB')
    """
    if size_bytes < _BYTES_PER_UNIT:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for unit in ("kB", "MB", "GB"):
        size /= _BYTES_PER_UNIT
        if size < _BYTES_PER_UNIT:
            return f"{size:.1f} {unit}"
    return f"{size / _BYTES_PER_UNIT:.1f} TB"
