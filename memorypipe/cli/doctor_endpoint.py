"""What `doctor` looks at of an endpoint: key, address, models, and replies by a schema."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Never
from urllib.parse import urlencode

from memorypipe.cli.doctor_report import Finding, fail, good, skip, warn
from memorypipe.cli.preflight import check_endpoint, check_key, is_proxied
from memorypipe.errors import EndpointError, MemoryPipeError
from memorypipe.llm.keys import NO_KEY, resolve_key
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec, display_url
from memorypipe.llm.stage import Outcome

__all__ = ["check_address", "check_models", "check_replies", "listed_models"]

_TIMEOUT_S = 10.0
_MOST_BYTES = 10_000_000
_SHOWN_MODELS = 5
_UNAUTHORISED = (401, 403)


def check_address(spec: ModelSpec, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look whether the key's source is there and anybody listens at the address."""
    if spec.base_url == OFFLINE_URL:
        yield good("endpoint", "rules instead of a model: nothing to reach")
        return
    try:
        check_key(spec, environ)
        if spec.api_key == NO_KEY:
            wanted = "Where the endpoint wants one: --key-env, --key-file or --key-command."
            yield skip("key", "none is given", wanted)
        else:
            yield good("key", "its source is there")
    except EndpointError as error:
        yield fail("key", str(error), "Set it, or name another source.")
    if spec.proxy is None and any(map(is_proxied, spec.urls)):
        yield skip("endpoint", "requests go through a proxy of this machine")
        return
    try:
        check_endpoint(spec)
        yield good("endpoint", f"{spec.endpoint} can be reached")
    except EndpointError as error:
        yield fail("endpoint", str(error), "Start the server, or correct the address.")


def check_models(
    spec: ModelSpec,
    environ: Mapping[str, str],
    listed: "Callable[[ModelSpec, str, str], list[str]] | None" = None,
) -> Iterator[Finding]:
    """Ask every address which models it has; such a question costs nothing.

    Args:
        spec: The endpoint.
        environ: Where keys named ``"env:NAME"`` are looked up.
        listed: Asks one address; None for `listed_models`.
    """
    if spec.base_url == OFFLINE_URL:
        return
    ask = listed or listed_models
    try:
        key = resolve_key(spec.api_key, environ)
    except MemoryPipeError as error:
        yield skip("model", f"not asked without a key ({type(error).__name__})")
        return
    for url in spec.urls:
        yield _model_finding(spec, url, key, ask)


def _model_finding(
    spec: ModelSpec, url: str, key: str, ask: Callable[[ModelSpec, str, str], list[str]]
) -> Finding:
    where = display_url(url)
    try:
        names = ask(spec, url, key)
    except urllib.error.HTTPError as error:
        if error.code in _UNAUTHORISED:
            return fail("model", f"{where} refuses the key ({error.code})", "Check the key.")
        told = f"{where} does not list its models ({error.code})"
        return warn("model", told, "--ask asks the model itself.")
    except (OSError, ValueError) as error:
        # The message may quote an address with a secret in it: the class must do.
        told = f"{where} gave no list of models ({type(error).__name__})"
        return warn("model", told, "Check the address; it usually ends in /v1.")
    if spec.model in names:
        return good("model", f"{spec.model} is listed at {where}")
    some = ", ".join(names[:_SHOWN_MODELS]) or "none"
    told = f"{spec.model!r} is not among the {len(names)} models of {where}: {some}"
    return warn("model", told, "Correct --model; some servers take names that they do not list.")


def listed_models(spec: ModelSpec, url: str, key: str) -> list[str]:
    """Ask an address for its models.

    Args:
        spec: With certificates, proxy, headers and query.
        url: The address.
        key: The key, which goes to this address and nowhere else.

    Raises:
        OSError: If it cannot be reached, or answers with an error.
        ValueError: If its answer is no list of models.
    """
    query = urlencode(spec.params.get("extra_query") or {})
    address = f"{url.rstrip('/')}/models" + (f"?{query}" if query else "")
    headers = {"Accept": "application/json", **(spec.params.get("extra_headers") or {})}
    if key != NO_KEY:
        headers.setdefault("Authorization", f"Bearer {key}")
    request = urllib.request.Request(address, headers=headers)  # noqa: S310  # checked by ModelSpec
    handlers: list[urllib.request.BaseHandler] = [_StayHere()]
    if spec.ca_file is not None:
        context = ssl.create_default_context(cafile=spec.ca_file)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    if spec.proxy is not None:
        handlers.append(urllib.request.ProxyHandler({"http": spec.proxy, "https": spec.proxy}))
    with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
        value = json.loads(answer.read(_MOST_BYTES))
    models = value.get("data") if isinstance(value, dict) else None
    if not isinstance(models, list):
        raise ValueError("The answer has no list under 'data'.")  # noqa: TRY004  # an answer, no argument
    return [str(model.get("id")) for model in models if isinstance(model, dict)]


class _StayHere(urllib.request.HTTPRedirectHandler):
    """A redirect could take the key to another host."""

    def redirect_request(self, *args: Any, **_more: Any) -> Never:
        """Refuse to go on."""
        request, _, code, message, headers, *_ = args
        raise urllib.error.HTTPError(request.full_url, code, message, headers, None)


def check_replies(spec: ModelSpec, ask: Callable[[], Outcome[Any]] | None) -> Iterator[Finding]:
    """Ask for one short decision, and look whether the reply follows the schema.

    Args:
        spec: The endpoint.
        ask: Makes the call; None where nobody agreed to it.
    """
    check = "reply schema"
    if spec.base_url == OFFLINE_URL:
        return
    if ask is None:
        yield skip(check, "not asked, as that is paid", "--ask sends one short request.")
        return
    try:
        outcome = ask()
    except MemoryPipeError as error:
        yield fail(check, str(error), "Correct what the endpoint complains of.")
        return
    tokens = f"{outcome.prompt_tokens:,} + {outcome.completion_tokens:,} tokens"
    told = f"{tokens}, {outcome.latency_ms:,.0f} ms"
    if outcome.status != "ok":
        reason = outcome.error or outcome.status
        step = "Choose a model that follows JSON schemas, or a server that makes it."
        yield fail(check, f"{outcome.status}: {reason} ({told})", step)
    elif outcome.repaired or outcome.failures:
        step = "It works; a server that keeps replies to the schema saves repeated requests."
        yield warn(check, f"followed with help ({told})", step)
    else:
        yield good(check, f"followed ({told})")
