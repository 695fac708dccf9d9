"""What the next call will probably cost, learnt from the replies so far."""

from memorypipe.llm.spec import Prices
from memorypipe.llm.types import Reply

__all__ = ["CallCost"]

# Before the first reply tells.
_FIRST_COMPLETION_TOKENS = 500.0


class CallCost:
    """Foretells tokens and cost of calls whose prompts have been estimated.

    Estimates of prompts are off by a factor that hardly changes within a run (language, tokenizer,
    what the server adds): it is the ratio of the sums so far. Completions are taken to be as long
    as the mean of those so far.

    Args:
        prices: What tokens cost; None where nobody knows.

    Example:
        >>> cost = CallCost(None)
        >>> cost.learn(100, Reply(content="", prompt_tokens=150, completion_tokens=30))
        >>> cost.tokens(200)
        330.0
    """

    def __init__(self, prices: Prices | None) -> None:
        self._prices = prices
        self._estimated = 0.0
        self._prompt = 0
        self._completion = 0
        self._replies = 0

    def learn(self, estimated_tokens: float, reply: Reply) -> None:
        """Take note of a reply, and of what its prompt had been estimated at."""
        self._replies += 1
        self._completion += reply.completion_tokens
        if reply.prompt_tokens and estimated_tokens > 0:
            self._estimated += estimated_tokens
            self._prompt += reply.prompt_tokens

    def tokens(self, estimated_tokens: float) -> float:
        """Foretell prompt and completion tokens of a call."""
        prompt, completion = self._parts(estimated_tokens)
        return prompt + completion

    def money(self, estimated_tokens: float) -> float:
        """Foretell the cost of a call, in the currency of the prices; 0 without prices."""
        return self._prices.cost(*self._parts(estimated_tokens)) if self._prices else 0.0

    def paid(self, reply: Reply) -> float:
        """Give what a reply has cost; 0 without prices."""
        if self._prices is None:
            return 0.0
        return self._prices.cost(reply.prompt_tokens, reply.completion_tokens)

    def _parts(self, estimated_tokens: float) -> tuple[float, float]:
        ratio = self._prompt / self._estimated if self._estimated else 1.0
        mean = self._completion / self._replies if self._replies else _FIRST_COMPLETION_TOKENS
        return estimated_tokens * ratio, mean
