"""`EndpointEmbedder`: vectors from an OpenAI-compatible `/embeddings` endpoint."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn

import numpy as np

from memorypipe.errors import InvalidArgumentError, ModelError
from memorypipe.llm.embed.client import EmbeddingModel
from memorypipe.llm.embed.replies import EmbeddingReply
from memorypipe.llm.embed.types import Matrix
from memorypipe.llm.models import over_replicas
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec
from memorypipe.llm.stage import Outcome, Reading
from memorypipe.llm.types import Reply, Request
from memorypipe.llm.worker import Worker, share_worker

__all__ = ["EndpointEmbedder"]

# What of a chat call means something here too.
_PARAMS = frozenset({"extra_body", "extra_headers", "extra_query", "timeout"})
_DIMENSIONS = "dimensions"
_ENCODINGS = ("float", "base64")
_RETRIES = 5
# Its vectors are thrown away: it tells their width.
_PROBE = "width"

_Texts = tuple[str, ...]


class EndpointEmbedder:
    """Embeds through an endpoint: in batches, several at a time, within the limits of its spec.

    It can be pickled; key and connections are looked up where it embeds. Equal embedders of one
    process share their limits and counters.

    Args:
        spec: What to call, at `base_url` + ``/embeddings``; with its limits, its retries (5 where
            it says none) and its prices. `params` may hold `extra_body`, `extra_headers`,
            `extra_query` and `timeout`.
        dimensions: Asked of a model that can shorten its vectors; None takes them whole.
        max_chars: The longest text that is sent whole; longer ones are cut, and the vectors of
            the pieces averaged.
        max_batch_texts: Texts of one request.
        max_batch_chars: Characters of one request.
        encoding: How vectors come: ``"float"`` every server can, ``"base64"`` is a quarter of it.

    Raises:
        InvalidArgumentError: For a value that cannot work.

    Example:
        >>> spec = ModelSpec(base_url="http://127.0.0.1:8000/v1", model="small", api_key="env:KEY")
        >>> EndpointEmbedder(spec, dimensions=256).name
        'small/256'
    """

    def __init__(  # noqa: PLR0913  # one keyword per independent choice
        self,
        spec: ModelSpec,
        *,
        dimensions: int | None = None,
        max_chars: int = 2_000,
        max_batch_texts: int = 128,
        max_batch_chars: int = 100_000,
        encoding: Literal["float", "base64"] = "float",
    ) -> None:
        _check_spec(spec)
        counts = {
            "max_chars": max_chars,
            "max_batch_texts": max_batch_texts,
            "max_batch_chars": max_batch_chars,
        }
        if dimensions is not None:
            counts[_DIMENSIONS] = dimensions
        for name, value in counts.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidArgumentError(f"{name} must be a whole number from 1, got {value!r}.")
        if encoding not in _ENCODINGS:
            raise InvalidArgumentError(f"Unknown encoding {encoding!r}; choices: {_ENCODINGS!r}.")
        extra = dict(spec.params.get("extra_body") or {})
        if dimensions is not None:
            extra[_DIMENSIONS] = dimensions
        self._spec = replace(
            spec,
            params={**spec.params, "extra_body": extra},
            max_retries=spec.max_retries or _RETRIES,
            journal=None,
        )
        self._dim: int | None = extra.get(_DIMENSIONS)
        self._name = spec.model if self._dim is None else f"{spec.model}/{self._dim}"
        self._max_chars = max_chars
        self._max_batch_texts = max_batch_texts
        self._max_batch_chars = max_batch_chars
        self._encoding = encoding

    @property
    def name(self) -> str:
        """The model's name, and the dimensions that were asked for; not where it is served."""
        return self._name

    @property
    def dim(self) -> int:
        """Width of the vectors; where nobody said it, the endpoint is asked, once.

        Raises:
            ModelError: Where it does not answer.
        """
        if self._dim is None:
            self._dim = int(self._ask([_PROBE]).shape[1])
        return self._dim

    @property
    def max_chars(self) -> int | None:
        """See `Embedder`."""
        return self._max_chars

    def embed(self, texts: Sequence[str]) -> Matrix:
        """See `Embedder`.

        Raises:
            EndpointError: For a wrong key, model or address.
            RejectedRequestError: For what the endpoint does not take, or answers wrongly: too few
                vectors, or one that is NaN, of another width or out of order.
            ModelError: Where no reply came to all of it, after all retries.
        """
        if not len(texts):
            return np.empty((0, self.dim), np.float32)
        vectors = self._ask(texts)
        if self._dim is None:
            self._dim = vectors.shape[1]
        if vectors.shape[1] != self._dim:
            raise ModelError(
                f"Embedder {self.name!r} gave vectors of {vectors.shape[1]} dimensions, not "
                f"{self._dim}."
            )
        return vectors

    def counts(self) -> dict[str, Any]:
        """Give what equal embedders of this process have sent and spent so far.

        Returns:
            `attempts`, `replies`, `tokens_in`, `cost`, `failures` and more, as
            `memorypipe.llm.metrics.WorkerMetrics.snapshot` describes them.
        """
        return self._worker().snapshot()

    def __repr__(self) -> str:
        return f"EndpointEmbedder(name={self.name!r}, endpoint={self._spec.endpoint!r})"

    def _worker(self) -> Worker:
        return share_worker(f"embed {self._encoding} {self._spec.key()}", self._make_worker)

    def _make_worker(self) -> Worker:
        model = over_replicas(
            self._spec,
            lambda each: EmbeddingModel(each, encoding=self._encoding, environ=os.environ),
        )
        return Worker(self._spec, model=model)

    def _ask(self, texts: Sequence[str]) -> Matrix:
        batches = list(_batches(texts, self._max_batch_texts, self._max_batch_chars))
        worker = self._worker()
        # What an earlier call was refused for may be mended.
        worker.reset()
        outcomes = worker.run(_Embedding(), batches)
        parts = [self._vectors(outcome) for outcome in outcomes]
        if len(widths := sorted({part.shape[1] for part in parts})) > 1:
            raise ModelError(
                f"Embedder {self.name!r} gave vectors of several dimensions: {widths}."
            )
        return np.concatenate(parts)

    def _vectors(self, outcome: Outcome[Matrix]) -> Matrix:
        if outcome.value is None:
            raise ModelError(
                f"Embedder {self.name!r} failed after {outcome.attempts} attempts: {outcome.error}"
            )
        return outcome.value


