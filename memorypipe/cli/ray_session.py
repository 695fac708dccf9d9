"""Ray for the time of one command, without a word on the terminal."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from memorypipe.ray_start import ensure_ray, ray_started_by

__all__ = ["object_store_bytes", "ray_session"]

_GIB = 1024**3
_LOW_MEMORY_BYTES = 8 * _GIB
_LEAST_STORE_BYTES = 128 * 1024**2


@contextmanager
def ray_session(
    address: str | None,
    *,
    is_quiet: bool = True,
    on_start: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """Have Ray: the one of this process, a cluster, or a new one on this machine.

    A new one is started when something first needs it: small runs don't.

    Args:
        address: Of a cluster, which is joined at once; None starts Ray here. (Without that, Ray
            would join whatever cluster it finds on the machine.)
        is_quiet: False lets Ray say what it has to say, for those who look for a fault.
        on_start: Called before it is started.
    """
    # Ray reports its use to its makers unless told not to; nothing may leave here unasked.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if is_quiet:
        _silence_start()
    with ExitStack() as stack:

        def start() -> None:
            on_start()
            stack.enter_context(_started(address, is_quiet=is_quiet))

        stack.enter_context(ray_started_by(start))
        if address is not None:
            ensure_ray()
        yield


@contextmanager
def _started(address: str | None, *, is_quiet: bool) -> Iterator[None]:
    import ray  # noqa: PLC0415  # it takes seconds, which no other command should wait for

    # Ray prints to standard output what its daemons say, whatever its settings, from threads of
    # its own; and its start writes to standard error past every Python logger.
    with _to_nowhere(sys.stdout, is_quiet=is_quiet):
        try:
            with _to_nowhere(sys.stderr, is_quiet=is_quiet):
                level = logging.ERROR if is_quiet else logging.INFO
                ray.init(log_to_driver=not is_quiet, logging_level=level, **_place(address))
            if is_quiet:
                _silence_data()
            yield
        finally:
            ray.shutdown()


def _place(address: str | None) -> dict[str, Any]:
    if address is not None:
        return {"address": address}
    here: dict[str, Any] = {"address": "local", "include_dashboard": False}
    store_bytes = object_store_bytes(_available_bytes())
    return here if store_bytes is None else {**here, "object_store_memory": store_bytes}


def object_store_bytes(available_bytes: int) -> int | None:
    """Choose the size of Ray's object store on this machine; None leaves it to Ray.

    Ray takes a share of the memory that the machine has, not of what is free.
    """
    if available_bytes >= _LOW_MEMORY_BYTES:
        return None
    return max(available_bytes // 4, _LEAST_STORE_BYTES)


def _available_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not told here
        return _LOW_MEMORY_BYTES


def _silence_start() -> None:
    # The level of Ray's C++ side, which knows no Python logger either.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Ray forks in order to start its own programs at once, which is safe.
    warnings.filterwarnings("ignore", message="lance is not fork-safe")


def _silence_data() -> None:
    from ray.data import DataContext  # noqa: PLC0415  # as above

    DataContext.get_current().enable_progress_bars = False
    for name in ("ray", "ray.data"):
        # Errors too: they are raised as well, and their log is a traceback of a hundred lines.
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _to_nowhere(stream: TextIO, *, is_quiet: bool) -> Iterator[None]:
    """Send to nowhere what anybody writes to a stream of this process, C++ code included."""
    number = _descriptor(stream) if is_quiet else None
    if number is None:
        yield
        return
    stream.flush()
    kept = os.dup(number)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # a device
        os.dup2(nowhere.fileno(), number)
    try:
        yield
    finally:
        stream.flush()
        os.dup2(kept, number)
        os.close(kept)


def _descriptor(stream: TextIO) -> int | None:
    """Give the file descriptor behind a stream; None where there is none, as in a notebook."""
    try:
        return stream.fileno()
    except OSError:
        return None
