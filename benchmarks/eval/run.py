"""How well does a model extract facts and decide about memories?

Asks the model of any endpoint the cases beside this file, through the prompts, parsers and checks
of the package, and counts what is right, made up, lost and repeated, and what it costs. With
``--locomo FILE`` also how many of LoCoMo's observations an extraction holds (an approximation, see
`benchmarks.eval.locomo`). What is measured is the model with its reading; the guards of a whole run
come on top.

    python -m benchmarks.eval --offline
    python -m benchmarks.eval --local-model --limit 2
    python -m benchmarks.eval --model NAME --base-url URL --price-in 0.15 --price-out 0.6
    python benchmarks/eval/run.py --endpoint NAME --locomo locomo10.json --sessions 20

Prints tables on standard error and one JSON object on standard output. ``--at-least 0.9`` ends with
exit code 1 where the decisions of the English cases are less accurate than that. ``--beside FILE``
sets earlier results (the JSON) beside this one.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.common import machine
from benchmarks.eval.asking import (  # the checkout comes first
    Decision,
    Extraction,
    ask_decisions,
    ask_extractions,
    priced,
    served,
)
from benchmarks.eval.cases import (
    KINDS,
    LANGUAGES,
    Case,
    DecideCase,
    ExtractCase,
    chosen,
    load_cases,
)
from benchmarks.eval.locomo import read_sessions, score_sessions
from benchmarks.eval.metrics import cost_numbers, decision_numbers, extraction_numbers
from benchmarks.eval.scoring import decision_problems, score_decision, score_extraction
from benchmarks.eval.tables import comparison, render
from memorypipe.cli.endpoint_choice import endpoint_options, find_endpoints
from memorypipe.cli.model_choice import choose_model
from memorypipe.cli.run_options import RunOptions
from memorypipe.cli.stage_specs import stage_specs
from memorypipe.errors import EndpointError, InvalidArgumentError
from memorypipe.llm.spec import OFFLINE_MODEL, ModelSpec
from memorypipe.llm.worker import Worker

__all__ = ["Parts", "evaluate", "main"]

_MODEL_OPTIONS = (
    *("model", "base_url", "endpoint", "extract_endpoint", "decide_endpoint", "config"),
    *("offline", "local_model", "key_env", "key_file", "key_command", "param"),
    *("max_qps", "max_concurrency", "max_tokens_per_minute", "max_retries"),
    *("price_in", "price_out"),
)
_TARGET = "English decisions"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What an evaluation is made of.

    Attributes:
        extract_spec: How the model is called to extract.
        decide_spec: The same to decide.
        extract: What it is asked to extract from.
        decide: What it is asked to decide.
        locomo: LoCoMo's file; None where it is not asked.
        sessions: So many sessions of it at most; None for all.
    """

    extract_spec: ModelSpec
    decide_spec: ModelSpec
    extract: Sequence[ExtractCase]
    decide: Sequence[DecideCase]
    locomo: Path | None
    sessions: int | None


def evaluate(parts: Parts) -> dict[str, Any]:
    """Ask, score and sum up.

    Args:
        parts: What is asked, and of whom.

    Returns:
        `model`, `endpoint`, the numbers of `extract` and `decide` per kind, per language and of
        all, those of `locomo` (None where not asked) and `per_1000_turns`, and under `problems`
        what was said in the cases that are not wholly right.

    Raises:
        EndpointError: The endpoint cannot serve the job at all.
    """
    extracting, deciding = Worker(parts.extract_spec), Worker(parts.decide_spec)
    try:
        extractions = ask_extractions(
            extracting, [case.task for case in parts.extract], on_done=_tick
        )
        decisions = ask_decisions(deciding, parts.decide, on_done=_tick)
        locomo = _locomo(extracting, parts)
    finally:
        extracting.close()
        deciding.close()
    found = [score_extraction(c, e.items) for c, e in zip(parts.extract, extractions, strict=True)]
    decided = [
        score_decision(case, decision.actions, failed=decision.failed)
        for case, decision in zip(parts.decide, decisions, strict=True)
    ]
    facts = sum(counts["items"] for counts in found)
    return {
        "model": parts.extract_spec.model,
        "endpoint": parts.extract_spec.endpoint,
        "extract": _groups("extract", parts.extract, found, extraction_numbers),
        "decide": _groups("decide", parts.decide, decided, decision_numbers),
        "locomo": locomo,
        "per_1000_turns": cost_numbers(
            _total([extraction.spent for extraction in extractions]),
            _total([decision.spent for decision in decisions]),
            facts=facts,
            prices=(priced(parts.extract_spec), priced(parts.decide_spec)),
        ),
        "problems": _problems(parts, extractions, decisions, found),
    }


def _tick() -> None:
    """Show that an answer came, to who watches."""
    if sys.stderr.isatty():
        print(".", end="", file=sys.stderr, flush=True)


def _locomo(worker: Worker, parts: Parts) -> dict[str, Any] | None:
    if parts.locomo is None:
        return None
    sessions = read_sessions(parts.locomo, parts.sessions)
    answers = ask_extractions(worker, [session.task for session in sessions], on_done=_tick)
    facts = [
        None if answer.items is None else [str(item["text"]) for item in answer.items]
        for answer in answers
    ]
    total = _total([answer.spent for answer in answers])
    per_turn = 1000 / max(total["turns"], 1)
    spent = {
        f"{name}/1k": round(total[name] * per_turn, 1)
        for name in ("calls", "tokens_in", "tokens_out")
    }
    prices = priced(parts.extract_spec)
    cost = prices and round(prices.cost(spent["tokens_in/1k"], spent["tokens_out/1k"]), 4)
    return {**score_sessions(sessions, facts), **spent, "cost/1k": cost}


