"""Several addresses of one endpoint, as one model: the idle ones first, the failing ones aside."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memorypipe.errors import EndpointError, ModelError, RejectedRequestError, RetryableModelError
from memorypipe.llm.types import Model, Reply, Request

__all__ = ["FIRST_ASIDE_S", "LONGEST_ASIDE_S", "ReplicaCounters", "ReplicaModel"]

FIRST_ASIDE_S = 1.0
"""How long a replica is set aside for its first failure; it doubles with every further one."""

LONGEST_ASIDE_S = 60.0
"""The longest that a replica is set aside before it is tried again."""

# Failures that tell of the replica, not of the request or of the rate.
_REPLICA_KINDS = frozenset({"connection", "timeout"})
_SERVER_ERROR = "http_5"
_CLIENT_ERROR = "http_4"


@dataclass(frozen=True, kw_only=True)
class ReplicaCounters:
    """What became of a replica.

    Attributes:
        calls: Requests that it was given.
        failures: Those that failed because of it.
        set_aside: How often it was set aside.
    """

    calls: int
    failures: int
    set_aside: int


class _Replica:
    """One address: what it is doing, and since when it fails."""

    def __init__(self, name: str, model: Model) -> None:
        self.name = name
        self.model = model
        self.in_flight = 0
        self.last_turn = 0
        self.streak = 0
        self.free_s = -math.inf
        self.calls = self.failures = self.set_aside = 0

    @property
    def aside_s(self) -> float:
        return min(FIRST_ASIDE_S * 2.0 ** min(self.streak - 1, 30), LONGEST_ASIDE_S)

    def start(self, turn: int, now: float) -> int:
        """Begin a request; gives the streak that it belongs to."""
        self.calls += 1
        self.in_flight += 1
        self.last_turn = turn
        if self.streak:
            # A trial: the next one only when its time would be up again, even if this one hangs.
            self.free_s = now + self.aside_s
        return self.streak

    def works(self, streak: int) -> None:
        # An answer to what was asked before it was set aside does not say that it is back.
        if streak == self.streak:
            self.streak, self.free_s = 0, -math.inf

    def fails(self, streak: int, now: float) -> None:
        self.failures += 1
        # Of all that were under way when it began to fail, the first counts.
        if streak == self.streak:
            self.streak += 1
            self.set_aside += 1
            self.free_s = now + self.aside_s


class ReplicaModel:
    """A model over one model per replica.

    A request goes to the replica with the fewest in flight, of those to the one that had its turn
    longest ago. A replica that fails (connection, timeout, 5xx, or an `EndpointError`) is set
    aside for a second, then for twice as long every time, up to a minute; when the time is up one
    request tries it. Where all are set aside, the one whose time is up next is tried: nobody
    waits here.

    An `EndpointError` of one replica says something about the endpoint only when all others fail
    too. Until then it is worth another attempt, of kind ``"replica_401"`` and the like: a replica
    that restarts, or has another key, stops no run, and a wrong key does as soon as each replica
    has said so. Failures that another replica can make good are asked to be tried again at once.

    Args:
        models: By the replica's name in errors and counters.
        clock: Monotonic seconds.

    Example:
        >>> from memorypipe.llm.offline import OfflineModel
        >>> list(ReplicaModel({"a": OfflineModel(), "b": OfflineModel()}).counters())
        ['a', 'b']
    """

    def __init__(
        self, models: Mapping[str, Model], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._replicas = [_Replica(name, model) for name, model in models.items()]
        self._clock = clock
        self._turn = 0

    async def complete(self, request: Request) -> Reply:
        """Send one request to one replica.

        Raises:
            ModelError: As that replica's model; see above for `EndpointError`.
        """
        replica = self._choose()
        self._turn += 1
        streak = replica.start(self._turn, self._clock())
        try:
            reply = await replica.model.complete(request)
        except ModelError as error:
            if not _tells_of_replica(error):
                if _is_at_work(error):
                    replica.works(streak)
                raise
            replica.fails(streak, self._clock())
            raise self._seen_as_endpoint(replica, error) from None
        finally:
            replica.in_flight -= 1
        replica.works(streak)
        return reply

    async def refresh_key(self) -> None:
        """Read the key again, for every replica."""
        for replica in self._replicas:
            await replica.model.refresh_key()

    async def close(self) -> None:
        """Close every replica's model."""
        for replica in self._replicas:
            await replica.model.close()

    def counters(self) -> dict[str, ReplicaCounters]:
        """Give what became of each replica so far, by its name."""
        return {
            replica.name: ReplicaCounters(
                calls=replica.calls, failures=replica.failures, set_aside=replica.set_aside
            )
            for replica in self._replicas
        }

    def _choose(self) -> _Replica:
        now = self._clock()
        free = [replica for replica in self._replicas if replica.free_s <= now]
        if not free:
            return min(self._replicas, key=lambda replica: (replica.free_s, replica.last_turn))
        return min(free, key=lambda replica: (replica.in_flight, replica.last_turn))

    def _seen_as_endpoint(self, failed: _Replica, error: ModelError) -> ModelError:
        """Give the error as one of the endpoint that the other replicas still serve, if they do."""
        if all(replica.streak for replica in self._replicas if replica is not failed):
            return error
        if isinstance(error, RetryableModelError):
            return RetryableModelError(str(error), error.kind, error.retry_after_s or 0.0)
        status = getattr(error, "status", None) or "refused"
        return RetryableModelError(
            f"One of {len(self._replicas)} replicas is of no use: {error}",
            f"replica_{status}",
            0.0,
        )


def _is_at_work(error: ModelError) -> bool:
    """Tell whether a replica must be well to fail so: it rejects this request, or is busy."""
    if isinstance(error, RejectedRequestError):
        return True
    return isinstance(error, RetryableModelError) and error.kind.startswith(_CLIENT_ERROR)


def _tells_of_replica(error: ModelError) -> bool:
    if isinstance(error, EndpointError):
        return True
    if not isinstance(error, RetryableModelError):
        return False
    return error.kind in _REPLICA_KINDS or error.kind.startswith(_SERVER_ERROR)
