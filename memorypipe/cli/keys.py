"""Where the key of an endpoint comes from; the key itself is read on the workers only."""

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memorypipe.errors import InvalidArgumentError

__all__ = ["NO_KEY", "KeyCommand", "KeyFile", "KeySource", "choose_key"]

NO_KEY = "NOT_SET"

_DEFAULT_HOST = "api.openai.com"
_DEFAULT_VARIABLE = "OPENAI_API_KEY"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMAND_TIMEOUT_S = 60.0

# "env:NAME", NO_KEY, or something that is asked on the worker.
KeySource = str | Callable[[], str]


@dataclass(frozen=True)
class KeyFile:
    """Reads the key from a file, anew at each call; picklable.

    Attributes:
        path: The file; white space around the key does not count.
    """

    path: str

    def __call__(self) -> str:
        """Read the key."""
        return Path(self.path).expanduser().read_text(encoding="utf-8").strip()


@dataclass(frozen=True)
class KeyCommand:
    """Asks a command for the key, anew at each call; picklable.

    Attributes:
        words: The command and its arguments; what it prints is the key.
    """

    words: tuple[str, ...]

    def __call__(self) -> str:
        """Run the command and give what it prints."""
        done = subprocess.run(  # noqa: S603  # the user's own command, without a shell
            self.words,
            check=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
        )
        return done.stdout.strip()


def choose_key(
    host: str,
    *,
    key_env: str | None = None,
    key_file: str | None = None,
    key_command: str | None = None,
) -> KeySource:
    """Choose where the key of an endpoint comes from.

    Without an option only ``api.openai.com`` gets a key, that of ``OPENAI_API_KEY``: a key never
    goes to a host that it was not meant for.

    Args:
        host: The endpoint's host.
        key_env: Name of an environment variable.
        key_file: Path of a file.
        key_command: A command line; no shell reads it.

    Raises:
        InvalidArgumentError: For more than one source, or one that cannot work.

    Example:
        >>> choose_key("api.openai.com"), choose_key("127.0.0.1")
        ('env:OPENAI_API_KEY', 'NOT_SET')
    """
    given = {"--key-env": key_env, "--key-file": key_file, "--key-command": key_command}
    chosen = [option for option, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise InvalidArgumentError(f"Give the key one way only, got {' and '.join(chosen)}.")
    if key_env is not None:
        return f"env:{_variable(key_env)}"
    if key_file is not None:
        return KeyFile(str(Path(key_file).expanduser().absolute()))
    if key_command is not None:
        return KeyCommand(_words(key_command))
    return f"env:{_DEFAULT_VARIABLE}" if host.lower() == _DEFAULT_HOST else NO_KEY


def _variable(name: str) -> str:
    if not _VARIABLE_NAME.fullmatch(name):
        # Not shown: it may be a key, given by mistake.
        raise InvalidArgumentError(
            "--key-env takes the name of an environment variable (letters, digits and '_'), "
            "never the key itself: export the key, then pass the variable's name."
        )
    return name


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidArgumentError(f"--key-command cannot be read: {error}.") from None
    if not words:
        raise InvalidArgumentError(
            "--key-command must not be blank; give a command with arguments."
        )
    return words
