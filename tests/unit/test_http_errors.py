import pickle
import ssl
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import (
    EndpointError,
    ModelError,
    RejectedRequestError,
    RetryableModelError,
)
from memorypipe.llm.http_errors import connection_error, retry_after_s, status_error
from memorypipe.llm.spec import ModelSpec

SECRET = "sk-secret-4711"
PROMPT = "[user]: My passport number is X1234567 and I live in Lisbon."
SPEC = ModelSpec(
    base_url=f"https://me:{SECRET}@host/v1",
    model="m-7",
    api_key=SECRET,
    params={"extra_headers": {"X-Org": "org-hidden-header"}},
)


def _error(status: int, body: object = None, headers: dict[str, str] | None = None) -> ModelError:
    return status_error(SPEC, status, headers or {}, body, [{"role": "user", "content": PROMPT}])


def _body(message: str, **details: Any) -> dict[str, Any]:
    return {"error": {"message": message, **details}}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_retryable_and_named(status: int) -> None:
    error = _error(status, headers={"retry-after": "3"})
    assert isinstance(error, RetryableModelError)
    assert (error.kind, error.retry_after_s) == (f"http_{status}", 3.0)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 407])
def test_wrong_key_model_or_address_is_final_for_the_job(status: int) -> None:
    error = _error(status, _body("Incorrect API key"))
    assert isinstance(error, EndpointError)
    assert error.status == status
    assert "Check" in str(error)


@pytest.mark.parametrize("field", ["code", "type"])
def test_a_quota_that_is_used_up_is_final_for_the_job(field: str) -> None:
    error = _error(429, _body("You exceeded your quota", **{field: "insufficient_quota"}))
    assert isinstance(error, EndpointError)
    assert error.status == 429


@pytest.mark.parametrize("status", [400, 413, 418, 422])
def test_what_is_left_is_final_for_the_row(status: int) -> None:
    error = _error(status, _body("maximum context length is 8192 tokens", code="too_long"))
    assert isinstance(error, RejectedRequestError)
    assert not error.rejects_schema
    assert "maximum context length" in str(error)
    assert "too_long" in str(error)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, _body("Invalid parameter: 'response_format' of type 'json_schema'")),
        (400, _body("Not supported", param="response_format")),
        (400, {"detail": "guided decoding is off"}),
        (400, {"message": "failed to parse grammar", "object": "error"}),
        (400, {"error": "json_schema is not supported"}),
        (422, {"detail": [{"loc": ["body", "response_format"], "msg": "extra fields"}]}),
        (501, _body("Structured output is not implemented")),
    ],
)
def test_a_rejected_schema_is_told_apart(status: int, body: object) -> None:
    error = _error(status, body)
    assert isinstance(error, RejectedRequestError)
    assert error.rejects_schema


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
@pytest.mark.parametrize(
    "said",
    [
        f"Incorrect API key provided: {SECRET}",
        f"bad input: {PROMPT}",
        "bad input: passport number is X1234567",
        "no header org-hidden-header",
        "x" * 5_000,
    ],
)
def test_no_message_quotes_key_password_prompt_or_header(status: int, said: str) -> None:
    shown = str(_error(status, _body(said, code=said)))
    for hidden in (SECRET, "me:", "X1234567", "org-hidden-header"):
        assert hidden not in shown
    assert "'https://host/v1'" in shown
    assert "'m-7'" in shown
    assert len(shown) < 500


def test_errors_survive_pickling() -> None:
    for error in (_error(400, _body("schema")), _error(401), _error(503)):
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("body", [None, [], "text", {"error": None}, {"error": {"code": 7}}])
def test_bodies_of_any_shape_are_read(body: object) -> None:
    assert isinstance(_error(400, body), RejectedRequestError)