def _groups(
    stage: str,
    cases: Sequence[Case],
    counts: Sequence[Counter[str]],
    numbers: Callable[[Counter[str]], dict[str, float | None]],
) -> dict[str, dict[str, float | None]]:
    """Give the numbers per kind, per language and of all."""
    found: dict[str, Counter[str]] = {}
    for case, one in zip(cases, counts, strict=True):
        for group in (case.kind, case.language, "all"):
            found.setdefault(group, Counter()).update({"cases": 1, **one})
    return {
        group: {"cases": found[group]["cases"], **numbers(found[group])}
        for group in (*KINDS[stage], *LANGUAGES, "all")
        if group in found
    }


def _total(counts: Sequence[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _problems(
    parts: Parts,
    extractions: Sequence[Extraction],
    decisions: Sequence[Decision],
    found: Sequence[Counter[str]],
) -> dict[str, list[str]]:
    """Give what was said in the cases that are not wholly right, for reading."""
    problems = {
        case.id: decision_problems(case, decision.actions)
        for case, decision in zip(parts.decide, decisions, strict=True)
    }
    for case, extraction, counts in zip(parts.extract, extractions, found, strict=True):
        wrong = counts["extra"] or counts["invented"] or counts["repeated"]
        if wrong or counts["found"] < counts["gold"]:
            problems[case.id] = [str(item["text"]) for item in extraction.items or ()] or [
                "(nothing)"
            ]
    return {name: said for name, said in problems.items() if said}


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    model = parser.add_argument_group("model (choose one; as of `memorypipe backfill`)")
    for name in ("model", "base-url", "endpoint", "extract-endpoint", "decide-endpoint", "config"):
        model.add_argument(f"--{name}")
    model.add_argument("--offline", action="store_true")
    model.add_argument("--local-model", nargs="?", const="", metavar="FILE.gguf")
    for name in ("key-env", "key-file", "key-command"):
        model.add_argument(f"--{name}")
    model.add_argument("--param", action="append", metavar="NAME=JSON")
    for name in ("max-qps", "price-in", "price-out"):
        model.add_argument(f"--{name}", type=float)
    for name in ("max-concurrency", "max-tokens-per-minute", "max-retries"):
        model.add_argument(f"--{name}", type=int)
    asked = parser.add_argument_group("what is asked")
    asked.add_argument("--cases", nargs="+", type=Path, help="JSON lines; else those beside this")
    asked.add_argument("--stage", choices=sorted(KINDS), help="of the cases; else both")
    asked.add_argument("--kind", action="append", default=[])
    asked.add_argument("--language", action="append", default=[], choices=LANGUAGES)
    asked.add_argument("--limit", type=int, help="cases of each stage, kind and language")
    asked.add_argument("--locomo", type=Path, metavar="FILE")
    asked.add_argument("--sessions", type=int, help="sessions of LoCoMo; else all")
    parser.add_argument("--problems", action="store_true", help="show what was said wrongly")
    parser.add_argument("--beside", nargs="+", type=Path, default=[], metavar="RESULT.json")
    parser.add_argument("--at-least", type=float, help=f"accuracy of the {_TARGET}")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in _MODEL_OPTIONS}
    run_options = RunOptions(logs=[], **values)
    choice = choose_model(
        model=run_options.model,
        base_url=run_options.base_url,
        offline=run_options.offline,
        local_model=run_options.local_model,
        endpoint_options=endpoint_options(run_options),
        named=lambda: find_endpoints(run_options, os.environ, Path()),
    )
    specs = stage_specs(run_options, choice, offline_model=OFFLINE_MODEL)
    cases = list(
        chosen(
            load_cases(options.cases),
            kinds=options.kind,
            languages=options.language,
            limit=options.limit,
        )
    )
    with served(choice, specs[0]) as extract_spec:
        decide_spec = specs[1] if specs[0] != specs[1] else extract_spec
        return evaluate(
            Parts(
                extract_spec=extract_spec,
                decide_spec=decide_spec,
                extract=_of_stage(cases, ExtractCase, options.stage == "decide"),
                decide=_of_stage(cases, DecideCase, options.stage == "extract"),
                locomo=options.locomo,
                sessions=options.sessions,
            )
        )


def _of_stage(cases: Sequence[Any], kind: type[Any], is_left_out: bool) -> list[Any]:  # noqa: FBT001
    return [] if is_left_out else [case for case in cases if isinstance(case, kind)]


def _accuracy_in_english(result: Mapping[str, Any]) -> float:
    return float(result["decide"].get("en", {}).get("accuracy") or 0.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate, and print tables and JSON."""
    options = _arguments(arguments)
    try:
        result = _run(options)
    except (EndpointError, InvalidArgumentError, ValueError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
    problems = result["problems"] if options.problems else {}
    for name, said in problems.items():
        print(name, *said, sep="\n    ", file=sys.stderr)
    print(render(result), file=sys.stderr)
    earlier = [json.loads(path.read_text("utf-8")) for path in options.beside]
    print(f"\n{comparison([*earlier, result])}", file=sys.stderr)
    print(json.dumps({**result, "machine": machine()}, indent=2, ensure_ascii=False))
    if options.at_least is not None and _accuracy_in_english(result) < options.at_least:
        sys.exit(1)


if __name__ == "__main__":
    main()
