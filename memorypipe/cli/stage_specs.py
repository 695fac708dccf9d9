"""How the chosen model is called in each stage: what an option says goes before the file. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, assert_never

from memorypipe.cli.keys import key_of, names_key
from memorypipe.cli.model_choice import EndpointModel, LocalModel, ModelChoice, NamedEndpoints
from memorypipe.cli.model_choice import OfflineModel as OfflineChoice
from memorypipe.cli.run_options import RunOptions
from memorypipe.cli.values import parse_params
from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import digest
from memorypipe.llm.endpoints import Endpoint
from memorypipe.llm.spec import CALL_PARAMS, ModelSpec, Prices

__all__ = ["DEFAULT_MAX_RETRIES", "expression_arguments", "stage_specs"]

DEFAULT_MAX_RETRIES = 5
"""Further attempts per request of a run, where neither option nor file says."""

# What the local server answers at the same time; more would wait there and run into time-outs.
_LOCAL_CONCURRENCY = 2

# Of the local server: its port differs from run to run, the answers do not.
_LOCAL_ENDPOINT = "local"

_LOCAL_PLACEHOLDER = "http://127.0.0.1/v1"

_LIMITS = ("max_qps", "max_concurrency", "max_tokens_per_minute")


def stage_specs(
    options: RunOptions, choice: ModelChoice, *, offline_model: str
) -> tuple[ModelSpec, ModelSpec]:
    """Give the specs of extraction and decisions.

    The limits are those of the whole run. Stages at the same endpoint with the same limits have
    one `limit_group`: they keep them together. With several workers the limits count the calls of
    all of them.

    Args:
        options: Of the command line.
        choice: The chosen model.
        offline_model: The name of the rule-based model.

    Raises:
        InvalidArgumentError: For what cannot work.
    """
    params = _params(options)
    _check_key_options(options, choice)
    extract, decide = _chosen(options, choice, offline_model)
    return _with_options(extract, options, params), _with_options(decide, options, params)


def expression_arguments(spec: ModelSpec) -> dict[str, Any]:
    """Give a spec as arguments of `MemoryExtract` and `MemoryBuildAction`.

    `limit_group` is none of them: see `LLMExpression.limited_with`.

    Args:
        spec: From `stage_specs`.
    """
    names = (
        *("model", "api_key", *_LIMITS, "max_retries"),
        *("endpoint_name", "rate_scope", "ca_file", "proxy"),
    )
    return {
        "base_url": list(spec.urls),
        **{name: getattr(spec, name) for name in names},
        "price_in": spec.prices.per_million_in if spec.prices else None,
        "price_out": spec.prices.per_million_out if spec.prices else None,
        **spec.params,
    }


def _chosen(
    options: RunOptions, choice: ModelChoice, offline_model: str
) -> tuple[ModelSpec, ModelSpec]:
    """Give what the choice alone says."""
    match choice:
        case NamedEndpoints(extract=extract, decide=decide):
            return _named(options, extract), _named(options, decide)
        case EndpointModel(model=model, base_url=base_url):
            spec = ModelSpec(base_url=base_url, model=model)
            spec = replace(spec, api_key=key_of(options, [spec.host]))
        case OfflineChoice(base_url=base_url):
            spec = ModelSpec(base_url=base_url, model=offline_model)
        case LocalModel():
            spec = ModelSpec(
                base_url=_LOCAL_PLACEHOLDER,
                model=_LOCAL_ENDPOINT,
                endpoint_name=_LOCAL_ENDPOINT,
                max_concurrency=_LOCAL_CONCURRENCY,
            )
        case _:
            assert_never(choice)
    spec = replace(spec, max_retries=DEFAULT_MAX_RETRIES)
    return spec, spec


def _named(options: RunOptions, endpoint: Endpoint) -> ModelSpec:
    spec = endpoint.spec()
    if endpoint.max_retries is None:
        spec = replace(spec, max_retries=DEFAULT_MAX_RETRIES)
    if names_key(options):
        spec = replace(spec, api_key=key_of(options, endpoint.hosts))
    return spec


def _with_options(spec: ModelSpec, options: RunOptions, params: Mapping[str, Any]) -> ModelSpec:
    """Let the options go before what the file says."""
    given = {name: getattr(options, name) for name in (*_LIMITS, "max_retries")}
    spec = replace(
        spec,
        params={**spec.params, **params},
        prices=_prices(options) or spec.prices,
        rate_scope="cluster" if options.workers > 1 else "worker",
        **{name: value for name, value in given.items() if value is not None},
    )
    limits = [getattr(spec, name) for name in _LIMITS]
    group = digest("limits", spec.urls, *limits, size=8).hex()
    return replace(spec, limit_group=group)


def _params(options: RunOptions) -> dict[str, Any]:
    params = parse_params(options.param or [])
    if unknown := sorted(set(params) - CALL_PARAMS):
        raise InvalidArgumentError(
            f"--param {unknown[0]}=… is no argument of the chat-completions call; pass a field "
            f"that only your server knows as extra_body='{{\"{unknown[0]}\": …}}'. "
            f"Known: {', '.join(sorted(CALL_PARAMS))}."
        )
    return params


def _prices(options: RunOptions) -> Prices | None:
    if options.price_in is None and options.price_out is None:
        return None
    if options.price_in is None or options.price_out is None:
        missing = "--price-in" if options.price_in is None else "--price-out"
        raise InvalidArgumentError(f"{missing} is missing: give both prices, per million tokens.")
    return Prices(per_million_in=options.price_in, per_million_out=options.price_out)


def _check_key_options(options: RunOptions, choice: ModelChoice) -> None:
    if not names_key(options):
        return
    if isinstance(choice, OfflineChoice | LocalModel):
        raise InvalidArgumentError(
            "--key-env, --key-file and --key-command go with --model and --base-url only, or with "
            "a named endpoint; leave them out."
        )
    if isinstance(choice, NamedEndpoints) and choice.extract.name != choice.decide.name:
        raise InvalidArgumentError(
            f"--key-env, --key-file and --key-command name one key, but this run asks two "
            f"endpoints, {choice.extract.name!r} and {choice.decide.name!r}: a key goes to one. "
            f"Name their keys in the file of endpoints."
        )