def test_a_timeout_is_told_from_a_connection_that_failed() -> None:
    timeout, refused = RuntimeError(), RuntimeError()
    timeout.__cause__ = TimeoutError()
    refused.__cause__ = ConnectionRefusedError()
    late, gone = connection_error(SPEC, timeout), connection_error(SPEC, refused)
    assert isinstance(late, RetryableModelError)
    assert isinstance(gone, RetryableModelError)
    assert (late.kind, gone.kind) == ("timeout", "connection")
    assert SECRET not in str(connection_error(SPEC, refused))


NOW = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Wed, 01 Jan 2025 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Tue, 31 Dec 2024 00:00:30 GMT"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 99 Jan 2025 00:00:30 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_seconds_milliseconds_and_as_a_date(
    headers: dict[str, str], wait_s: float | None
) -> None:
    assert retry_after_s(headers, now=NOW) == wait_s


def test_a_date_counts_from_the_clock_of_the_endpoint() -> None:
    headers = {
        "date": "Wed, 01 Jan 2025 00:00:00 GMT",
        "retry-after": "Wed, 01 Jan 2025 00:00:07 GMT",
    }
    assert retry_after_s(headers) == 7.0


@pytest.mark.parametrize("status", [400, 422, 429, 500])
def test_a_key_that_was_resolved_on_the_worker_is_not_quoted_either(status: int) -> None:
    spec = replace(SPEC, api_key="env:MY_KEY", params={"extra_query": {"api-key": "q-hidden-1"}})
    for secret in ("sk-resolved-0815", "q-hidden-1"):
        said = f"Received API Key = {secret}"
        body = _body(said, code=said)
        shown = str(status_error(spec, status, {}, body, [], key="sk-resolved-0815"))
        assert secret not in shown


class _WithSocketError(OSError):
    """As the transport raises: the cause is an attribute."""

    def __init__(self, os_error: OSError) -> None:
        super().__init__("failed")
        self.os_error = os_error


@pytest.mark.parametrize(
    "error",
    [
        ssl.SSLCertVerificationError(1, f"self-signed certificate of {SECRET}"),
        _WithSocketError(ssl.SSLCertVerificationError(1, "self-signed certificate")),
    ],
)
def test_a_certificate_that_is_not_trusted_is_final_for_the_job(error: OSError) -> None:
    made = connection_error(SPEC, error)
    assert isinstance(made, EndpointError)
    assert "ca_file" in str(made)
    assert SECRET not in str(made)


def test_a_proxy_that_refuses_the_tunnel_for_want_of_a_login_is_final_for_the_job() -> None:
    refusal = OSError("no")
    refusal.status = 407  # type: ignore[attr-defined]  # as the transport's error has it
    made = connection_error(SPEC, refusal)
    assert isinstance(made, EndpointError)
    assert made.status == 407


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "https://me:hidden-password@host/v1"},
        {"base_url": "https://host/v1?token=hidden-password"},
        {"replicas": ("https://host/v2?token=hidden-password",)},
        {"proxy": "http://me:hidden-password@proxy:3128"},
        {"params": {"extra_query": {"token": "hidden-password"}}},
    ],
)
def test_what_stands_in_addresses_is_not_repeated(changes: dict[str, Any]) -> None:
    spec = replace(SPEC, **changes)
    error = status_error(spec, 500, {}, _body("denied: hidden-password"), [])
    assert "hidden-password" not in str(error)


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (429, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        (429, {"x-ratelimit-remaining-requests": "7", "x-ratelimit-reset-requests": "6m0s"}, None),
        (503, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, None),
        (429, {"retry-after": "2", "ratelimit-remaining": "0", "ratelimit-reset": "9"}, 2.0),
        (429, {"ratelimit-remaining": "0", "ratelimit-reset": "9"}, 9.0),
    ],
)
def test_a_429_without_retry_after_waits_for_the_reset_of_the_limit_that_is_used_up(
    status: int, headers: dict[str, str], wait_s: float | None
) -> None:
    error = status_error(SPEC, status, headers, {}, [{"role": "user", "content": "hi"}])
    assert isinstance(error, RetryableModelError)
    assert error.retry_after_s == wait_s
