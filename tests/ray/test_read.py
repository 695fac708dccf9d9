import gzip
import json
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from pyarrow import csv

from memorypipe.errors import InvalidArgumentError, LogFormatError
from memorypipe.ids import ledger_key
from memorypipe.logs.known import pack_keys
from memorypipe.logs.read import read_conversations, windows
from memorypipe.logs.windows import new_message_ids
from memorypipe.pipeline.pipeline import MemoryPipeline
from memorypipe.schema import CONVERSATIONS, WINDOWS

pytestmark = pytest.mark.usefixtures("ray_2_cpus")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "conversations.jsonl"
SHARED = Path(os.environ.get("MEMORYPIPE_SHARED", ROOT.parent / "shared")) / "data"

ROWS = [
    {
        "user_id": f"u{number}",
        "conversation_id": f"c{number}",
        "tag": number,
        "messages": [
            {"role": "user", "content": f"I am {number}.", "timestamp": "2025-01-01T10:00Z"}
        ],
    }
    for number in range(5)
]
LINES = "\n".join(map(json.dumps, ROWS))


def rows(dataset: ray.data.Dataset) -> list[dict[str, Any]]:
    """The rows in an order that does not depend on blocks, maps as dictionaries."""
    found = [{**row, "scope": dict(row["scope"])} for row in dataset.take_all()]
    return sorted(found, key=lambda row: (row["scope_key"], row["conversation_id"]))


def schema(dataset: ray.data.Dataset) -> pa.Schema:
    found = dataset.schema()
    assert found is not None
    return found.base_schema


def write(place: Path, content: str | bytes, name: str = "log") -> Path:
    path = place / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_file_gives_rows_of_the_conversations_schema(tmp_path: Path) -> None:
    log = read_conversations(write(tmp_path, LINES))
    assert schema(log.dataset).equals(CONVERSATIONS)
    assert (log.format, log.conversations, log.turns, log.rejects) == ("openai", 5, 5, ())
    found = rows(log.dataset)
    assert [row["scope"] for row in found] == [{"user_id": f"u{n}"} for n in range(5)]
    assert found[3]["messages"][0]["content"] == "I am 3."


def sources(place: Path) -> dict[str, Any]:
    table = pa.Table.from_pylist(ROWS)
    (place / "parts").mkdir()
    write(place, LINES.splitlines()[0], "parts/0")
    write(place, "\n".join(LINES.splitlines()[1:]), "parts/1")
    return {
        "gzip": write(place, gzip.compress(LINES.encode()), "zipped"),
        "document": write(place, json.dumps(ROWS, indent=1), "document"),
        "directory": place / "parts",
        "pattern": str(place / "parts" / "*"),
        "list of paths": [place / "parts" / "0", str(place / "parts" / "1")],
        "list of rows": ROWS,
        "Arrow": table,
        "pandas": table.to_pandas(),
        "Dataset": ray.data.from_arrow(table),
        "what was read before": read_conversations(ROWS).dataset,
    }


def test_every_kind_of_source_gives_the_same_rows(tmp_path: Path) -> None:
    expected = rows(read_conversations(ROWS).dataset)
    for kind, source in sources(tmp_path).items():
        log = read_conversations(source)
        assert rows(log.dataset) == expected, kind
        assert not log.rejects, kind


def test_kept_columns_come_after_the_others_as_strings() -> None:
    some = [{**ROWS[0], "none": None}, *ROWS[1:]]
    dataset = read_conversations(some, keep=["tag", "none"]).dataset
    assert schema(dataset).names == [*CONVERSATIONS.names, "tag", "none"]
    assert [(row["tag"], row["none"]) for row in rows(dataset)] == [
        (str(n), None) for n in range(5)
    ]


def test_a_scope_from_columns_and_constants() -> None:
    log = read_conversations(ROWS, scope={"user_id": "tag", "tenant": "=acme"})
    assert rows(log.dataset)[2]["scope"] == {"tenant": "acme", "user_id": "2"}


