"""A model that answers wrongly in every way known to us, by seed and rate, and keeps a ledger.

It wraps any model whose replies are of the asked format, the rules of this package for one.
Which fault a request meets depends on the seed, on what is asked and how often it was asked
before, on nothing else: not on the order in which requests come.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from memorypipe.errors import ModelError, RetryableModelError
from memorypipe.ids import digest
from memorypipe.llm.http_errors import connection_error, status_error
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import DecideTask, ExtractTask, Model, Reply, Request
from tests.support.chaos_faults import ALTERED, Items, Said, write
from tests.support.chaos_forms import CUT, DRESSED, LOST

__all__ = ["BROKEN", "FAULTS", "HALF", "HTTP", "ChaosModel", "Entry", "Failure"]

Failure = Literal["transport", "rejected", "schema"]

HTTP: dict[str, tuple[int, dict[str, str]]] = {
    "429 with Retry-After": (429, {"retry-after": "7"}),
    "429 with retry-after-ms": (429, {"retry-after-ms": "250"}),
    "429 until a date": (
        429,
        {"retry-after": "Mon, 01 Jan 2035 00:00:09 GMT", "date": "Mon, 01 Jan 2035 00:00:00 GMT"},
    ),
    "429 without Retry-After": (429, {}),
    "429 with nonsense": (429, {"retry-after": "soon"}),
    "408": (408, {}),
    "500": (500, {}),
    "502": (502, {"retry-after": "1"}),
    "503": (503, {}),
    "529": (529, {}),
    "400": (400, {}),
    "400 for the schema": (400, {}),
}
BROKEN: dict[str, Exception] = {
    "timeout": TimeoutError(),
    "connection reset": ConnectionResetError("peer"),
    "connection refused": ConnectionRefusedError("peer"),
}
HALF = {"half body": "malformed_reply", "no choices": "no_choices"}

FAULTS = (*ALTERED, *DRESSED, *CUT, *LOST, *HTTP, *BROKEN, *HALF)
"""All faults by name, each as likely as any other."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What became of one request.

    Attributes:
        run: Which run it belongs to.
        task: What was asked.
        key: Equal for equal requests.
        text: Everything that the model was shown.
        faults: Those injected, in order.
        said: What the reply held; None where none came.
        failure: How it failed, where no reply came.
    """

    run: int
    task: ExtractTask | DecideTask
    key: str
    text: str
    faults: tuple[str, ...]
    said: Said | None
    failure: Failure | None = None


class ChaosModel:
    """Passes requests on, and spoils what comes back.

    Args:
        model: Gives the right answers.
        seed: Of the dice.
        rate: Share of the requests that meet a fault.
        strange_ids: Ids that no decision is ever shown where it could use them.
        faults: Names of the faults to choose from.

    Attributes:
        rate: May be changed between runs; 0 is a healthy model.
        run: Number that the entries carry; for the caller to count.
        ledger: One entry per request, in the order in which they came.
    """

    def __init__(
        self,
        model: Model,
        *,
        seed: int,
        rate: float,
        strange_ids: Sequence[str] = (),
        faults: Sequence[str] = FAULTS,
    ) -> None:
        self._model = model
        self._seed = seed
        self._strange_ids = tuple(strange_ids)
        self._faults = tuple(faults)
        self._spec = ModelSpec(base_url="http://chaos.invalid/v1", model="chaos")
        self._asked: Counter[str] = Counter()
        self.rate = rate
        self.run = 0
        self.ledger: list[Entry] = []

    async def complete(self, request: Request) -> Reply:
        assert request.task is not None
        key = digest("chaos", list(request.messages), "response_format" in request.params).hex()
        self._asked[key] += 1
        rng = random.Random(f"{self._seed} {key} {self._asked[key]} {self.run}")  # noqa: S311  # no secret
        entry = Entry(
            run=self.run,
            task=request.task,
            key=key,
            text="\n".join(str(message["content"]) for message in request.messages[1:]),
            faults=(),
            said=None,
        )
        await asyncio.sleep(rng.uniform(0.1, 2.0))  # of virtual time: others come in between
        name = rng.choice(self._faults) if rng.random() < self.rate else None
        if name is not None and (error := self._error(name, request)) is not None:
            self.ledger.append(replace(entry, faults=(name,), failure=_kind(name)))
            raise error
        answer = await self._model.complete(request)
        said, faults = self._spoil(name, answer, request, rng)
        self.ledger.append(replace(entry, faults=faults, said=said))
        return replace(
            answer,
            content=said.content,
            finish_reason=said.finish_reason,
            refusal=said.refusal,
        )

    async def refresh_key(self) -> None:
        await self._model.refresh_key()

    async def close(self) -> None:
        await self._model.close()

    def _error(self, name: str, request: Request) -> ModelError | None:
        """The error of a transport fault, made as the client makes it; None for other faults."""
        if name in HALF:
            return RetryableModelError("The reply is no whole JSON.", HALF[name])
        if name in BROKEN:
            return connection_error(self._spec, BROKEN[name])
        if name not in HTTP or (name == "400 for the schema" and not request.params):
            return None
        status, headers = HTTP[name]
        message = "unknown field response_format" if "schema" in name else "it did not work"
        body = {"error": {"message": message}}
        return status_error(self._spec, status, headers, body, request.messages)

    def _spoil(
        self, name: str | None, answer: Reply, request: Request, rng: random.Random
    ) -> tuple[Said, tuple[str, ...]]:
        (items,) = orjson.loads(answer.content or "").values()
        said = Said(items=tuple(items), content=answer.content)
        if name is None:
            return said, ()
        names = [name]
        badly = [each for each in self._faults if each in DRESSED or each in CUT]
        if name in ALTERED and badly and rng.random() < self.rate:
            # One that speaks wrongly may well write badly too.
            names.append(rng.choice(badly))
        for each in names:
            said = self._spoil_once(each, said, request, rng)
        return said, tuple(names)

    def _spoil_once(self, name: str, said: Said, request: Request, rng: random.Random) -> Said:
        if name in ALTERED:
            items: Items = said.items
            if items:
                items = ALTERED[name](items, request, rng, self._strange_ids)
            changed = replace(said, items=items)
            return replace(changed, content=write(changed, request))
        forms: dict[str, Any] = {**DRESSED, **CUT, **LOST}
        spoilt: Said = forms[name](said, request, rng) if name in forms else said
        return spoilt


def _kind(name: str) -> Failure:
    if name == "400 for the schema":
        return "schema"
    return "rejected" if name == "400" else "transport"