class _Embedding:
    """The stage of work that embeds some texts: a request's messages are the texts."""

    kind = "embed"
    prompt_hash = "embedding"

    def request(self, task: _Texts) -> Request:
        return Request(messages=[{"role": "user", "content": text} for text in task])

    def read(self, _task: _Texts, reply: Reply) -> Reading[Matrix]:
        vectors = reply.vectors if isinstance(reply, EmbeddingReply) else None
        return Reading(value=vectors, status="ok")

    def split(self, _task: _Texts) -> None:
        return None

    def merge(self, *_: object) -> NoReturn:
        raise AssertionError  # nothing is split


def _batches(texts: Sequence[str], max_texts: int, max_chars: int) -> Iterator[_Texts]:
    """Cut texts into requests; a text longer than a request may be has one of its own."""
    batch: list[str] = []
    chars = 0
    for text in texts:
        if batch and (len(batch) == max_texts or chars + len(text) > max_chars):
            yield tuple(batch)
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    if batch:
        yield tuple(batch)


def _check_spec(spec: ModelSpec) -> None:
    if not isinstance(spec, ModelSpec):
        raise InvalidArgumentError(f"spec must be a ModelSpec, got {type(spec).__name__}.")
    if spec.base_url == OFFLINE_URL:
        raise InvalidArgumentError(
            f"{OFFLINE_URL!r} (the rule-based model) embeds nothing; use 'wordllama', or the "
            "base_url of an endpoint."
        )
    if unknown := sorted(set(spec.params) - _PARAMS):
        raise InvalidArgumentError(
            f"{unknown[0]!r} is no parameter of an embeddings call; choices: {sorted(_PARAMS)!r}. "
            "Other fields of the request go into extra_body."
        )
