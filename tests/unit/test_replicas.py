"""Replicas share the work; one that fails is set aside, and stops no run."""

import asyncio
from collections.abc import Callable

import pytest

from memorypipe.errors import (
    EndpointError,
    ModelError,
    RejectedRequestError,
    RetryableModelError,
)
from memorypipe.llm.client import OpenAIModel
from memorypipe.llm.models import make_model
from memorypipe.llm.replicas import ReplicaModel
from memorypipe.llm.retry import EndpointHealth
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request
from tests.support.scripted_model import ScriptedModel, said

REQUEST = Request(messages=[{"role": "user", "content": "x"}])
DOWN = RetryableModelError("down", "connection")
BUSY = RetryableModelError("busy", "http_429")
WRONG_KEY = EndpointError("wrong key", status=401)


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Replicas:
    """Replicas whose answers a test turns while they run: None answers, an error fails."""

    def __init__(self, **answers: ModelError | None) -> None:
        self.answers = answers
        self.clock = Clock()
        self.models = {name: ScriptedModel(self._script(name)) for name in answers}
        self.model = ReplicaModel(self.models, clock=self.clock)

    def _script(self, name: str) -> Callable[[Request, int], Reply | Exception]:
        return lambda _request, _number: self.answers[name] or said(name)

    def ask(self) -> str:
        """Send one request; gives who answered, or the kind of the failure."""
        return asyncio.run(self._ask())

    def ask_together(self, count: int) -> list[str]:
        async def main() -> list[str]:
            return await asyncio.gather(*(self._ask() for _ in range(count)))

        return asyncio.run(main())

    async def _ask(self) -> str:
        try:
            return (await self.model.complete(REQUEST)).content or ""
        except RetryableModelError as error:
            return error.kind
        except ModelError as error:
            return type(error).__name__

    def counts(self, what: str) -> list[int]:
        return [getattr(each, what) for each in self.model.counters().values()]


def test_requests_go_in_turn_where_all_are_idle() -> None:
    replicas = Replicas(a=None, b=None, c=None)
    assert [replicas.ask() for _ in range(6)] == ["a", "b", "c", "a", "b", "c"]


def test_the_one_with_the_fewest_in_flight_is_asked_first() -> None:
    async def main() -> list[int]:
        gate = asyncio.Event()

        class Gated(ScriptedModel):
            async def complete(self, request: Request) -> Reply:
                self.requests.append(request)
                await gate.wait()
                return said("s")

        slow, quick = Gated(lambda *_: said("s")), ScriptedModel(lambda *_: said("q"))
        model = ReplicaModel({"slow": slow, "quick": quick})
        held = asyncio.ensure_future(model.complete(REQUEST))
        await asyncio.sleep(0)
        for _ in range(5):
            await model.complete(REQUEST)
        gate.set()
        await held
        return [len(slow.requests), len(quick.requests)]

    assert asyncio.run(main()) == [1, 5]


def test_a_failing_replica_is_set_aside_for_twice_as_long_every_time_up_to_a_minute() -> None:
    replicas = Replicas(a=DOWN, b=None)
    waits = []
    for _ in range(9):
        before = replicas.counts("failures")[0]
        start = replicas.clock.now
        # In quarters of a second, which are exact.
        while replicas.counts("failures")[0] == before:
            replicas.ask()
            if replicas.counts("failures")[0] == before:
                replicas.clock.now += 0.25
        waits.append(replicas.clock.now - start)
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert replicas.counts("set_aside") == [9, 0]


def test_a_replica_whose_time_is_up_is_tried_with_one_request() -> None:
    replicas = Replicas(a=DOWN, b=None)
    replicas.ask()
    replicas.clock.now = 1.0
    assert sorted(replicas.ask_together(20)) == ["b"] * 19 + ["connection"]


def test_a_replica_that_is_back_gets_its_share_at_once() -> None:
    replicas = Replicas(a=DOWN, b=None)
    replicas.ask()
    replicas.answers["a"] = None
    replicas.clock.now = 1.0
    assert sorted(replicas.ask_together(2)) == ["a", "b"]
    assert sorted(replicas.ask_together(20)) == ["a"] * 10 + ["b"] * 10


def test_requests_that_fail_together_count_once_for_the_time_aside() -> None:
    replicas = Replicas(a=DOWN, b=None)
    replicas.ask_together(20)
    assert replicas.counts("failures") == [10, 0]
    assert replicas.counts("set_aside") == [1, 0]
    replicas.clock.now = 1.0
    assert "connection" in replicas.ask_together(2)


def test_where_all_are_set_aside_the_next_one_up_is_tried() -> None:
    replicas = Replicas(a=DOWN, b=DOWN)
    replicas.ask()
    replicas.clock.now = 0.5
    replicas.ask()
    replicas.answers.update(a=None, b=None)
    assert replicas.ask() == "a"


