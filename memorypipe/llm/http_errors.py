"""From what an endpoint answers to one of our errors: worth another attempt, or final for whom.

What an endpoint says may quote the key, the prompt or a password in an address. Messages made
here hold none of it.
"""

import math
import re
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from memorypipe.errors import (
    EndpointError,
    ModelError,
    RejectedRequestError,
    RetryableModelError,
)
from memorypipe.llm.limits.rate_headers import pause_wanted_s, read_rate_state
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.types import ChatMessage

__all__ = ["connection_error", "retry_after_s", "status_error"]

_RETRYABLE = frozenset({408, 409, 429})
_SERVER_ERRORS = 500
_FINAL_FOR_THE_JOB = {
    401: "does not take the key (401). Check api_key",
    402: "asks for payment (402). Check the account's balance",
    403: "does not let this key use the model (403). Check api_key and the model's access rules",
    404: "does not know the model or the address (404). Check model, and base_url, which usually "
    "ends in '/v1'",
    407: "is behind a proxy that asks for a login (407). Check proxy, or the environment's proxy "
    "variables",
}
_PROXY_LOGIN = 407
_QUOTA_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "quota_exceeded"}
)
_SCHEMA_STATUSES = frozenset({400, 422, 501})
_SCHEMA_WORDS = re.compile(
    r"response_?format|json_?schema|structured.?output|guided|grammar|schema", re.IGNORECASE
)
_PLAIN_CODE = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")
_EXCERPT_CHARS = 200
# So many characters in common with the prompt are taken for a quotation of it.
_QUOTE_CHARS = 16


def status_error(  # noqa: PLR0913  # the response, and what it must not repeat
    spec: ModelSpec,
    status: int,
    headers: Mapping[str, str],
    body: object,
    messages: Sequence[ChatMessage],
    *,
    key: str | None = None,
) -> ModelError:
    """Make the error for an HTTP status.

    Args:
        spec: Who was asked.
        status: The HTTP status, from 400 (a redirect that leads nowhere counts as 404).
        headers: Of the response, looked up in lower case.
        body: The response's JSON, where it was JSON.
        messages: What was asked; nothing of it gets into the error.
        key: The key that was sent; likewise.
    """
    details = _details(body)
    who = f"Endpoint {spec.endpoint!r} (model {spec.model!r})"
    if {details.get("code"), details.get("type")} & _QUOTA_CODES:
        return EndpointError(f"{who} says that the quota is used up ({status}).", status=status)
    if status in _FINAL_FOR_THE_JOB:
        return EndpointError(f"{who} {_FINAL_FOR_THE_JOB[status]}.", status=status)
    if status < 400:  # noqa: PLR2004  # a redirect
        return EndpointError(f"{who} redirects to nowhere ({status}).", status=status)
    said = _said(details, [key or "", *_own_texts(messages, spec)])
    schema = status in _SCHEMA_STATUSES and _is_about_schema(details)
    if status in _RETRYABLE or (status >= _SERVER_ERRORS and not schema):
        message = f"{who} failed ({status}){said}."
        wait_s = retry_after_s(headers)
        if wait_s is None and status == 429:  # noqa: PLR2004  # too many requests
            wait_s = _reset_s(headers, messages)
        return RetryableModelError(message, f"http_{status}", wait_s)
    return RejectedRequestError(
        f"{who} rejects the request ({status}){said}.", rejects_schema=schema
    )


def connection_error(spec: ModelSpec, error: BaseException) -> ModelError:
    """Make the error for a request that got no response.

    A certificate that is not trusted, and a proxy that wants a login, are final for the job; the
    rest may come right by itself.
    """
    causes = _causes(error)
    who = f"Endpoint {spec.endpoint!r} (model {spec.model!r})"
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return EndpointError(
            f"{who} shows a certificate that is not trusted for its host. Check base_url, and "
            f"name the certificates to trust as ca_file."
        )
    if any(getattr(cause, "status", None) == _PROXY_LOGIN for cause in causes):
        return EndpointError(f"{who} {_FINAL_FOR_THE_JOB[_PROXY_LOGIN]}.", status=_PROXY_LOGIN)
    timed_out = any(isinstance(cause, TimeoutError) for cause in causes)
    what = "did not answer in time" if timed_out else "cannot be reached, or hung up"
    return RetryableModelError(
        f"Endpoint {spec.endpoint!r} {what} ({type(causes[-1]).__name__}; model {spec.model!r}).",
        "timeout" if timed_out else "connection",
    )