def test_bad_lines_are_rejects_with_their_file_and_number(tmp_path: Path) -> None:
    path = write(tmp_path, f"{LINES}\n{{cut\n" + json.dumps({**ROWS[0], "user_id": " "}))
    log = read_conversations(path)
    assert (log.conversations, log.dataset.count()) == (5, 5)
    assert [(reject.source, reject.line) for reject in log.rejects] == [
        (str(path), 6),
        (str(path), 7),
    ]


def test_an_empty_log_gives_no_rows(tmp_path: Path) -> None:
    log = read_conversations(write(tmp_path, ""))
    assert (log.format, log.dataset.count(), log.rejects) == ("none", 0, ())
    assert windows(log.dataset).count() == 0


@pytest.mark.parametrize("limit", [0, 3, 9])
def test_the_limit_counts_conversations(limit: int) -> None:
    log = read_conversations(ROWS, limit=limit)
    assert log.conversations == log.dataset.count() == min(limit, 5)


def test_a_file_of_unknown_format_among_others_is_a_reject(tmp_path: Path) -> None:
    write(tmp_path, LINES, "b")
    write(tmp_path, "# notes", "a")
    log = read_conversations(tmp_path)
    assert log.dataset.count() == 5
    assert [reject.source for reject in log.rejects] == [str(tmp_path / "a")]


