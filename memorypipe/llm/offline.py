"""A model that needs no model: deterministic rules behind the same seam as a real endpoint."""

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.offline_rules.decide import decide
from memorypipe.llm.offline_rules.extract import extract_facts
from memorypipe.llm.spec import OFFLINE_MODEL
from memorypipe.llm.types import ExtractTask, Reply, Request

__all__ = ["OfflineModel"]

_CHARACTERS_PER_TOKEN = 4  # the usual rule of thumb for English


class OfflineModel:
    """Answers extraction and decision requests by rules: no key, no network, no randomness.

    For tests, examples and trying things out. It reads `Request.task`, never the messages, and
    replies in the format that is asked of every model. The rules are English; of other languages
    whole statements are kept verbatim. Token counts are estimates, four characters each.

    Example:
        >>> import asyncio
        >>> from memorypipe.llm.types import Turn
        >>> turn = Turn(role="user", content="I bought a Yamaha P-125 digital piano.", id="t1")
        >>> task = ExtractTask(turns=[turn])
        >>> asyncio.run(OfflineModel().complete(Request(messages=[], task=task))).content
        '{"memories":[{"text":"Bought a Yamaha P-125 digital piano","sources":["t1"]}]}'
    """

    async def complete(self, request: Request) -> Reply:
        """Answer one request.

        Args:
            request: A request with its `task`.

        Returns:
            A reply whose content is the JSON that the reply format asks for.

        Raises:
            InvalidArgumentError: The request has no task.
        """
        task = request.task
        if task is None:
            raise InvalidArgumentError(
                "the offline model answers only requests that carry their task; got task=None:"
                " pass an ExtractTask or a DecideTask, or use a real model for free prompts"
            )
        if isinstance(task, ExtractTask):
            answer = {"memories": extract_facts(task)}
        else:
            answer = {"actions": decide(task)}
        content = orjson.dumps(answer).decode()
        said = sum(len(str(message.get("content", ""))) for message in request.messages)
        return Reply(
            content=content,
            prompt_tokens=said // _CHARACTERS_PER_TOKEN,
            completion_tokens=len(content) // _CHARACTERS_PER_TOKEN,
            model=OFFLINE_MODEL,
        )

    async def refresh_key(self) -> None:
        """Do nothing: there is no key."""

    async def close(self) -> None:
        """Nothing to release."""
