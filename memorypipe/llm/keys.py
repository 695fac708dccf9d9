"""Where the key of an endpoint comes from; the key itself is read on the workers only."""

import pickle
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memorypipe.errors import EndpointError, InvalidArgumentError
from memorypipe.ids import digest

__all__ = [
    "NO_KEY",
    "KeyCommand",
    "KeyFile",
    "KeySource",
    "choose_key",
    "display_key",
    "key_identity",
    "resolve_key",
]

NO_KEY = "NOT_SET"

_DEFAULT_HOST = "api.openai.com"
_DEFAULT_VARIABLE = "OPENAI_API_KEY"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMAND_TIMEOUT_S = 60.0
_ENV_PREFIX = "env:"

# The key itself, "env:NAME", NO_KEY, or something that is asked on the worker.
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


def choose_key(  # noqa: PLR0913  # the three sources, and what they are called
    hosts: Iterable[str],
    *,
    key_env: str | None = None,
    key_file: str | None = None,
    key_command: str | None = None,
    spell: Callable[[str], str] = str,
    folder: Path | None = None,
) -> KeySource:
    """Choose where the key of an endpoint comes from.

    Without a source only ``api.openai.com`` gets a key, that of ``OPENAI_API_KEY``, and only
    where no replica is anywhere else: a key never goes to a host that it was not meant for.

    Args:
        hosts: The hosts of the endpoint and its replicas.
        key_env: Name of an environment variable.
        key_file: Path of a file.
        key_command: A command line; no shell reads it.
        spell: How errors name the three, e.g. as options of a command line.
        folder: Where a relative `key_file` is; None is the current folder.

    Raises:
        InvalidArgumentError: For more than one source, or one that cannot work.

    Example:
        >>> choose_key(["api.openai.com"]), choose_key(["api.openai.com", "127.0.0.1"])
        ('env:OPENAI_API_KEY', 'NOT_SET')
    """
    given = {"key_env": key_env, "key_file": key_file, "key_command": key_command}
    chosen = [spell(name) for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise InvalidArgumentError(f"Give the key one way only, got {' and '.join(chosen)}.")
    if key_env is not None:
        return f"{_ENV_PREFIX}{_variable(key_env, spell)}"
    if key_file is not None:
        if not key_file.strip():
            raise InvalidArgumentError(f"{spell('key_file')} must not be blank; give a path.")
        return KeyFile(str((folder or Path()).joinpath(Path(key_file).expanduser()).absolute()))
    if key_command is not None:
        return KeyCommand(_words(key_command, spell))
    at_home = {host.lower() for host in hosts} == {_DEFAULT_HOST}
    return f"{_ENV_PREFIX}{_DEFAULT_VARIABLE}" if at_home else NO_KEY


def resolve_key(api_key: KeySource, environ: Mapping[str, str]) -> str:
    """Get the key itself, on the worker.

    Args:
        api_key: As in `memorypipe.llm.spec.ModelSpec`.
        environ: Where ``"env:NAME"`` looks.

    Raises:
        EndpointError: For a variable that is not set, or a callable that fails or gives no key.

    Example:
        >>> resolve_key("env:MY_KEY", {"MY_KEY": "sk-1"})
        'sk-1'
    """
    if not isinstance(api_key, str):
        return _call(api_key)
    if not api_key.startswith(_ENV_PREFIX):
        return api_key
    name = api_key.removeprefix(_ENV_PREFIX)
    key = environ.get(name, "").strip()
    if not key:
        raise EndpointError(
            f"api_key is {api_key!r}, but the environment variable {name!r} is not set on the "
            f"worker. Set it there, or pass the variables to all workers "
            f"(for Ray: runtime_env={{'env_vars': …}})."
        )
    return key


def display_key(api_key: KeySource) -> str:
    """Show where a key comes from, never the key.

    Example:
        >>> display_key("env:MY_KEY"), display_key("sk-1")
        ("'env:MY_KEY'", '***')
    """
    if not isinstance(api_key, str):
        return "<callable>"
    return repr(api_key) if api_key.startswith(_ENV_PREFIX) or api_key == NO_KEY else "***"


def key_identity(api_key: KeySource) -> tuple[str, str]:
    """Tell sources apart: equal sources give equal values, to be hashed and never shown."""
    shown = api_key if isinstance(api_key, str) else _callable_name(api_key)
    return type(api_key).__name__, shown


def _call(source: Callable[[], str]) -> str:
    try:
        key = source()
    except Exception as error:  # noqa: BLE001  # the boundary to the caller's code
        # The message may hold the key: the class must do.
        raise EndpointError(f"The api_key callable raised {type(error).__name__}.") from None
    if not isinstance(key, str) or not key.strip():
        raise EndpointError(
            f"The api_key callable must give a non-blank string, got {type(key).__name__}."
        )
    return key.strip()


def _callable_name(source: Callable[[], str]) -> str:
    try:
        return digest(pickle.dumps(source).hex()).hex()
    except (pickle.PicklingError, AttributeError, TypeError):
        # A lambda or a closure: its code and what it closes over, as far as they can be shown.
        # Two that look alike but for object addresses get a worker each, which is safe.
        code = getattr(source, "__code__", None)
        cells = [repr(cell.cell_contents) for cell in getattr(source, "__closure__", None) or ()]
        shown = [repr(getattr(code, "co_code", source)), repr(getattr(code, "co_consts", None))]
        shown += [
            repr(getattr(code, "co_names", None)),
            repr(getattr(source, "__defaults__", None)),
        ]
        return digest(shown, cells).hex()


def _variable(name: str, spell: Callable[[str], str]) -> str:
    if not _VARIABLE_NAME.fullmatch(name):
        # Not shown: it may be a key, given by mistake.
        raise InvalidArgumentError(
            f"{spell('key_env')} takes the name of an environment variable (letters, digits and "
            "'_'), never the key itself: export the key, then pass the variable's name."
        )
    return name


def _words(command: str, spell: Callable[[str], str]) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidArgumentError(f"{spell('key_command')} cannot be read: {error}.") from None
    if not words:
        raise InvalidArgumentError(
            f"{spell('key_command')} must not be blank; give a command with arguments."
        )
    return words