def test_a_log_of_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogFormatError, match="Known formats: openai"):
        read_conversations(write(tmp_path, '{"text": "Hi"}'))


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("/no/such/log.jsonl", {}),
        (3, {}),
        (ROWS, {"format": "parquet"}),
        (ROWS, {"limit": -1}),
        (ROWS, {"keep": ["scope"]}),
        (ROWS, {"keep": ["tag", "tag"]}),
        (ROWS, {"scope": {}}),
        (ROWS, {"scope": {"user_id": "uid"}}),
        ([{"messages": ROWS[0]["messages"]}], {}),
    ],
)
def test_what_cannot_work_is_a_usage_error(source: Any, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        read_conversations(source, **options)


def test_times_without_a_zone_are_counted_and_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = {"role": "user", "content": "Hi", "timestamp": "2025-01-01T10:00"}
    with caplog.at_level(logging.WARNING, logger="memorypipe"):
        log = read_conversations(
            [{"user_id": "u", "messages": [message, {**message, "content": "Ho"}]}]
        )
    assert log.naive_times == 2
    assert [record.getMessage() for record in caplog.records] == [
        "2 times name no time zone; taken as UTC."
    ]


@pytest.mark.parametrize("users", [3, 900])
def test_records_of_one_conversation_are_merged(users: int) -> None:
    """Within one block, and across several."""
    talk = [{"role": "user", "content": f"{n}"} for n in range(6)]
    stages = [
        {"user_id": f"u{user}", "conversation_id": "c", "messages": talk[:length]}
        for length in (1, 6, 3)
        for user in range(users)
    ]
    log = read_conversations(stages)
    assert log.conversations == 3 * users
    merged = log.dataset.materialize()
    assert merged.count() == users
    assert {len(row["messages"]) for row in merged.take_all()} == {6}
    assert schema(merged).equals(CONVERSATIONS)


def test_windows_have_their_schema_and_skip_what_the_ledger_knows() -> None:
    log = read_conversations(ROWS)
    everything = windows(log.dataset).materialize()
    assert schema(everything).equals(WINDOWS)
    done = [
        ledger_key(row["scope_key"], row["conversation_id"], identity)
        for row in rows(everything)[:2]
        for identity in new_message_ids(row)
    ]
    left = windows(log.dataset, known_keys_ref=ray.put(pack_keys(done)))
    assert rows(left) == rows(everything)[2:]


def test_windows_do_not_depend_on_blocks() -> None:
    log = read_conversations(EXAMPLE)
    one = rows(windows(log.dataset, window_tokens=100))
    many = rows(windows(log.dataset.repartition(7), window_tokens=100))
    key = Counter((row["window_id"], row["window_index"]) for row in one)
    assert key == Counter((row["window_id"], row["window_index"]) for row in many)
    assert len(one) > log.conversations


def test_the_example_is_read_whole() -> None:
    log = read_conversations(EXAMPLE)
    assert not log.rejects
    assert (log.format, log.naive_times, log.unreadable_times) == ("openai", 0, 0)
    found = rows(log.dataset)
    assert {row["scope"]["user_id"] for row in found} == {"u1", "u2", "u3", "u4"}
    assert log.turns == sum(
        len(json.loads(line)["messages"]) for line in EXAMPLE.read_text().splitlines()
    )


def test_messages_are_grouped_across_files_and_blocks(tmp_path: Path) -> None:
    users, length = 90, 90
    turns = [
        {"uid": f"u{user}", "chat": user % 2, "n": n, "role": "customer", "text": f"{user} {n}"}
        for n in range(length)
        for user in range(users)
    ]
    options: dict[str, Any] = {
        "layout": "messages",
        "group_by": "chat",
        "order_by": "n",
        "roles": {"customer": "user"},
        "scope": {"user_id": "uid"},
    }
    table = pa.Table.from_pylist(turns[::-1])
    pq.write_table(table.slice(0, 4000), tmp_path / "a.parquet")
    csv.write_csv(table.slice(4000), tmp_path / "b.csv")
    log = read_conversations(tmp_path, redact=list, **options)
    found = rows(log.dataset)
    assert {row["scope"]["user_id"]: [m["content"] for m in row["messages"]] for row in found} == {
        f"u{user}": [f"{user} {n}" for n in range(length)] for user in range(users)
    }
    assert (log.format, log.conversations, log.turns) == ("mapped", users, len(turns))
    assert len(found) == users


def test_a_pipeline_that_redacts_writes_nothing_that_is_not_redacted(tmp_path: Path) -> None:
    """Windows, facts, prompts, replies and rejects lie below the table's folder."""
    talk = [{"role": "user", "content": "I live at Hidden Lane. I like tea."}]
    lines = [json.dumps({"user_id": "u1", "messages": talk}), '{"cut": "Hidden Lane']
    path = write(tmp_path, "\n".join(lines))
    pipeline = MemoryPipeline.offline(
        str(tmp_path / "table"),
        redact=lambda texts: [text.replace("Hidden Lane", "[street]") for text in texts],
    )
    with pytest.raises(InvalidArgumentError, match="redact="):
        pipeline.plan(read_conversations(path))
    plan = pipeline.plan(path)
    assert plan.summary().rejected_lines == 1
    texts = plan.actions()["text"].to_pylist()
    assert any("[street]" in text for text in texts)
    found = list((tmp_path / "table").rglob("*"))
    assert found
    assert not [file for file in found if file.is_file() and b"Hidden" in file.read_bytes()]
    windows_of_run = next(file for file in found if file.name.startswith("windows"))
    assert "Hidden" not in str(pq.read_table(windows_of_run).to_pylist())


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public logs are not on this machine")
@pytest.mark.parametrize(
    ("name", "format_name", "conversations", "turns"),
    [
        ("locomo10.json", "locomo", 272, 5882),
        ("memorybank_en.json", "memorybank", 149, 1132),
        ("memorybank_cn.json", "memorybank", 150, 1132),
    ],
)
def test_public_logs_are_read_whole(
    name: str, format_name: str, conversations: int, turns: int
) -> None:
    log = read_conversations(SHARED / name)
    assert (log.format, log.conversations, log.turns) == (format_name, conversations, turns)
    assert (log.rejects, log.unreadable_times) == ((), 0)
    sent = [identity for row in rows(windows(log.dataset)) for identity in new_message_ids(row)]
    assert len(sent) == turns
