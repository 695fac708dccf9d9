"""The live worker of a model, in whichever process its rows are computed."""

import gc
from functools import cache

import ray

from memorypipe.expressions.coordinator import connect
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.worker import Worker, get_worker

__all__ = ["worker_of"]


def worker_of(spec: ModelSpec) -> Worker:
    """Give this process's worker for a spec, with the coordinator of its run."""
    _leave_alone_what_is_loaded()
    return get_worker(spec, connect)


@cache
def _leave_alone_what_is_loaded() -> None:
    """Spare the garbage collector of an actor's process what is loaded by now.

    It would look through all of it every few seconds, a tenth of a second and more each time, and
    no request starts meanwhile. A process that is the user's own is left as it is.
    """
    if ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None:
        gc.freeze()
