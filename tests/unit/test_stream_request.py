import math
import pickle
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError, InvalidRequestError
from memorypipe.streams.request import Event, read_request
from memorypipe.streams.rules import Rule
from memorypipe.streams.streams import EventStreams
from tests.support.streams import event, rule, source

SCOPE = {"user_id": "123"}


def config(**values: Any) -> dict[str, Any]:
    return {"config": values}


def triggered(**values: Any) -> dict[str, Any]:
    return {"generation_trigger_config": rule(**values)}


def said(**content: Any) -> dict[str, Any]:
    return {"direct_contents_source": {"events": [{"content": content}]}}


TEXT = [{"text": "x"}]
RULE = "generation_trigger_config.generation_rule"
EVENT = "direct_contents_source.events[0]"

# Arguments beside a good scope -> the field and the value that the error names.
INVALID: list[tuple[dict[str, Any], str, str]] = [
    ({"scope": {}}, "scope", "{}"),
    ({"scope": None}, "scope", "None"),
    ({"scope": "u1"}, "scope", "'u1'"),
    ({"scope": {"user_id": "a*"}}, "scope", "'a*'"),
    ({"scope": {"user_id": " "}}, "scope", "' '"),
    ({"scope": {"user_id": 1.5}}, "scope", "1.5"),
    ({"scope": {str(n): "x" for n in range(6)}}, "scope", "6"),
    ({"stream_id": ""}, "stream_id", "''"),
    ({"stream_id": 7}, "stream_id", "7"),
    (said(role="system", parts=TEXT), f"{EVENT}.content.role", "'system'"),
    (said(role=None, parts=TEXT), f"{EVENT}.content.role", "None"),
    (said(role="user", parts=[]), f"{EVENT}.content.parts", "[]"),
    (said(role="user", parts="hi"), f"{EVENT}.content.parts", "'hi'"),
    (said(role="user", parts=[{}]), f"{EVENT}.content.parts[0]", "{}"),
    (said(role="user", parts=[{"text": 3}]), f"{EVENT}.content.parts[0]", "3"),
    ({"direct_contents_source": source(event("x", event_id=" "))}, f"{EVENT}.event_id", "' '"),
    (
        {"direct_contents_source": source(event("x", event_time="soon"))},
        f"{EVENT}.event_time",
        "'soon'",
    ),
    ({"direct_contents_source": source(event("x", event_time=3))}, f"{EVENT}.event_time", "3"),
    ({"direct_contents_source": {"events": "x"}}, "direct_contents_source.events", "'x'"),
    ({"direct_contents_source": {"event": []}}, "direct_contents_source", "'event'"),
    ({"direct_contents_source": 5}, "direct_contents_source", "5"),
    (triggered(event_count=0), f"{RULE}.event_count", "0"),
    (triggered(event_count=-1), f"{RULE}.event_count", "-1"),
    (triggered(event_count=1.5), f"{RULE}.event_count", "1.5"),
    (triggered(event_count=True), f"{RULE}.event_count", "True"),
    (triggered(event_count=10**7), f"{RULE}.event_count", "10000000"),
    (triggered(idle_duration="5m"), f"{RULE}.idle_duration", "'5m'"),
    (triggered(idle_duration=300), f"{RULE}.idle_duration", "300"),
    (triggered(idle_duration="90s"), f"{RULE}.idle_duration", "'90s'"),
    (triggered(idle_duration="0s"), f"{RULE}.idle_duration", "'0s'"),
    (triggered(idle_duration="-60s"), f"{RULE}.idle_duration", "'-60s'"),
    (triggered(fixed_interval="61s"), f"{RULE}.fixed_interval", "'61s'"),
    (triggered(fixed_interval="999999999960s"), f"{RULE}.fixed_interval", "'999999999960s'"),
    (triggered(idle_duration="60s", fixed_interval="120s"), f"{RULE}.idle_duration", "'60s'"),
    (triggered(idle_duration="60s", fixed_interval="120s"), f"{RULE}.fixed_interval", "'120s'"),
    (triggered(event_count=2, overlap_event_count=0), f"{RULE}.overlap_event_count", "0"),
    (triggered(event_count=2, overlap_event_count=2), f"{RULE}.overlap_event_count", "2"),
    (triggered(overlap_event_count=2), f"{RULE}.overlap_event_count", "2"),
    (triggered(event_cnt=2), RULE, "'event_cnt'"),
    (config(force_flush="yes"), "config.force_flush", "'yes'"),
    (config(wait_for_completion=1), "config.wait_for_completion", "1"),
    (config(disable_memory_revisions=0), "config.disable_memory_revisions", "0"),
    (config(revision_labels={"a": 1}), "config.revision_labels['a']", "1"),
    (config(revision_labels=["a"]), "config.revision_labels", "['a']"),
    (config(revision_ttl="30d"), "config.revision_ttl", "'30d'"),
    (config(revision_expire_time="x"), "config.revision_expire_time", "'x'"),
    (
        config(revision_ttl="60s", revision_expire_time="2026-01-01T00:00:00Z"),
        "config.revision_ttl",
        "'60s'",
    ),
    (config(metadata={"k": "v"}), "config.metadata['k']", "'v'"),
    (config(metadata={"k": {}}), "config.metadata['k']", "{}"),
    (config(metadata={"k": {"string_value": 1}}), "config.metadata['k'].string_value", "1"),
    (config(metadata={"k": {"double_value": "1"}}), "config.metadata['k'].double_value", "'1'"),
    (
        config(metadata={"k": {"double_value": math.nan}}),
        "config.metadata['k'].double_value",
        "nan",
    ),
    (config(metadata={"k": {"bool_value": 1}}), "config.metadata['k'].bool_value", "1"),
    (
        config(metadata={"k": {"timestamp_value": "x"}}),
        "config.metadata['k'].timestamp_value",
        "'x'",
    ),
    (
        config(metadata={"k": {"string_value": "a", "bool_value": True}}),
        "config.metadata['k']",
        "'a'",
    ),
    (config(metadata_merge_strategy="merge"), "config.metadata_merge_strategy", "'merge'"),
    (config(forse_flush=True), "config", "'forse_flush'"),
]


