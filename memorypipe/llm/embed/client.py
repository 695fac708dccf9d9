"""The live client of an `/embeddings` endpoint, as a model that answers requests."""

from collections.abc import Mapping
from dataclasses import replace

from memorypipe.llm.embed.replies import EmbeddingReply, read_embeddings
from memorypipe.llm.limits.rate_headers import RateReader
from memorypipe.llm.posting import OPTIONS, Poster
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Request

__all__ = ["EmbeddingModel"]

_PATH = "/embeddings"


class EmbeddingModel:
    """Embeds the contents of a request's messages; retries nothing and limits nothing.

    Args:
        spec: What to call. Of its `params` only those of the connection and `extra_body` are
            sent.
        encoding: How vectors shall come: ``"float"`` or ``"base64"``.
        environ: Where keys named ``"env:NAME"`` are looked up.
    """

    def __init__(self, spec: ModelSpec, *, encoding: str, environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._encoding = encoding
        self._poster = Poster(spec, _PATH, product="list of embeddings", environ=environ)
        self._rate = RateReader()

    async def complete(self, request: Request) -> EmbeddingReply:
        """Send one request.

        Raises:
            ModelError: As `memorypipe.llm.posting.Poster.post`, and `read_embeddings`.
        """
        spec, texts = self._spec, [message["content"] for message in request.messages]
        body, answer, latency_ms = await self._poster.post(
            {
                "model": spec.model,
                "input": texts,
                "encoding_format": self._encoding,
                **(spec.params.get("extra_body") or {}),
            },
            options={name: spec.params.get(name) for name in OPTIONS},
            messages=request.messages,
        )
        who = f"Endpoint {spec.endpoint!r} (model {spec.model!r})"
        reply = read_embeddings(body, texts, who=who, latency_ms=latency_ms)
        if reply is None:
            raise self._poster.not_an_endpoint()
        rate = self._rate.read(answer.headers)
        return reply if rate is None else replace(reply, rate=rate)

    async def refresh_key(self) -> None:
        """Read the key again, for the requests to come."""
        await self._poster.refresh_key()

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()
