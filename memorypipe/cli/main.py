"""The entry point: from the words of a command line to an exit code."""

import sys
import traceback
from collections.abc import Sequence

import typer
from typer.main import get_command

from memorypipe.cli.app import app
from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import DEBUG_VARIABLE, Output
from memorypipe.cli.values import attach_local_model
from memorypipe.errors import InvalidArgumentError, MemoryPipeError

__all__ = ["main"]

_NAME = "memorypipe"

# An error that nobody foresaw may quote what it was working on.
_MAX_MESSAGE_CHARS = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: The words after the program's name; None takes those of the process.

    Returns:
        The exit code, one of `ExitCode`.
    """
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    command = get_command(app)
    try:
        code = command.main(attach_local_model(words), prog_name=_NAME, standalone_mode=False)
        return int(code or ExitCode.DONE)
    except Exception as error:  # noqa: BLE001  # the one boundary: nothing gets past it but Ctrl-C
        return _fail(error, Output(as_json="--json" in words))


def _fail(error: Exception, output: Output) -> int:
    """Tell of an error on one line, and say how the command ends."""
    if output.debugs:
        traceback.print_exception(error)
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else _NAME
        message = error.format_message().replace("Value error, ", "")
        stop = "" if message.endswith((".", "?")) else "."
        output.fail(f"{message}{stop} Try '{path} --help'.")
        return ExitCode.USAGE
    if isinstance(error, InvalidArgumentError):
        output.fail(str(error))
        return ExitCode.USAGE
    if isinstance(error, MemoryPipeError):
        output.fail(str(error))
    else:
        cause = _innermost(error)
        what = f"{type(cause).__name__}: {cause}"[:_MAX_MESSAGE_CHARS]
        output.fail(f"{what} (unexpected; {DEBUG_VARIABLE}=1 shows where)")
    return ExitCode.ERROR


def _innermost(error: BaseException) -> BaseException:
    """Find what went wrong inside: Ray wraps the errors of its workers, tracebacks and all.

    Its own errors it raises from an empty one, which tells nothing.
    """
    while (inner := getattr(error, "cause", None) or error.__cause__) is not None and str(inner):
        error = inner
    return error