@pytest.mark.parametrize(("arguments", "field", "value"), INVALID)
def test_an_invalid_request_names_field_and_value(
    arguments: dict[str, Any], field: str, value: str
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_request(**{"scope": SCOPE, **arguments})
    assert field in str(caught.value)
    assert value in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_nothing_of_an_invalid_request_is_stored(tmp_path: Path) -> None:
    streams = EventStreams(tmp_path)
    good = {"scope": SCOPE, "direct_contents_source": source(event("good", "e"))}
    for arguments, _, _ in INVALID:
        with pytest.raises(InvalidArgumentError):
            streams.ingest_events(**{**good, **arguments})
        with pytest.raises(InvalidRequestError, match="Request 1: ") as caught:
            streams.ingest_batch([good, {**good, **arguments}])
        assert pickle.loads(pickle.dumps(caught.value)).number == 1  # noqa: S301  # our own
    assert list(tmp_path.rglob("*.json")) == []
    assert streams.pending(SCOPE) == 0


def test_a_batch_with_an_unknown_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Request 0.*'steam_id'"):
        EventStreams(tmp_path).ingest_batch([{"scope": SCOPE, "steam_id": "x"}])


def test_parts_become_text_and_placeholders() -> None:
    parts = [
        {"text": "Look:"},
        {"inline_data": {"mime_type": "image/png", "data": b"x"}},
        {"file_data": {"mime_type": "application/pdf", "file_uri": "x"}},
        {"type": "input_audio", "input_audio": {}},
        {"function_call": {"name": "f"}},
        SimpleNamespace(text=None, inline_data=SimpleNamespace(mime_type="audio/wav")),
        SimpleNamespace(text="bye"),
    ]
    request = read_request(scope=SCOPE, **said(role="model", parts=parts))
    lines = ["Look:", "[image]", "[file]", "[audio]", "[function_call]", "[audio]", "bye"]
    assert request.events == (Event(role="assistant", content="\n".join(lines)),)


def test_a_whole_request_is_read() -> None:
    request = read_request(
        scope={"user_id": 123},
        stream_id="s",
        direct_contents_source=source(event("x", "e", event_time="2026-01-01T10:00:00+02:00")),
        generation_trigger_config=rule(event_count=10, idle_duration="300s", overlap_event_count=2),
        config={
            "force_flush": True,
            "revision_labels": {"data_source": "321"},
            "revision_ttl": "2592000s",
            "disable_memory_revisions": False,
            "metadata": {
                "t": {"timestamp_value": "2026-01-01T00:00:00Z"},
                "b": {"bool_value": False},
                "d": {"double_value": 1},
                "s": {"string_value": "v"},
            },
            "metadata_merge_strategy": "MERGE",
        },
    )
    assert request.scope == SCOPE
    assert request.events[0].event_time == datetime(2026, 1, 1, 8, tzinfo=UTC)
    assert request.rule == Rule(event_count=10, idle_s=300, overlap=2)
    assert request.is_forced
    assert request.config == {
        "labels": {"data_source": "321"},
        "ttl_s": 2592000,
        "no_revisions": False,
        "metadata": '{"b":false,"d":1.0,"s":"v",'
        '"t":{"timestamp_value":"2026-01-01T00:00:00+00:00"}}',
        "strategy": "MERGE",
    }


def test_what_is_not_said_is_not_in_the_config() -> None:
    request = read_request(scope=SCOPE, config={}, generation_trigger_config={})
    assert request.config == {}
    assert request.rule is None
    assert request.stream_id == "default"
