"""Which model answers the calls of a run, and within which limits. Pure."""

from dataclasses import dataclass, replace

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.spec import OFFLINE_URL

__all__ = [
    "EndpointModel",
    "LocalModel",
    "ModelChoice",
    "OfflineModel",
    "RunLimits",
    "choose_model",
]

THREE_WAYS = (
    "--model NAME --base-url URL (an OpenAI-compatible endpoint), --offline (rules, no key and no "
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


ModelChoice = EndpointModel | OfflineModel | LocalModel


def choose_model(
    *, model: str | None, base_url: str | None, offline: bool, local_model: str | None
) -> ModelChoice:
    """Choose the one model that the options name.

    Args:
        model: Of ``--model``.
        base_url: Of ``--base-url``.
        offline: Of ``--offline``.
        local_model: Of ``--local-model``: a path, "" where it has no value, None where it is not
            there.

    Raises:
        InvalidArgumentError: For no way or several ways of choosing, with the three ways.
    """
    ways = {
        "--model/--base-url": model is not None or base_url is not None,
        "--offline": offline,
        "--local-model": local_model is not None,
    }
    chosen = [way for way, is_given in ways.items() if is_given]
    if len(chosen) != 1:
        got = " and ".join(chosen) or "none"
        raise InvalidArgumentError(f"Choose exactly one model, got {got}. Ways: {THREE_WAYS}.")
    if offline:
        return OfflineModel()
    if local_model is not None:
        return LocalModel(path=local_model or None)
    if model is None or base_url is None:
        missing = "--model" if model is None else "--base-url"
        raise InvalidArgumentError(f"An endpoint needs {missing} too. Ways: {THREE_WAYS}.")
    return EndpointModel(model=model, base_url=base_url)


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """Limits of calling a model.

    Attributes:
        workers: Worker processes.
        max_qps: Starts of requests per second; None for no limit.
        max_concurrency: Requests in flight; None for the default of each worker.
        max_tokens_per_minute: Prompt and completion tokens per minute; None for no limit.
    """

    workers: int = 1
    max_qps: float | None = None
    max_concurrency: int | None = None
    max_tokens_per_minute: int | None = None

    def per_worker(self) -> "RunLimits":
        """Share limits that hold for a whole run out among its workers.

        There are no more workers than requests in flight or tokens to share.

        Example:
            >>> RunLimits(workers=4, max_qps=2.0, max_concurrency=10).per_worker()
            RunLimits(workers=4, max_qps=0.5, max_concurrency=2, max_tokens_per_minute=None)
        """
        counts = (self.max_concurrency, self.max_tokens_per_minute)
        workers = min(self.workers, *(count for count in counts if count is not None), self.workers)
        return replace(
            self,
            workers=workers,
            max_qps=None if self.max_qps is None else self.max_qps / workers,
            max_concurrency=_share(self.max_concurrency, workers),
            max_tokens_per_minute=_share(self.max_tokens_per_minute, workers),
        )


def _share(count: int | None, workers: int) -> int | None:
    return None if count is None else count // workers
