"""What travels to a worker: a picklable description of a model and how it may be called."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import digest
from memorypipe.llm.keys import NO_KEY, KeySource, display_key, key_identity

__all__ = [
    "CALL_PARAMS",
    "DEFAULT_MAX_CONCURRENCY",
    "OFFLINE_MODEL",
    "OFFLINE_URL",
    "ModelSpec",
    "Prices",
    "RateScope",
    "display_url",
]

OFFLINE_URL = "offline:"
"""A `base_url` that means the rule-based model of the package: no key, no network."""

OFFLINE_MODEL = "offline-rules"
"""The model name that every run record and reply of the rules carries."""

DEFAULT_MAX_CONCURRENCY = 64

RateScope = Literal["worker", "cluster"]

# What the chat-completions call of the client library takes, without `model`, `messages` and the
# streaming ones. Listed here because importing that library takes a second that a driver saves.
CALL_PARAMS = frozenset(
    {
        "audio",
        "extra_body",
        "extra_headers",
        "extra_query",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "metadata",
        "modalities",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "temperature",
        "timeout",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What tokens cost.

    Attributes:
        per_million_in: For a million prompt tokens.
        per_million_out: For a million completion tokens.

    Raises:
        InvalidArgumentError: For a price that is no number from 0.

    Example:
        >>> Prices(per_million_in=0.15, per_million_out=0.6).cost(1_000_000, 500_000)
        0.45
    """

    per_million_in: float
    per_million_out: float

    def __post_init__(self) -> None:
        for name, price in (("in", self.per_million_in), ("out", self.per_million_out)):
            number = isinstance(price, int | float) and not isinstance(price, bool)
            if not number or not 0 <= price < float("inf"):
                raise InvalidArgumentError(
                    f"price_{name} must be a number from 0, per million tokens, got {price!r}."
                )

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """Give what so many tokens cost."""
        both = prompt_tokens * self.per_million_in + completion_tokens * self.per_million_out
        return both / 1e6


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model behind an OpenAI-compatible endpoint, and the limits of calling it.

    It holds no socket, loop, lock or resolved secret, so that it can be pickled.

    Attributes:
        base_url: Where the endpoint is, usually ending in ``/v1``; or `OFFLINE_URL`.
        model: The model's name at that endpoint.
        api_key: The key; or ``"env:NAME"``, or a callable without arguments, both asked on the
            worker.
        max_qps: Starts of requests per second; None for no limit.
        max_concurrency: Requests in flight at one time; None means 64.
        max_retries: Further attempts per request, one budget for all causes.
        max_tokens_per_minute: Prompt and completion tokens per minute; None for no limit.
        params: Further arguments of the chat-completions call, passed unchanged. A `timeout` in
            seconds bounds the whole call, from connecting to the last byte.
        journal: Address of the reply journal, as `open_journal` takes it; None for no journal.
        endpoint_name: Stands for the endpoint in journal keys; None takes `base_url`.
        repeat_key: Part of the journal key, to sample the same request again.
        rate_scope: Whose calls the limits count: those of one worker, or of all workers.
        journal_only: True answers from the journal or not at all.
        replicas: Further addresses of the same endpoint; all of them get its key.
        ca_file: PEM file of the certificates to trust, instead of those of the system; it is read
            on the worker.
        proxy: Address of an HTTP proxy, perhaps with user and password, for all requests; None
            takes what the environment says (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
            `NO_PROXY`).
        prices: What tokens cost; None where nobody knows.
        run: Names the run whose coordinator the worker asks; None where there is none.
        limit_group: Names the limits that are shared in a run; None takes those of this spec.

    Raises:
        InvalidArgumentError: Where a value cannot work.

    Example:
        >>> spec = ModelSpec(base_url="https://me:pw@host/v1/", model="m", api_key="sk-1")
        >>> spec
        ModelSpec(endpoint='https://host/v1', model='m', api_key=***)
    """

    base_url: str
    model: str
    api_key: KeySource = field(default=NO_KEY, repr=False)
    max_qps: float | None = None
    max_concurrency: int | None = None
    max_retries: int = 0
    max_tokens_per_minute: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    journal: str | None = None
    endpoint_name: str | None = None
    repeat_key: str | None = None
    rate_scope: RateScope = "worker"
    journal_only: bool = False
    replicas: tuple[str, ...] = ()
    ca_file: str | None = None
    proxy: str | None = None
    prices: Prices | None = None
    run: str | None = None
    limit_group: str | None = None

    def __post_init__(self) -> None:
        _check_url("base_url", self.base_url)
        _check_replicas(self.base_url, self.replicas)
        for name in ("model", "endpoint_name", "repeat_key", "journal", "ca_file"):
            _check_text(name, getattr(self, name), optional=name != "model")
        if self.proxy is not None:
            _check_url("proxy", self.proxy)
        if not isinstance(self.api_key, str) and not callable(self.api_key):
            raise InvalidArgumentError(
                f"api_key must be a string, 'env:NAME' or a callable that gives a string, "
                f"got {type(self.api_key).__name__}."
            )
        if self.journal_only and self.journal is None:
            raise InvalidArgumentError("journal_only=True needs journal=…, whose replies to take.")
        _check_limits(self)
        _check_params(self.params)

    @property
    def endpoint(self) -> str:
        """The endpoint's name in journal keys, errors and reports; never with a secret."""
        return self.endpoint_name or display_url(self.base_url)

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of the endpoint: `base_url`, then the replicas."""
        return (self.base_url, *self.replicas)

    @property
    def host(self) -> str:
        """The host that the requests go to; "" for the rule-based model."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def concurrency(self) -> int:
        """Requests in flight at one time, the default put in."""
        return self.max_concurrency or DEFAULT_MAX_CONCURRENCY

    def key(self) -> str:
        """Name the worker object that serves this spec: equal specs share one (32 hex digits)."""
        params = {**self.params, "timeout": repr(self.params.get("timeout"))}
        return digest(
            *(self.base_url, self.model, *key_identity(self.api_key)),
            *(self.max_qps, self.max_concurrency, self.max_retries, self.max_tokens_per_minute),
            *(params, self.journal, self.endpoint_name, self.repeat_key, self.rate_scope),
            *(self.journal_only, self.replicas, self.ca_file, self.proxy, repr(self.prices)),
            *(self.run, self.limit_group),
        ).hex()

    def __repr__(self) -> str:
        shown = [f"endpoint={self.endpoint!r}", f"model={self.model!r}"]
        shown.append(f"api_key={display_key(self.api_key)}")
        if self.replicas:
            shown.append(f"replicas={len(self.replicas)}")
        for name in ("max_qps", "max_concurrency", "max_tokens_per_minute", "journal"):
            value = getattr(self, name)
            if value is not None:
                shown.append(f"{name}={value!r}")
        if self.max_retries:
            shown.append(f"max_retries={self.max_retries!r}")
        if self.params:
            # Names only: headers and bodies may hold secrets.
            shown.append(f"params={sorted(self.params)!r}")
        return f"ModelSpec({', '.join(shown)})"


