"""From the options of a run to checked settings, before anything slow starts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, assert_never

from memorypipe.cli.exit_codes import Threshold
from memorypipe.cli.keys import NO_KEY, KeySource, choose_key
from memorypipe.cli.model_choice import (
    EndpointModel,
    LocalModel,
    ModelChoice,
    OfflineModel,
    RunLimits,
    choose_model,
)
from memorypipe.cli.options import RunOptions
from memorypipe.cli.values import parse_names, parse_params, parse_scope_columns
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.spec import CALL_PARAMS, ModelSpec
from memorypipe.rank import Lookup

__all__ = ["Prepared", "prepare"]

# What the local server answers at the same time; more would wait there and run into time-outs.
_LOCAL_CONCURRENCY = 2

# Of the local server: its port differs from run to run, the answers do not.
_LOCAL_ENDPOINT = "local"

_LOCAL_PLACEHOLDER = "http://127.0.0.1/v1"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a run works with.

    Attributes:
        choice: The chosen model.
        spec: How it is called, by one worker; of a local model without its address yet.
        workers: Worker processes.
        extract_hint: Instructions for the extraction, as arguments of the expression.
        decide_hint: The same for the decisions.
        fallback_action: What a fact without a valid decision becomes where that is committed.
        reading: How the log is read: arguments of `read_conversations`.
        settings: Arguments of `MemoryPipeline` beside table and expressions.
        max_rejected: Unreadable lines that are too many.
        max_failed: Open windows that are too many.
    """

    choice: ModelChoice
    spec: ModelSpec
    workers: int
    extract_hint: dict[str, Any]
    decide_hint: dict[str, Any]
    fallback_action: Literal["ADD", "NONE"]
    reading: dict[str, Any]
    settings: dict[str, Any]
    max_rejected: Threshold
    max_failed: Threshold

    def at(self, *, base_url: str, model: str, defaults: Mapping[str, Any]) -> "Prepared":
        """Give the same with the address of the local server, and what suits its model."""
        params = {**defaults, **self.spec.params}
        return replace(self, spec=replace(self.spec, base_url=base_url, model=model, params=params))

    def model_arguments(self) -> dict[str, Any]:
        """Give what both expressions take."""
        spec = self.spec
        names = (
            *("base_url", "model", "api_key", "max_qps", "max_concurrency", "max_retries"),
            *("max_tokens_per_minute", "endpoint_name"),
        )
        return {**{name: getattr(spec, name) for name in names}, **spec.params}


def prepare(options: RunOptions, *, offline_model: str) -> Prepared:
    """Check everything that can be checked without Ray, network and table.

    Args:
        options: Of the command line.
        offline_model: The name of the rule-based model.

    Raises:
        InvalidArgumentError: For what cannot work.
    """
    choice = choose_model(
        model=options.model,
        base_url=options.base_url,
        offline=options.offline,
        local_model=options.local_model,
    )
    limits = _limits(options, choice)
    extract_hint, decide_hint = _hints(options)
    lookup = options.lookup or ("all" if isinstance(choice, OfflineModel) else "auto")
    return Prepared(
        choice=choice,
        spec=_spec(options, choice, limits, offline_model),
        workers=limits.workers,
        extract_hint=extract_hint,
        decide_hint=decide_hint,
        fallback_action=options.fallback_action,
        reading={
            "format": options.format,
            "scope": parse_scope_columns(options.scope or []),
            "keep": parse_names("--keep", options.keep or []),
            "limit": options.limit,
        },
        settings={
            # The rules look at every pair of texts, for nothing: all they can use is shown.
            "lookup": Lookup(strategy=lookup, max_memories=None if lookup == "all" else 40),
            "facts_per_call": options.facts_per_call,
            "window_tokens": options.window_tokens,
            "commit_fallback": options.commit_fallback,
            "journal": options.journal,
        },
        max_rejected=Threshold.parse("--max-rejected", options.max_rejected),
        max_failed=Threshold.parse("--max-failed", options.max_failed),
    )


def _limits(options: RunOptions, choice: ModelChoice) -> RunLimits:
    concurrency = options.max_concurrency
    if isinstance(choice, LocalModel):
        concurrency = concurrency or _LOCAL_CONCURRENCY
    limits = RunLimits(
        workers=options.workers,
        max_qps=options.max_qps,
        max_concurrency=concurrency,
        max_tokens_per_minute=options.max_tokens_per_minute,
    )
    return limits.per_worker()


def _spec(
    options: RunOptions, choice: ModelChoice, limits: RunLimits, offline_model: str
) -> ModelSpec:
    params = parse_params(options.param or [])
    if unknown := sorted(set(params) - CALL_PARAMS):
        raise InvalidArgumentError(
            f"--param {unknown[0]}=… is no argument of the chat-completions call; pass a field "
            f"that only your server knows as extra_body='{{\"{unknown[0]}\": …}}'. "
            f"Known: {', '.join(sorted(CALL_PARAMS))}."
        )
    base_url, model, endpoint_name = _place(choice, offline_model)
    spec = ModelSpec(
        base_url=base_url,
        model=model,
        endpoint_name=endpoint_name,
        max_qps=limits.max_qps,
        max_concurrency=limits.max_concurrency,
        max_tokens_per_minute=limits.max_tokens_per_minute,
        max_retries=options.max_retries,
        params=params,
    )
    return replace(spec, api_key=_key(options, choice, spec.host))


def _place(choice: ModelChoice, offline_model: str) -> tuple[str, str, str | None]:
    """Give address, model and endpoint name; those of the local server come when it runs."""
    match choice:
        case EndpointModel(model=model, base_url=base_url):
            return base_url, model, None
        case OfflineModel(base_url=base_url):
            return base_url, offline_model, None
        case LocalModel():
            return _LOCAL_PLACEHOLDER, _LOCAL_ENDPOINT, _LOCAL_ENDPOINT
    assert_never(choice)


def _key(options: RunOptions, choice: ModelChoice, host: str) -> KeySource:
    key = choose_key(
        host,
        key_env=options.key_env,
        key_file=options.key_file,
        key_command=options.key_command,
    )
    if key != NO_KEY and not isinstance(choice, EndpointModel):
        raise InvalidArgumentError(
            "--key-env, --key-file and --key-command go with --model and --base-url only; "
            "leave them out."
        )
    return key


def _hints(options: RunOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the hint for both stages.

    Instructions that replace the default ones speak of what to extract: the decisions keep
    theirs.
    """
    if options.hint is None:
        if options.hint_mode == "replace":
            raise InvalidArgumentError("--hint-mode replace needs --hint FILE, what to replace by.")
        return {}, {}
    given = {"hint": _read_hint(options.hint), "hint_mode": options.hint_mode}
    return given, given if options.hint_mode == "append" else {}


def _read_hint(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InvalidArgumentError(f"--hint {path!r} cannot be read: {reason}.") from error
    if not text:
        raise InvalidArgumentError(f"--hint {path!r} is empty; leave it out, or write into it.")
    return text
