"""The options that say where the key of an endpoint comes from."""

from collections.abc import Iterable
from typing import Protocol

from memorypipe.llm.keys import KeySource, choose_key

__all__ = ["KeyOptions", "key_of", "names_key"]


class KeyOptions(Protocol):
    """The options that these functions look at."""

    @property
    def key_env(self) -> str | None:
        """Name of an environment variable."""

    @property
    def key_file(self) -> str | None:
        """Path of a file."""

    @property
    def key_command(self) -> str | None:
        """A command line."""


def names_key(options: KeyOptions) -> bool:
    """Tell whether an option says where the key comes from."""
    given = (options.key_env, options.key_file, options.key_command)
    return any(value is not None for value in given)


def key_of(options: KeyOptions, hosts: Iterable[str]) -> KeySource:
    """Choose the key that the options name for an endpoint.

    Args:
        options: Of the command line.
        hosts: The hosts of the endpoint and its replicas.

    Raises:
        InvalidArgumentError: For more than one option, or one that cannot work.
    """
    return choose_key(
        hosts,
        key_env=options.key_env,
        key_file=options.key_file,
        key_command=options.key_command,
        spell=_option,
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
