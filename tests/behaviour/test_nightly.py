"""Runs over logs that grow end with the memories that one run over the whole log gives."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memorypipe import MemoryTable
from memorypipe.cli.main import main
from memorypipe.pipeline.runs.selection import Selection
from memorypipe.table.reprocess import Reprocess
from tests.support.runs_by_hand import Runs

CITIES = ["Leeds", "Oslo", "Bonn", "Turin", "Porto", "Ghent", "Malmo"]
THINGS = ["piano", "canoe", "telescope", "tandem", "loom", "kayak", "drone"]
FOODS = ["olives", "figs", "mussels", "rye bread", "plums", "leeks", "quince"]
DAYS = range(1, 8)


def statements(rng: random.Random) -> Iterator[str]:
    """What a user says, one thing after the other; nobody moves back to where they lived."""
    cities = iter(rng.sample(CITIES, len(CITIES)))
    while True:
        yield rng.choice(
            [
                f"I live in {city} now." if (city := next(cities, None)) else "Fine, thanks.",
                f"I own a {rng.choice(THINGS)}.",
                f"I like {rng.choice(FOODS)}.",
                "What a day it was.",
            ]
        )


def whole_log(seed: int, users: int = 3) -> list[dict[str, Any]]:
    """A week of conversations: each user has one after the other, some of them over midnight."""
    rng = random.Random(seed)  # noqa: S311  # no secret
    log = []
    for user in range(users):
        said = statements(rng)
        messages = [
            {
                "role": "user",
                "content": next(said),
                "timestamp": f"2025-01-{day:02}T{hour:02}:{user:02}:00Z",
            }
            for day in DAYS
            for hour in (7, 12, 23)
        ]
        while messages:
            length = rng.randrange(1, 6)
            name = f"c{len(messages)}"
            row = {"user_id": f"u{user}", "conversation_id": name, "messages": messages[:length]}
            log.append(row)
            del messages[:length]
    return log


def interleaved_log(seed: int, users: int = 2) -> list[dict[str, Any]]:
    """A week in which each user has three conversations all the time, and talks now in one."""
    rng = random.Random(seed)  # noqa: S311  # no secret
    log = []
    for user in range(users):
        said = statements(rng)
        messages: dict[str, list[dict[str, Any]]] = {"c0": [], "c1": [], "c2": []}
        for day in DAYS:
            for hour in (7, 9, 12, 15, 18, 23):
                time = f"2025-01-{day:02}T{hour:02}:{user:02}:00Z"
                message = {"role": "user", "content": next(said), "timestamp": time}
                messages[rng.choice(sorted(messages))].append(message)
        log += [
            {"user_id": f"u{user}", "conversation_id": name, "messages": messages[name]}
            for name in messages
        ]
    return log


def texts(runs: Runs) -> set[tuple[str, str]]:
    """What is remembered of whom; of what was said twice one run knows the later time."""
    return {(scope_key, text) for scope_key, text, _ in runs.memories()}


def slice_of(log: list[dict[str, Any]], first: int, last: int) -> list[dict[str, Any]]:
    """The messages of some days, as an export of those days has them."""
    cut = []
    for row in log:
        said = [m for m in row["messages"] if first <= int(m["timestamp"][8:10]) <= last]
        if said:
            cut.append({**row, "messages": said})
    return cut


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_seven_overlapping_daily_slices_are_worth_one_backfill(seed: int, tmp_path: Path) -> None:
    log = whole_log(seed)
    whole, nightly = Runs(tmp_path / "whole"), Runs(tmp_path / "nightly")
    whole.run(log)
    for day in DAYS:
        nightly.run(slice_of(log, day - 2, day))
    assert texts(nightly) == texts(whole)
    sent = [each for run in nightly.runs for each in run.sent]
    assert sorted(sent) == sorted(whole.runs[0].sent), "each message is paid for once"
    assert len(nightly.memories()) > 12


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_so_they_are_where_a_user_has_several_conversations_at_the_same_time(
    seed: int, tmp_path: Path
) -> None:
    log = interleaved_log(seed)
    whole, nightly = Runs(tmp_path / "whole"), Runs(tmp_path / "nightly")
    whole.run(log)
    for day in DAYS:
        nightly.run(slice_of(log, day - 2, day))
    assert texts(nightly) == texts(whole)
    known = {(scope_key, text): time for scope_key, text, time in whole.memories()}
    assert all(time <= known[scope_key, text] for scope_key, text, time in nightly.memories())
    sent = [each for run in nightly.runs for each in run.sent]
    assert sorted(sent) == sorted(whole.runs[0].sent), "each message is paid for once"


@pytest.mark.slow
@pytest.mark.usefixtures("commands_share_ray", "capsys")
def test_so_they_are_through_the_command_on_ray(tmp_path: Path) -> None:
    log = interleaved_log(0)
    by_hand = Runs(tmp_path / "by-hand")
    by_hand.run(log)

    def live(name: str, slices: list[list[dict[str, Any]]]) -> set[tuple[str, str]]:
        table = str(tmp_path / name)
        for rows in slices:
            path = tmp_path / "slice.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            words = ["backfill", str(path), "--table", table, "--offline", "--json"]
            assert main([*words, "--embedder", "none", "--workers", "2"]) == 0
        found = MemoryTable.open(table, create=False).to_arrow(columns=["scope_key", "text"])
        return {(row["scope_key"], row["text"]) for row in found.to_pylist()}

    nightly = live("nightly", [slice_of(log, day - 2, day) for day in DAYS])
    assert nightly == live("whole", [log]) == texts(by_hand)


def test_so_are_seven_periods_of_one_log_that_grows(tmp_path: Path) -> None:
    log = whole_log(7)
    whole, nightly = Runs(tmp_path / "whole"), Runs(tmp_path / "nightly")
    whole.run(log)
    for day in DAYS:
        since = datetime(2025, 1, day, tzinfo=UTC)
        nightly.run(slice_of(log, 1, day), selection=Selection(since=since))
    assert texts(nightly) == texts(whole)
    assert sorted(e for run in nightly.runs for e in run.sent) == sorted(whole.runs[0].sent)


def test_what_was_said_earlier_and_arrives_late_overwrites_nothing_newer(tmp_path: Path) -> None:
    def said(day: int, text: str) -> dict[str, Any]:
        message = {"role": "user", "content": text, "timestamp": f"2025-01-{day:02}T10:00:00Z"}
        return {"user_id": "u", "conversation_id": f"c{day}", "messages": [message]}

    runs = Runs(tmp_path)
    runs.run([said(5, "I live in Oslo now.")])
    runs.run([said(2, "I live in Leeds now."), said(3, "I own a canoe.")])
    assert [(text, time.day) for _, text, time in sorted(runs.memories(), key=lambda m: m[2])] == [
        ("Owns a canoe", 3),
        ("Lives in Oslo", 5),
    ]
    runs.run([said(6, "I live in Bonn now.")])
    assert {text for _, text, _ in runs.memories()} == {
        "Owns a canoe",
        "Lives in Bonn (before: Oslo)",
    }


@pytest.mark.parametrize(
    ("log", "window_tokens"),
    [
        pytest.param(whole_log(3, users=6), 64, id="small windows"),
        pytest.param(whole_log(3, users=6), 2_000, id="whole conversations"),
        pytest.param(interleaved_log(3, users=6), 128, id="several at the same time"),
    ],
)
def test_an_endpoint_that_is_down_for_the_last_third_of_the_decisions_costs_nothing_but_time(
    log: list[dict[str, Any]], window_tokens: int, tmp_path: Path
) -> None:
    whole, broken = Runs(tmp_path / "whole"), Runs(tmp_path / "broken")
    decisions = whole.run(log, window_tokens=window_tokens).decisions
    broken.is_down = lambda n: n > decisions * 2 // 3
    first = broken.run(log, window_tokens=window_tokens)
    assert first.opened
    assert any("decision failed" in reason for reason in first.opened)
    assert broken.memories() != whole.memories()
    broken.is_down = lambda _n: False
    second = broken.run(log, window_tokens=window_tokens)
    assert second.opened == []
    assert broken.memories() == whole.memories()
    undone = set(whole.runs[0].sent) - set(second.sent)
    assert undone, "what was decided is not asked about again"


def test_messages_that_are_taken_again_double_and_bring_back_nothing(tmp_path: Path) -> None:
    log = whole_log(5)
    runs = Runs(tmp_path)
    for day in DAYS:
        runs.run(slice_of(log, day, day))
    before = runs.memories()
    again = runs.run(log, reprocess=Reprocess())
    assert sorted(again.sent) == sorted(each for run in runs.runs[:-1] for each in run.sent)
    assert again.events == []
    assert runs.memories() == before
    part = runs.run(log, reprocess=Reprocess(scope={"user_id": "u1"}))
    assert 0 < len(part.sent) < len(again.sent)
    assert part.events == []
    assert runs.run(log).sent == [], "and they are dealt with afterwards"