def test_all_down_is_never_a_deadlock_and_spreads_the_trials() -> None:
    replicas = Replicas(a=DOWN, b=DOWN, c=DOWN)
    assert replicas.ask_together(30) == ["connection"] * 30
    assert [replicas.ask() for _ in range(30)] == ["connection"] * 30
    assert min(replicas.counts("calls")) >= 15


@pytest.mark.parametrize(
    "error",
    [DOWN, RetryableModelError("slow", "timeout"), RetryableModelError("ill", "http_503")],
)
def test_a_failure_that_another_replica_can_make_good_is_tried_again_at_once(
    error: RetryableModelError,
) -> None:
    replicas = Replicas(a=error, b=None)
    with pytest.raises(RetryableModelError) as raised:
        asyncio.run(replicas.model.complete(REQUEST))
    assert (raised.value.kind, raised.value.retry_after_s) == (error.kind, 0.0)
    assert replicas.ask() == "b"


@pytest.mark.parametrize("error", [BUSY, RejectedRequestError("no")])
def test_what_tells_nothing_of_the_replica_sets_it_not_aside(error: ModelError) -> None:
    replicas = Replicas(a=error, b=None)
    with pytest.raises(ModelError) as raised:
        asyncio.run(replicas.model.complete(REQUEST))
    assert raised.value is error
    assert replicas.counts("set_aside") == [0, 0]


def test_a_trial_that_is_turned_away_shows_that_the_replica_is_back() -> None:
    replicas = Replicas(a=DOWN, b=None)
    replicas.ask()
    replicas.answers["a"] = BUSY
    replicas.clock.now = 1.0
    assert sorted(replicas.ask_together(2)) == ["b", "http_429"]
    assert sorted(replicas.ask_together(4)) == ["b", "b", "http_429", "http_429"]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_misconfigured_replica_stops_no_run_even_when_it_is_the_first_to_speak(
    status: int,
) -> None:
    replicas = Replicas(a=EndpointError("no", status=status), b=None)
    assert replicas.ask() == f"replica_{status}"
    assert [replicas.ask() for _ in range(5)] == ["b"] * 5
    replicas.clock.now = 1.0
    assert replicas.ask_together(2) == [f"replica_{status}", "b"]


def test_a_wrong_key_stops_the_job_after_one_round() -> None:
    replicas = Replicas(a=WRONG_KEY, b=WRONG_KEY, c=WRONG_KEY)
    assert [replicas.ask() for _ in range(3)] == ["replica_401", "replica_401", "EndpointError"]


def test_a_key_that_ran_out_is_told_so_that_it_is_read_again() -> None:
    """A worker reads the key again on an `EndpointError` only."""
    replicas = Replicas(a=None, b=None)
    replicas.ask_together(4)
    replicas.answers.update(a=WRONG_KEY, b=WRONG_KEY)
    assert [replicas.ask(), replicas.ask()] == ["replica_401", "EndpointError"]
    asyncio.run(replicas.model.refresh_key())
    assert [model.refreshed for model in replicas.models.values()] == [1, 1]


def test_one_wrong_replica_beside_a_good_one_never_looks_like_a_dead_endpoint() -> None:
    replicas, health = Replicas(a=WRONG_KEY, b=None), EndpointHealth()

    async def one() -> str:
        now = replicas.clock.now
        try:
            await replicas.model.complete(REQUEST)
        except ModelError as error:
            return health.failure(error, now)
        health.success(now)
        return "retry"

    for _ in range(500):
        replicas.clock.now += 1.0
        assert asyncio.run(one()) == "retry"


def test_closing_closes_every_replica() -> None:
    replicas = Replicas(a=None, b=None)
    asyncio.run(replicas.model.close())
    assert all(model.closed for model in replicas.models.values())


def test_a_spec_with_replicas_makes_a_model_for_each_even_if_they_look_alike() -> None:
    spec = ModelSpec(
        base_url="http://h/v1?d=1", model="m", replicas=("http://h/v1?d=2", "http://i/v1")
    )
    model = make_model(spec, environ={})
    assert isinstance(model, ReplicaModel)
    assert list(model.counters()) == ["http://h/v1", "http://h/v1 (2)", "http://i/v1"]
    asyncio.run(model.close())


def test_a_spec_without_replicas_makes_one_client() -> None:
    model = make_model(ModelSpec(base_url="http://h/v1", model="m"), environ={})
    assert isinstance(model, OpenAIModel)
    asyncio.run(model.close())


def test_the_name_of_the_replica_stands_in_its_errors() -> None:
    replicas = Replicas(a=EndpointError("Endpoint 'fast at http://a' says no", status=401), b=None)
    with pytest.raises(RetryableModelError, match=r"One of 2 replicas .*'fast at http://a'"):
        asyncio.run(replicas.model.complete(REQUEST))
