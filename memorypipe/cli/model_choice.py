"""Which model answers the calls of a run. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.endpoints import Endpoint
from memorypipe.llm.spec import OFFLINE_URL

__all__ = [
    "EndpointModel",
    "LocalModel",
    "ModelChoice",
    "NamedEndpoints",
    "OfflineModel",
    "choose_model",
]

_WAYS = (
    "--model NAME --base-url URL (an OpenAI-compatible endpoint), --endpoint NAME (of "
    "memorypipe.toml), --offline (rules, no key and no "
    "network), or --local-model [FILE.gguf] (llama.cpp on this machine)"
)


@dataclass(frozen=True, kw_only=True)
class EndpointModel:
    """A model behind an OpenAI-compatible endpoint.

    Attributes:
        model: Its name there.
        base_url: The endpoint.
    """

    model: str
    base_url: str


@dataclass(frozen=True, kw_only=True)
class NamedEndpoints:
    """Endpoints of a file, one for each stage; it may be the same one.

    Attributes:
        extract: Of the extraction.
        decide: Of the decisions.
    """

    extract: Endpoint
    decide: Endpoint

    def with_model(self, model: str | None) -> "NamedEndpoints":
        """Give the same with another model at both; None changes nothing."""
        if model is None:
            return self
        return NamedEndpoints(
            extract=replace(self.extract, model=model), decide=replace(self.decide, model=model)
        )


@dataclass(frozen=True, kw_only=True)
class OfflineModel:
    """The rule-based model of the package.

    Attributes:
        base_url: The address that means it.
    """

    base_url: str = OFFLINE_URL


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A model that llama.cpp serves on this machine while the run lasts.

    Attributes:
        path: A GGUF file; None is the small one of the extra ``local``.
    """

    path: str | None


ModelChoice = EndpointModel | NamedEndpoints | OfflineModel | LocalModel


def _no_endpoints() -> NamedEndpoints | None:
    return None


def choose_model(  # noqa: PLR0913  # the options of all ways
    *,
    model: str | None,
    base_url: str | None,
    offline: bool,
    local_model: str | None,
    endpoint_options: Sequence[str] = (),
    named: Callable[[], NamedEndpoints | None] = _no_endpoints,
) -> ModelChoice:
    """Choose the one model that the options name, or that environment and file name.

    Args:
        model: Of ``--model``.
        base_url: Of ``--base-url``.
        offline: Of ``--offline``.
        local_model: Of ``--local-model``: a path, "" where it has no value, None where it is not
            there.
        endpoint_options: The options given that name an endpoint.
        named: Gives the endpoints that options, environment and file name; asked only where no
            option chooses another way. ``--model`` beside it is another model there.

    Raises:
        InvalidArgumentError: For no way or several ways of choosing, with the ways.
    """
    at_address = base_url is not None or (model is not None and not endpoint_options)
    ways = {
        "--model/--base-url": at_address,
        "/".join(endpoint_options): bool(endpoint_options),
        "--offline": offline,
        "--local-model": local_model is not None,
    }
    chosen = [way for way, is_given in ways.items() if is_given]
    is_elsewhere = base_url is not None or offline or local_model is not None
    if not is_elsewhere and (endpoints := named()) is not None:
        return endpoints.with_model(model)
    if len(chosen) != 1:
        got = " and ".join(chosen) or "none"
        raise InvalidArgumentError(f"Choose exactly one model, got {got}. Ways: {_WAYS}.")
    if offline:
        return OfflineModel()
    if local_model is not None:
        return LocalModel(path=local_model or None)
    if model is None or base_url is None:
        missing = "--model" if model is None else "--base-url"
        raise InvalidArgumentError(f"An endpoint needs {missing} too. Ways: {_WAYS}.")
    return EndpointModel(model=model, base_url=base_url)
