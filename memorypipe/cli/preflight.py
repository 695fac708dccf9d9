"""What can be found wrong in a moment, before Ray starts and before a call is paid."""

import shutil
import socket
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memorypipe.errors import EndpointError, LogFormatError
from memorypipe.llm.keys import KeyCommand, KeyFile
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, display_url
from memorypipe.logs.files import find_files, read_records
from memorypipe.logs.options import read_options
from memorypipe.logs.parse import parse_log

__all__ = ["check_endpoint", "check_key", "check_log", "is_proxied"]

_CONNECT_TIMEOUT_S = 5.0

Connect = Callable[[tuple[str, int], float], object]


def check_log(logs: Sequence[str], reading: Mapping[str, Any]) -> None:
    """Check that the log is there, and that its first file can be read as the options say.

    Args:
        logs: Files, folders or patterns.
        reading: Arguments of `memorypipe.logs.read.read_conversations`.

    Raises:
        InvalidArgumentError: For a path without a file, or options that do not fit the log.
    """
    files = [file for path in logs for file in find_files(path)]
    options = read_options(**{name: value for name, value in reading.items() if name != "limit"})
    records = read_records(files[0], is_mapped=options.is_mapped)
    with suppress(LogFormatError):  # the reading tells whether another file is a log
        parse_log(records, options)


def check_key(spec: ModelSpec, environ: Mapping[str, str]) -> None:
    """Check that the sources of key and certificates are there; workers read them.

    Args:
        spec: With the sources.
        environ: The environment that the workers will have.

    Raises:
        EndpointError: For a variable, file or command that is not there.
    """
    if spec.ca_file is not None and not Path(spec.ca_file).is_file():
        raise EndpointError(
            f"ca_file {spec.ca_file!r} of {spec.endpoint!r} is no file; name a PEM file of the "
            "certificates to trust."
        )
    key = spec.api_key
    if isinstance(key, KeyFile) and not Path(key.path).is_file():
        raise EndpointError(f"The key file {key.path!r} is no file; write the key into one.")
    if isinstance(key, KeyCommand) and shutil.which(key.words[0]) is None:
        raise EndpointError(
            f"The key command: there is no command {key.words[0]!r} on this machine."
        )
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
    """Check that something listens at the endpoint, or at its proxy; nothing is sent.

    Args:
        spec: With the addresses. One replica that listens is enough.
        connect: Opens a TCP connection.

    Raises:
        EndpointError: If nobody listens there.
    """
    if spec.base_url == OFFLINE_URL:
        return
    urls = spec.urls if spec.proxy is None else (spec.proxy,)
    failures = []
    for url in urls:
        reason = _reason_not_to_reach(url, connect)
        if reason is None:
            return
        failures.append(f"{display_url(url)!r} {reason}")
    raise EndpointError(
        f"Nothing can be reached at {' or '.join(failures)}. Check --base-url, or the endpoint's "
        "addresses and proxy, and that the server runs."
    )


def _reason_not_to_reach(url: str, connect: Connect) -> str | None:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        connection = connect((parts.hostname or "", port), _CONNECT_TIMEOUT_S)
    except OSError as error:
        return f"(port {port}: {error.strerror or type(error).__name__})"
    if isinstance(connection, socket.socket):
        connection.close()
    return None
