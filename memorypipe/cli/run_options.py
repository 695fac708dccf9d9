"""The options of the commands that make a run, or say what it would take."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from memorypipe.cli.log_options import LogOptions
from memorypipe.cli.options import (
    DEFAULT_TABLE,
    EmbedderOption,
    JsonOption,
    MaxFailedOption,
    MaxRejectedOption,
    TableOption,
)
from memorypipe.cli.table_options import BackendOption, IdKeyOption

__all__ = ["EstimateOptions", "RunOptions"]


def _log(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Log", **settings)


def _model(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Model (choose one)", **settings)


def _limit(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Limits of the whole run", **settings)


def _price(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Prices", **settings)


def _bound(*names: str, **settings: Any) -> Any:
    panel = "Bounds (the run stops there with exit code 4; the same command goes on)"
    return typer.Option(*names, rich_help_panel=panel, **settings)


def _memory(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Memories", **settings)


def _run(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Run", **settings)


def _estimate(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Estimate", **settings)


@dataclass(frozen=True, kw_only=True)
class RunOptions(LogOptions):
    """Options of `backfill` and `plan`; the help of each says what it means."""

    since: Annotated[
        str | None,
        _log(
            "--since",
            metavar="TIME",
            help="Only what was said from then on (UTC unless it says otherwise); what was said "
            "before is shown as background.",
        ),
    ] = None
    until: Annotated[
        str | None,
        _log("--until", metavar="TIME", help="Only what was said before that time."),
    ] = None
    sample: Annotated[
        str | None,
        _log(
            "--sample",
            metavar="SHARE",
            help="Only this share of the scopes, whole ones: 0.5%. A smaller sample lies within a "
            "larger one; --limit counts within it.",
        ),
    ] = None
    seed: Annotated[
        int | None, _log("--seed", metavar="S", help="Another seed takes other scopes (0).")
    ] = None
    reprocess: Annotated[
        bool,
        _log(
            "--reprocess",
            help="Take messages again that earlier runs have dealt with, e.g. with another model. "
            "Nothing doubles.",
        ),
    ] = False
    where: Annotated[
        list[str] | None,
        _log(
            "--where",
            metavar="NAME=VALUE",
            help="Only these again: user_id=u1 or any pair of the scope, conversation=ID, run=ID, "
            "model=NAME, prompt=HASH. Repeatable, all must hold.",
        ),
    ] = None

    table: TableOption = DEFAULT_TABLE
    backend: BackendOption = None
    id_key: IdKeyOption = None
    json: JsonOption = False

    model: Annotated[
        str | None, _model("--model", metavar="NAME", help="Model at the endpoint.")
    ] = None
    base_url: Annotated[
        str | None,
        _model("--base-url", metavar="URL", help="OpenAI-compatible endpoint, usually …/v1."),
    ] = None
    endpoint: Annotated[
        str | None,
        _model(
            "--endpoint",
            metavar="NAME",
            help="Endpoint of memorypipe.toml, for both stages; with --model, another model there. "
            "Environment: MEMORYPIPE_ENDPOINT.",
        ),
    ] = None
    extract_endpoint: Annotated[
        str | None,
        _model("--extract-endpoint", metavar="NAME", help="Endpoint for the extraction alone."),
    ] = None
    decide_endpoint: Annotated[
        str | None,
        _model("--decide-endpoint", metavar="NAME", help="Endpoint for the decisions alone."),
    ] = None
    config: Annotated[
        str | None,
        _model(
            "--config",
            metavar="FILE",
            help="File of endpoints; else what MEMORYPIPE_CONFIG names, else ./memorypipe.toml "
            "where there is one.",
        ),
    ] = None
    offline: Annotated[
        bool, _model("--offline", help="Rules instead of a model: no key, no network.")
    ] = False
    local_model: Annotated[
        str | None,
        _model(
            "--local-model",
            metavar="[FILE.gguf]",
            help="llama.cpp on this machine; without a file a small model (extra 'local').",
        ),
    ] = None
    key_env: Annotated[
        str | None,
        _model(
            "--key-env",
            metavar="NAME",
            help="Variable that holds the key. Without a key option only api.openai.com gets "
            "one, OPENAI_API_KEY.",
        ),
    ] = None
    key_file: Annotated[
        str | None, _model("--key-file", metavar="FILE", help="File that holds the key.")
    ] = None
    key_command: Annotated[
        str | None,
        _model("--key-command", metavar="CMD", help="Command that prints the key (no shell)."),
    ] = None
    param: Annotated[
        list[str] | None,
        _model(
            "--param",
            metavar="NAME=JSON",
            help="Argument of the chat-completions call, e.g. temperature=0. Repeatable.",
        ),
    ] = None

    max_qps: Annotated[
        float | None,
        _limit("--max-qps", metavar="X", help="Requests started per second."),
    ] = None
    max_concurrency: Annotated[
        int | None,
        _limit("--max-concurrency", metavar="N", min=1, help="Requests in flight (64)."),
    ] = None
    max_tokens_per_minute: Annotated[
        int | None,
        _limit("--max-tokens-per-minute", metavar="N", min=1, help="Prompt and reply tokens."),
    ] = None
    max_retries: Annotated[
        int | None,
        _limit("--max-retries", metavar="N", min=0, help="Further attempts per request (5)."),
    ] = None
    batch_api: Annotated[
        bool,
        _limit(
            "--batch-api",
            help="Extract through the provider's Batch API: cheaper, within a day. Interrupt it at "
            "will; the same command takes the replies in.",
        ),
    ] = False
    workers: Annotated[
        int,
        _limit(
            "--workers",
            metavar="N",
            min=1,
            help="Worker processes that share the limits; 1: a small log is done by the command "
            "itself.",
        ),
    ] = 1

    price_in: Annotated[
        float | None,
        _price("--price-in", metavar="X", min=0, help="Price of a million prompt tokens."),
    ] = None
    price_out: Annotated[
        float | None,
        _price("--price-out", metavar="X", min=0, help="Price of a million reply tokens."),
    ] = None
    max_cost: Annotated[
        float | None,
        _bound("--max-cost", metavar="X", help="Spend at most X; needs prices."),
    ] = None
    max_total_tokens: Annotated[
        int | None,
        _bound("--max-total-tokens", metavar="N", min=1, help="Prompt and reply tokens in all."),
    ] = None
    max_calls: Annotated[
        int | None, _bound("--max-calls", metavar="N", min=1, help="Requests sent, retries too.")
    ] = None

    budget: Annotated[
        str | None,
        _bound(
            "--budget",
            metavar="ID",
            help="The bounds hold for all runs of this budget together, restarts too.",
        ),
    ] = None

    hint: Annotated[
        str | None,
        _memory("--hint", metavar="FILE", help="Your own instructions, after the default ones."),
    ] = None
    hint_mode: Annotated[
        Literal["append", "replace"],
        _memory("--hint-mode", help="replace: in place of the default ones for extraction."),
    ] = "append"
    lookup: Annotated[
        Literal["auto", "all", "recent", "keyword", "vector", "hybrid"] | None,
        _memory("--lookup", help="Which memories a decision sees (auto; offline: all)."),
    ] = None
    embedder: EmbedderOption = None
    window_tokens: Annotated[
        int, _memory("--window-tokens", metavar="N", min=1, help="Tokens of log per extraction.")
    ] = 2000
    facts_per_call: Annotated[
        int, _memory("--facts-per-call", metavar="N", min=1, help="Facts decided per call.")
    ] = 20
    commit_fallback: Annotated[
        bool,
        _memory(
            "--commit-fallback",
            help="Commit the fallback action where a decision failed; else its window stays open.",
        ),
    ] = False
    fallback_action: Annotated[
        Literal["ADD", "NONE"], _memory("--fallback-action", help="What --commit-fallback commits.")
    ] = "ADD"

    journal: Annotated[
        str | None,
        _run(
            "--journal",
            metavar="URI",
            help="Journal of replies: a folder, s3://, gs:// or az:// (beside the table).",
        ),
    ] = None
    run_id: Annotated[
        str | None, _run("--run-id", metavar="NAME", help="Names the run (derived from inputs).")
    ] = None
    label: Annotated[
        list[str] | None,
        _run(
            "--label",
            metavar="NAME=VALUE",
            help="Kept with the run and with every revision that it writes. Repeatable.",
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        _run(
            "--ray-address",
            metavar="ADDRESS",
            envvar="RAY_ADDRESS",
            help="A running Ray cluster; else Ray runs on this machine.",
        ),
    ] = None

    max_rejected: MaxRejectedOption = "0"
    max_failed: MaxFailedOption = "0"


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(RunOptions):
    """Options of `estimate`: those of the run, and how it is estimated.

    The bounds are read in order to refuse them with a reason, and are not shown.
    """

    max_cost: Annotated[float | None, _bound("--max-cost", hidden=True)] = None
    max_total_tokens: Annotated[int | None, _bound("--max-total-tokens", hidden=True)] = None
    max_calls: Annotated[int | None, _bound("--max-calls", hidden=True)] = None
    budget: Annotated[str | None, _bound("--budget", hidden=True)] = None
    calibrate: Annotated[
        int,
        _estimate(
            "--calibrate",
            metavar="N",
            min=0,
            help="Make N calls and measure the model; the run takes their extractions from the "
            "journal. Without it nothing is sent.",
        ),
    ] = 0
    latency_ms: Annotated[
        float | None,
        _estimate(
            "--latency-ms",
            metavar="X",
            min=0,
            help="Milliseconds of a call (measured by --calibrate; else 2 s, and 20 ms per token).",
        ),
    ] = None
