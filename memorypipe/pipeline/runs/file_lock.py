"""Locks that processes hold on files: the operating system takes them back, however one ends.

A file system without locks lets everybody in at once.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["is_locked", "locked"]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; whoever comes meanwhile waits.

    Args:
        path: The file, which is made where it is not there; its folder is.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            # A process forked meanwhile has the handle too: closing is not enough.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Tell whether somebody holds the lock of a file, which need not be there, nor be writable."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        # Shared: who looks at the same moment is not taken for who holds it.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False
