"""The live client of an OpenAI-compatible endpoint: one request in, one reply or one error out.

It retries nothing and limits nothing.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memorypipe.llm.limits.rate_headers import RateReader
from memorypipe.llm.posting import OPTIONS, Poster
from memorypipe.llm.replies.completion import is_broken_off, read_completion, with_usage
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import Reply, Request

__all__ = ["OpenAIModel"]

_PATH = "/chat/completions"


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint.

    No connection is opened, and no key is read, before the first request. What takes long (the
    certificates, a third of a second) is done at construction: within the first request it would
    delay that one, after its turn under `max_qps`, into the others of the same second.

    Proxies: that of the spec for every request, else those that the environment names in
    `HTTP_PROXY`, `HTTPS_PROXY` and `ALL_PROXY`, except for hosts in `NO_PROXY`. They are HTTP
    proxies; a SOCKS proxy is not spoken to.

    Args:
        spec: What to call, at its `base_url`. Its `params` win over those of a request.
        environ: Where keys named ``"env:NAME"`` are looked up.
        clock: Monotonic seconds, for `Reply.latency_ms`.

    Raises:
        InvalidArgumentError: For a `timeout` that is none.
        EndpointError: For a file of certificates that cannot be read.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._poster = Poster(spec, _PATH, product="chat completion", environ=environ, clock=clock)
        self._rate = RateReader()

    async def complete(self, request: Request) -> Reply:
        """Send one request.

        Raises:
            RetryableModelError: For a connection that failed, a timeout, 408, 409, 429, 5xx and a
                reply that is no whole JSON; with the wait that the endpoint asked for.
            RejectedRequestError: For 400 and what else is final for this request.
            EndpointError: For 401, 402, 403, 404, 407, a used-up quota, a certificate that is
                not trusted, a redirect to another host, a web page instead of a reply, and a key
                that cannot be read.
        """
        params = {**request.params, **self._spec.params}
        options = {name: params.pop(name, None) for name in OPTIONS}
        extra_body = params.pop("extra_body", None) or {}
        completion, answer, latency_ms = await self._poster.post(
            {"model": self._spec.model, "messages": request.messages, **params, **extra_body},
            options=options,
            messages=request.messages,
        )
        reply = self._read(completion, latency_ms)
        reply = with_usage(reply, request.messages)
        rate = self._rate.read(answer.headers)
        return reply if rate is None else replace(reply, rate=rate)

    async def refresh_key(self) -> None:
        """Read the key again, for the requests to come.

        Raises:
            EndpointError: As `memorypipe.llm.keys.resolve_key`.
        """
        await self._poster.refresh_key()

    async def close(self) -> None:
        """Close the connections; another request would open new ones."""
        await self._poster.close()

    def _read(self, completion: dict[str, Any], latency_ms: float) -> Reply:
        reply = read_completion(completion, latency_ms=latency_ms)
        if reply is not None:
            return reply
        if "choices" not in completion:
            raise self._poster.not_an_endpoint()
        if is_broken_off(completion):
            raise self._poster.malformed("The reply was broken off by the server", "broken_off")
        raise self._poster.malformed("The reply has no choices", "no_choices")