def display_url(url: str) -> str:
    """Give a URL without user, password, query and fragment: what may be shown and stored.

    Example:
        >>> display_url("https://me:pw@host:8000/v1/?key=s")
        'https://host:8000/v1'
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", "")).rstrip("/")


def _check_url(name: str, url: object) -> None:
    if url == OFFLINE_URL and name == "base_url":
        return
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        works = parts is not None and parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        works = False
    if not works:
        shown = display_url(url) if isinstance(url, str) and "@" in url else url
        offline = f", or be {OFFLINE_URL!r} (the rule-based model)" if name == "base_url" else ""
        raise InvalidArgumentError(
            f"{name} must start with http:// or https:// and name a host{offline}, got {shown!r}."
        )


def _check_replicas(base_url: str, replicas: tuple[str, ...]) -> None:
    for url in replicas:
        _check_url("replicas", url)
    if replicas and base_url == OFFLINE_URL:
        raise InvalidArgumentError(f"{OFFLINE_URL!r} (the rule-based model) takes no replicas.")
    urls = [url.rstrip("/") for url in (base_url, *replicas)]
    if twice := sorted({url for url in urls if urls.count(url) > 1}):
        raise InvalidArgumentError(
            f"Each address of an endpoint stands once, {display_url(twice[0])!r} is there twice."
        )


def _check_text(name: str, value: object, *, optional: bool) -> None:
    if value is None and optional:
        return
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentError(f"{name} must be a non-blank string, got {value!r}.")


def _check_limits(spec: ModelSpec) -> None:
    _check_number("max_qps", spec.max_qps, "a number above 0, or None for no limit", kind=float)
    _check_number("max_concurrency", spec.max_concurrency, "a whole number from 1, or None for 64")
    _check_number("max_retries", spec.max_retries, "a whole number from 0", least=0)
    _check_number(
        "max_tokens_per_minute",
        spec.max_tokens_per_minute,
        "a whole number from 1, or None for no limit",
    )
    if spec.rate_scope not in {"worker", "cluster"}:
        raise InvalidArgumentError(
            f"rate_scope must be 'worker' or 'cluster', got {spec.rate_scope!r}."
        )


def _check_number(
    name: str, value: object, wanted: str, *, least: int = 1, kind: type = int
) -> None:
    if value is None and name != "max_retries":
        return
    number = isinstance(value, int | kind) and not isinstance(value, bool)
    # A comparison with NaN is false, so NaN fails here too; infinity would divide to no pace.
    if number and (0 < value < float("inf") if kind is float else value >= least):  # type: ignore[operator]
        return
    raise InvalidArgumentError(f"{name} must be {wanted}, got {value!r}.")


def _check_params(params: Mapping[str, Any]) -> None:
    taken = {"model", "messages", "stream", "stream_options"} & set(params)
    if taken:
        raise InvalidArgumentError(
            f"{sorted(taken)!r} cannot be passed on to the chat-completions call: the package "
            f"sets the model and the messages, and reads whole replies."
        )
    unknown = set(params) - CALL_PARAMS
    if unknown:
        raise InvalidArgumentError(
            f"{sorted(unknown)!r} is no argument of the chat-completions call. Pass a field that "
            f"only your server knows as extra_body={{{min(unknown)!r}: …}}. "
            f"Known: {sorted(CALL_PARAMS)}."
        )
    for name in sorted({"extra_headers", "extra_query", "extra_body"} & set(params)):
        if not isinstance(params[name], Mapping | None):
            raise InvalidArgumentError(
                f"{name} must be a mapping, got {type(params[name]).__name__}."
            )
    headers = params.get("extra_headers") or {}
    if wrong := sorted(repr(name) for name in headers if not isinstance(headers[name], str)):
        # The value is not shown: it may be a secret.
        raise InvalidArgumentError(f"extra_headers must hold strings; {wrong[0]} is none.")
    timeout = params.get("timeout")
    if isinstance(timeout, int | float) and not timeout > 0:
        raise InvalidArgumentError(f"timeout must be above 0 seconds, got {timeout!r}.")
    for name in sorted(set(params) - {"timeout"}):
        try:
            orjson.dumps(params[name], option=orjson.OPT_NON_STR_KEYS)
        except TypeError as error:
            raise InvalidArgumentError(
                f"{name} must be made of JSON values, got {type(params[name]).__name__}."
            ) from error