def retry_after_s(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Read how long an endpoint asks to wait; None where it does not say, or not readably.

    Args:
        headers: Of the response; `retry-after-ms` goes before `retry-after`.
        now: Against which a date counts; None takes the `date` of the response, else the clock.

    Example:
        >>> retry_after_s({"retry-after": "2"})
        2.0
    """
    for name, unit_s in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        wait_s = _number(headers.get(name)) * unit_s
        if math.isfinite(wait_s):
            return max(wait_s, 0.0)
    until = _date(headers.get("retry-after"))
    if until is None:
        return None
    now = now or _date(headers.get("date")) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0)


def _reset_s(headers: Mapping[str, str], messages: Sequence[ChatMessage]) -> float | None:
    """Read from the headers of its limits when an endpoint takes requests again."""
    rate = read_rate_state(headers)
    if rate is None:
        return None
    prompt_tokens = sum(len(str(message.get("content"))) for message in messages) / 4
    return pause_wanted_s(rate, prompt_tokens) or None


def _number(value: str | None) -> float:
    try:
        return float(value or "nan")
    except ValueError:
        return math.nan


def _date(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _causes(error: BaseException | None) -> list[BaseException]:
    causes = []
    while error is not None:
        causes.append(error)
        # The transport keeps what the socket said in an attribute.
        error = error.__cause__ or getattr(error, "os_error", None)
    return causes


def _details(body: object) -> dict[str, Any]:
    """Find message, code, type and param, in whichever of the usual shapes they come."""
    if not isinstance(body, Mapping):
        return {}
    error = body.get("error", body.get("detail", body))
    if isinstance(error, Mapping):
        return {**body, **error}
    return {**body, "message": error if isinstance(error, str) else repr(error)}


def _is_about_schema(details: Mapping[str, Any]) -> bool:
    told = (details.get("param"), details.get("code"), details.get("message"))
    return any(isinstance(text, str) and _SCHEMA_WORDS.search(text) for text in told)


def _said(details: Mapping[str, Any], own_texts: Sequence[str]) -> str:
    """Repeat what the endpoint said, as far as it quotes nothing of ours."""
    code = details.get("code") or details.get("type")
    shown = f" {code}" if isinstance(code, str) and _PLAIN_CODE.fullmatch(code) else ""
    message = details.get("message")
    if isinstance(message, str) and message.strip():
        excerpt = " ".join(message.split())[:_EXCERPT_CHARS]
        if not _quotes(excerpt, own_texts):
            shown += f": {excerpt.rstrip('.')}"
    return shown


def _own_texts(messages: Sequence[ChatMessage], spec: ModelSpec) -> list[str]:
    texts = [str(message.get("content")) for message in messages]
    if isinstance(spec.api_key, str):
        texts.append(spec.api_key)
    for url in (*spec.urls, spec.proxy or ""):
        parts = urlsplit(url)
        texts += [parts.username or "", parts.password or ""]
        texts += [value for _, value in parse_qsl(parts.query)]
    for name in ("extra_headers", "extra_query", "extra_body"):
        values = spec.params.get(name)
        if isinstance(values, Mapping):
            texts += [str(value) for value in values.values()]
    return [" ".join(text.split()) for text in texts]


def _quotes(excerpt: str, texts: Sequence[str]) -> bool:
    """Tell whether an excerpt holds a text, or so much of one that it must be a quotation."""
    if any(text and text in excerpt for text in texts if len(text) < _QUOTE_CHARS):
        return True
    windows = {
        excerpt[start : start + _QUOTE_CHARS] for start in range(len(excerpt) - _QUOTE_CHARS + 1)
    }
    return any(window in text for text in texts for window in windows)
