"""The coordinator of a run, and how workers find it.

A run has one coordinator, which its driver starts and owns: a Ray actor, or an object of the
driver's process where all that ask are in it. Where there is no run, expressions with
``rate_scope="cluster"`` share one per Ray job: whichever worker comes first starts it, it survives
that worker, and it ends by itself when nobody has asked for a while.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from memorypipe.llm.limits.control import Ask, Bounds, Coordinator, Grant
from memorypipe.llm.limits.local_coordinator import LocalCoordinator
from memorypipe.llm.spec import ModelSpec
from memorypipe.ray_start import ensure_ray

__all__ = ["JOB_IDLE_S", "HereCoordinator", "RunCoordinator", "connect"]

JOB_IDLE_S = 30.0
"""A coordinator that belongs to no run ends when nobody has asked it for so long."""

_NAMESPACE = "memorypipe"
_LOOK_S = 1.0
_TOTALS_TIMEOUT_S = 30.0


class RunCoordinator:
    """The driver's side of a run's coordinator.

    Args:
        run_id: The run, as `ModelSpec.run` names it.
        actor: The coordinator; `start` makes it.
    """

    def __init__(self, run_id: str, actor: ActorHandle[Any]) -> None:
        self.run_id = run_id
        self._actor = actor

    @classmethod
    def start(
        cls, run_id: str, bounds: Bounds | None = None, *, leased_calls: int | None = None
    ) -> "RunCoordinator":
        """Start the coordinator of a run; it ends with this driver, or by `close`.

        Args:
            run_id: Names the run; no other that is under way may have this name.
            bounds: Where the run stops; None for no bounds.
            leased_calls: As for `RunControl`.

        Raises:
            ValueError: Where a run of this name has a coordinator already.
        """
        ensure_ray()
        # Where its driver is, since the run cannot outlive that node, but can any other one.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        actor_class = _actor_class(_run_name(run_id), scheduling_strategy=here)
        actor = actor_class.remote(bounds or Bounds(), None, leased_calls)
        return cls(run_id, actor)

    def totals(self) -> dict[str, Any]:
        """Give what the run has used so far; as `RunControl.totals`.

        Raises:
            ConnectionError: Where the coordinator cannot be reached.
        """
        return self._told(self._actor.totals)

    def usage(self) -> dict[str, Any]:
        """Give what a budget is kept by; as `RunControl.usage`.

        Raises:
            ConnectionError: Where the coordinator cannot be reached.
        """
        return self._told(self._actor.usage)

    def _told(self, method: Any) -> dict[str, Any]:
        try:
            return dict(ray.get(method.remote(), timeout=_TOTALS_TIMEOUT_S))
        except RayError as error:
            raise ConnectionError(
                f"The coordinator of run {self.run_id!r} cannot be reached "
                f"({type(error).__name__})."
            ) from error

    def stop(self, reason: str) -> None:
        """Let nothing more be sent; what is under way goes on."""
        self._actor.stop.remote(reason)

    def allow(self, bounds: Bounds, leased_calls: int) -> None:
        """Set bounds anew; as `RunControl.allow`."""
        self._actor.allow.remote(bounds, leased_calls)

    def is_quiet(self) -> bool:
        """Tell whether nothing is under way any more after `stop`; as `RunControl.is_quiet`.

        Raises:
            RayError: Where the coordinator cannot be reached.
        """
        return bool(ray.get(self._actor.is_quiet.remote(), timeout=_TOTALS_TIMEOUT_S))

    def close(self) -> None:
        """End the coordinator; workers that still ask are told that it is gone."""
        ray.kill(self._actor)


class HereCoordinator(LocalCoordinator):
    """A run's coordinator for workers of this process, which is there at once.

    Args:
        run_id: The run, as `ModelSpec.run` names it.
        bounds: Where the run stops; None for no bounds.
        leased_calls: As for `RunControl`.
    """

    def __init__(
        self, run_id: str, bounds: Bounds | None = None, *, leased_calls: int | None = None
    ) -> None:
        super().__init__(bounds, leased_calls=leased_calls)
        self.run_id = run_id
        _here[run_id] = self

    def close(self) -> None:
        """End it; workers that still ask are told that it is gone."""
        super().close()
        _here.pop(self.run_id, None)


# By their runs.
_here: dict[str, HereCoordinator] = {}


def connect(spec: ModelSpec) -> Coordinator | None:
    """Find the coordinator that a worker of this spec asks; nothing is sent to it yet.

    Args:
        spec: With `run` set, that run's coordinator; else, with `rate_scope` ``"cluster"``, the
            one of this Ray job, made on first use.

    Returns:
        None where the worker is on its own; so is a process without Ray, whatever the scope.
    """
    run = spec.run
    if run in _here:
        return _here[run]
    if run is not None:
        return _Handle(lambda: ray.get_actor(_run_name(run), namespace=_NAMESPACE))
    if spec.rate_scope == "cluster" and ray.is_initialized():
        return _Handle(_job_actor)
    return None


class _Handle:
    """A `Coordinator` behind an actor; whoever it is, is looked up again after a failure."""

    def __init__(self, find: Callable[[], ActorHandle[Any]]) -> None:
        self._find = find
        # An actor's methods are known at run time only.
        self._actor: Any = None

    async def exchange(self, ask: Ask) -> Grant:
        """Ask the actor.

        Raises:
            ConnectionError: Where there is none, or it died.
        """
        try:
            actor = self._actor or await asyncio.to_thread(self._find)
            self._actor = actor
            answer: asyncio.Future[Grant] = asyncio.wrap_future(actor.exchange.remote(ask).future())
            return await answer
        except (RayError, ValueError) as error:
            self._actor = None
            raise ConnectionError(f"No coordinator ({type(error).__name__}).") from error


class _Actor(LocalCoordinator):
    """The same in a process of its own."""

    def __init__(
        self, bounds: Bounds, idle_s: float | None, leased_calls: int | None = None
    ) -> None:
        super().__init__(bounds, leased_calls=leased_calls)
        if idle_s is not None:
            threading.Thread(target=self._end_when_idle, args=(idle_s,), daemon=True).start()

    def _end_when_idle(self, idle_s: float) -> None:
        while self.idle_s() < idle_s:
            time.sleep(_LOOK_S)
        ray.kill(ray.get_runtime_context().current_actor)


def _run_name(run_id: str) -> str:
    return f"run-{run_id}"


def _job_actor() -> ActorHandle[Any]:
    job = ray.get_runtime_context().get_job_id()
    options = {"lifetime": "detached", "get_if_exists": True}
    actor: ActorHandle[Any] = _actor_class(f"job-{job}", **options).remote(Bounds(), JOB_IDLE_S)
    return actor


def _actor_class(name: str, **options: Any) -> Any:
    # No CPU of its own: on a small machine the workers need them all.
    return ray.remote(_Actor).options(name=name, namespace=_NAMESPACE, num_cpus=0, **options)
