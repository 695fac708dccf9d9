"""What can be found wrong in a moment, before Ray starts and before a call is paid."""

import shutil
import socket
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from memorypipe.cli.keys import KeyCommand, KeyFile
from memorypipe.errors import EndpointError, InvalidArgumentError
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec
from memorypipe.logs.files import find_files
from memorypipe.logs.formats import FORMATS

__all__ = ["check_endpoint", "check_key", "check_log", "is_proxied"]

_CONNECT_TIMEOUT_S = 5.0

Connect = Callable[[tuple[str, int], float], object]


def check_log(logs: Sequence[str], format_name: str) -> None:
    """Check that the log is there.

    Raises:
        InvalidArgumentError: For a path without a file, or an unknown format.
    """
    for path in logs:
        find_files(path)
    if format_name not in ("auto", *FORMATS):
        raise InvalidArgumentError(
            f"--format must be one of auto, {', '.join(FORMATS)}, got {format_name!r}."
        )


def check_key(spec: ModelSpec, environ: Mapping[str, str]) -> None:
    """Check that the source of the key is there; the key itself is read on the workers.

    Args:
        spec: With the source.
        environ: The environment that the workers will have.

    Raises:
        EndpointError: For a variable, file or command that is not there.
    """
    key = spec.api_key
    if isinstance(key, KeyFile) and not Path(key.path).is_file():
        raise EndpointError(f"--key-file {key.path!r} is no file; write the key into one.")
    if isinstance(key, KeyCommand) and shutil.which(key.words[0]) is None:
        raise EndpointError(f"--key-command: there is no command {key.words[0]!r} on this machine.")
    if not isinstance(key, str) or not key.startswith("env:"):
        return
    name = key.removeprefix("env:")
    if not environ.get(name, "").strip():
        raise EndpointError(
            f"The environment variable {name!r}, which should hold the key for {spec.endpoint!r}, "
            "is not set; set it, or name another source with --key-env, --key-file or "
            "--key-command."
        )


def is_proxied(url: str) -> bool:
    """Whether the machine's settings send requests for a URL through a proxy."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return False
    return bool(urllib.request.getproxies().keys() & {parts.scheme, "all"})


def check_endpoint(spec: ModelSpec, *, connect: Connect = socket.create_connection) -> None:
    """Check that something listens at the endpoint; nothing is sent.

    Args:
        spec: With the address.
        connect: Opens a TCP connection.

    Raises:
        EndpointError: If nobody listens there.
    """
    if spec.base_url == OFFLINE_URL:
        return
    parts = urlsplit(spec.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        connection = connect((spec.host, port), _CONNECT_TIMEOUT_S)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EndpointError(
            f"Nothing can be reached at {spec.endpoint!r} (port {port}): {reason}. Check "
            "--base-url, and that the server runs."
        ) from error
    if isinstance(connection, socket.socket):
        connection.close()
