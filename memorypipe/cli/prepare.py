"""From the options of a run to checked settings, before anything slow starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from memorypipe.cli.embedder_choice import choose_if_named
from memorypipe.cli.endpoint_choice import endpoint_options, find_endpoints
from memorypipe.cli.exit_codes import Threshold
from memorypipe.cli.model_choice import ModelChoice, OfflineModel, choose_model
from memorypipe.cli.request_choice import request_arguments
from memorypipe.cli.run_options import RunOptions
from memorypipe.cli.stage_specs import stage_specs
from memorypipe.cli.values import parse_columns, parse_names, parse_roles, parse_scope_columns
from memorypipe.errors import InvalidArgumentError, PlanError
from memorypipe.llm.batch.settings import BatchSettings, check_batches
from memorypipe.llm.journal.open import check_journal
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import ModelSpec
from memorypipe.logs.options import read_options
from memorypipe.pipeline.runs.budget import check_budget
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.rank.lookup import Lookup

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a run works with.

    Attributes:
        choice: The chosen model.
        extract_spec: How it is called to extract; of a local model without its address yet.
        decide_spec: The same to decide.
        workers: Worker processes.
        extract_hint: Instructions for the extraction, as arguments of the expression.
        decide_hint: The same for the decisions.
        fallback_action: What a fact without a valid decision becomes where that is committed.
        reading: How the log is read: arguments of `read_conversations`.
        settings: Arguments of `MemoryPipeline` beside table and expressions.
        request: What is asked of the run: arguments of `MemoryPipeline.plan`.
        max_rejected: Unreadable lines that are too many.
        max_failed: Open windows that are too many.
    """

    choice: ModelChoice
    extract_spec: ModelSpec
    decide_spec: ModelSpec
    workers: int
    extract_hint: dict[str, Any]
    decide_hint: dict[str, Any]
    fallback_action: Literal["ADD", "NONE"]
    reading: dict[str, Any]
    settings: dict[str, Any]
    request: dict[str, Any]
    max_rejected: Threshold
    max_failed: Threshold

    @property
    def specs(self) -> tuple[ModelSpec, ...]:
        """The specs of both stages, once where they are the same."""
        both = (self.extract_spec, self.decide_spec)
        return both[:1] if both[0] == both[1] else both

    def at(self, *, base_url: str, model: str, defaults: Mapping[str, Any]) -> "Prepared":
        """Give the same with the address of the local server, and what suits its model."""

        def there(spec: ModelSpec) -> ModelSpec:
            params = {**defaults, **spec.params}
            return replace(spec, base_url=base_url, model=model, params=params)

        return replace(
            self, extract_spec=there(self.extract_spec), decide_spec=there(self.decide_spec)
        )


def prepare(
    options: RunOptions,
    *,
    offline_model: str,
    environ: Mapping[str, str] = os.environ,
    folder: Path = Path(),
) -> Prepared:
    """Check everything that can be checked without Ray, network and table.

    Args:
        options: Of the command line.
        offline_model: The name of the rule-based model.
        environ: Where endpoints and their file may be named.
        folder: Where the file of endpoints is looked for.

    Raises:
        InvalidArgumentError: For what cannot work.
        JournalError: For a journal in an object store without the extra for it.
    """
    _check_places(options)
    choice = choose_model(
        model=options.model,
        base_url=options.base_url,
        offline=options.offline,
        local_model=options.local_model,
        endpoint_options=endpoint_options(options),
        named=lambda: find_endpoints(options, environ, folder),
    )
    extract_spec, decide_spec = stage_specs(options, choice, offline_model=offline_model)
    extract_hint, decide_hint = _hints(options)
    lookup = options.lookup or ("all" if isinstance(choice, OfflineModel) else "auto")
    return Prepared(
        choice=choice,
        extract_spec=extract_spec,
        decide_spec=decide_spec,
        workers=options.workers,
        extract_hint=extract_hint,
        decide_hint=decide_hint,
        fallback_action=options.fallback_action,
        reading=_reading(options),
        settings={
            # The rules look at every pair of texts, for nothing: all they can use is shown.
            "lookup": Lookup(strategy=lookup, max_memories=None if lookup == "all" else 40),
            "facts_per_call": options.facts_per_call,
            "window_tokens": options.window_tokens,
            "commit_fallback": options.commit_fallback,
            "journal": options.journal,
            "budget": check_budget(options.budget, with_batches=options.batch_api),
            "backend": options.backend,
            "id_key": options.id_key,
            "batch": _batch(options, extract_spec),
            "embedder": choose_if_named(options.embedder, options.config, environ, folder),
        },
        request=request_arguments(options),
        max_rejected=Threshold.parse("--max-rejected", options.max_rejected),
        max_failed=Threshold.parse("--max-failed", options.max_failed),
    )


def _reading(options: RunOptions) -> dict[str, Any]:
    """Give the arguments of `read_conversations`, those checked that can be without the log."""
    reading: dict[str, Any] = {
        "format": options.format,
        "scope": parse_scope_columns(options.scope or []),
        "keep": parse_names("--keep", options.keep or []),
        "map": parse_columns(options.map or []),
        "roles": parse_roles(options.roles or []),
        "timezone": options.timezone,
        "layout": options.layout,
        "group_by": options.group_by,
        "order_by": options.order_by,
    }
    read_options(**reading)
    return {**reading, "limit": options.limit}


def _check_places(options: RunOptions) -> None:
    """Check where the run and its replies are kept."""
    if options.journal is not None:
        # Workers of a cluster open it with what is installed there.
        check_journal(options.journal, is_opened_here=options.ray_address is None)
    if options.run_id is not None:
        try:
            RunFolder.of(options.table, options.run_id)
        except PlanError as error:
            raise InvalidArgumentError(f"--run-id: {error}") from error


def _batch(options: RunOptions, extract_spec: ModelSpec) -> BatchSettings | None:
    if not options.batch_api:
        return None
    bounds = Bounds(
        max_calls=options.max_calls,
        max_tokens=options.max_total_tokens,
        max_cost=options.max_cost,
    )
    check_batches(extract_spec, bounds)
    return BatchSettings()


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
