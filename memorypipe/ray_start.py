"""Ray, started when something first needs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["ensure_ray", "ray_started_by"]

_starts: list[Callable[[], object]] = []


def ensure_ray() -> None:
    """Have Ray running: started as the one around wants it, else as Ray does by itself.

    To be called before anything that makes Ray start itself: a run that needs none takes seconds
    less without it.
    """
    import ray  # noqa: PLC0415  # it takes long, and whoever calls this has it

    if not ray.is_initialized():
        start = _starts[-1] if _starts else ray.init
        start()


@contextmanager
def ray_started_by(start: Callable[[], object]) -> Iterator[None]:
    """Say how Ray is started where something in the block needs it.

    Args:
        start: Starts Ray; called where it does not run.
    """
    _starts.append(start)
    try:
        yield
    finally:
        _starts.remove(start)
