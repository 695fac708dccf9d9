"""One record of another store becomes a memory, or says why it cannot."""

from datetime import UTC, date, datetime
from typing import Any

import orjson
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.imports.mapping import (
    Imported,
    SkippedError,
    UnreadableError,
    make_mapping,
    read_memory,
)

_MEM0 = {
    "id": "a1",
    "memory": "Likes tea",
    "hash": "0c5b",
    "metadata": {"mood": "calm"},
    "created_at": "2024-07-20T01:30:36.275141-07:00",
    "updated_at": "2024-07-21T00:00:00Z",
    "user_id": "alice",
    "run_id": "s1",
    "categories": ["food"],
    "expiration_date": "2099-01-01",
    "role": "user",
    "score": 0.4,
}


def _read(record: Any, source: str = "jsonl", **mapping: Any) -> Imported:
    return read_memory(record, make_mapping(source, **mapping))


def _metadata(memory: Imported) -> Any:
    return orjson.loads(memory.values.get("metadata", "{}"))


def test_a_record_of_mem0_keeps_id_times_topics_and_all_that_has_no_place_here() -> None:
    memory = _read(_MEM0, "mem0")
    assert memory.text == "Likes tea"
    assert memory.scope == {"thread_id": "s1", "user_id": "alice"}
    assert memory.values["external_id"] == "a1"
    assert "memory_id" not in memory.values
    assert memory.values["created_at"] == datetime(2024, 7, 20, 8, 30, 36, 275141, tzinfo=UTC)
    assert memory.values["updated_at"] == datetime(2024, 7, 21, tzinfo=UTC)
    assert memory.values["event_time"] == memory.values["updated_at"]
    assert memory.values["expires_at"] == datetime(2099, 1, 2, tzinfo=UTC)
    assert memory.values["topics"] == ["food"]
    assert _metadata(memory) == {"mood": "calm", "role": "user"}


def test_scope_keys_choose_the_parts_of_the_scope_and_the_others_stay_in_the_metadata() -> None:
    memory = _read(_MEM0, "mem0", scope_keys=["user_id"])
    assert memory.scope == {"user_id": "alice"}
    assert _metadata(memory)["thread_id"] == "s1"


def test_fields_are_mapped_by_name_constants_make_a_scope_and_numbers_become_ids() -> None:
    memory = _read(
        {"note": "Likes tea", "nr": 7, "owner": 42.0, "colour": "red", "when": 1735725600},
        fields={"text": "note", "external_id": "nr", "event_time": "when"},
        scope={"user_id": "owner", "tenant": "=acme"},
        keep=["colour"],
    )
    assert memory.scope == {"tenant": "acme", "user_id": "42"}
    assert memory.values["external_id"] == "7"
    assert memory.values["event_time"] == datetime(2025, 1, 1, 10, tzinfo=UTC)
    assert _metadata(memory) == {"colour": "red"}


@pytest.mark.parametrize("scope", [{"user_id": "u1"}, [("user_id", "u1")], '{"user_id": "u1"}'])
def test_a_scope_may_be_an_object_the_pairs_of_a_map_or_json(scope: Any) -> None:
    assert _read({"text": "Likes tea", "scope": scope}).scope == {"user_id": "u1"}


def test_a_record_without_updated_at_was_never_updated() -> None:
    memory = _read({"text": "Likes tea", "scope": {}, "created_at": "2024-01-01"})
    assert memory.values["updated_at"] == memory.values["created_at"]


def test_a_vector_is_taken_only_where_it_is_asked_for() -> None:
    record = {"text": "Likes tea", "scope": {}, "vector": [1, 0.5]}
    assert "vector" not in _read(record).values


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ("Likes tea", "no object but a str"),
        ({"scope": {}}, "The text, field 'text', is missing"),
        ({"text": "  ", "scope": {}}, "it must be a text"),
        ({"text": "Likes tea"}, "the field 'scope' is missing"),
        ({"text": "Likes tea", "scope": "u1"}, "no JSON object"),
        ({"text": "Likes tea", "scope": 3}, "'scope' is 3"),
        ({"text": "Likes tea", "scope": {"user_id": "*"}}, "must not be blank or hold"),
        ({"text": "Likes tea", "scope": {}, "event_time": "soon"}, "'soon', is no time"),
        ({"text": "Likes tea", "scope": {}, "topics": [1]}, "topics is a list of texts"),
        ({"text": "Likes tea", "scope": {}, "metadata": "x"}, "no JSON object"),
        ({"text": "Likes tea", "scope": {}, "external_id": {}}, "external_id is a text"),
    ],
)
def test_what_cannot_be_read_says_why(record: Any, why: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        _read(record)
    assert why in str(caught.value)


def test_a_record_of_nobody_names_the_fields_that_could_tell() -> None:
    with pytest.raises(UnreadableError, match=r"agent_id.*user_id"):
        _read({"id": "a", "memory": "Likes tea"}, "mem0")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"is_current": False}, "superseded"),
        ({"is_current": True, "deleted": True}, "deleted"),
        ({"status": "invalid"}, "invalid"),
    ],
)
def test_what_is_not_live_where_it_comes_from_is_left_out(state: dict[str, Any], why: str) -> None:
    with pytest.raises(SkippedError, match=why):
        _read({"text": "Likes tea", "scope": {}, **state})


@pytest.mark.parametrize(
    ("said", "expires_at"),
    [
        ("2025-06-30", datetime(2025, 7, 1, tzinfo=UTC)),
        ("20250630", datetime(2025, 7, 1, tzinfo=UTC)),
        (" 2025-W27-1 ", datetime(2025, 7, 1, tzinfo=UTC)),
        (date(2025, 6, 30), datetime(2025, 7, 1, tzinfo=UTC)),
        ("2025-06-30T00:00:00", datetime(2025, 6, 30, tzinfo=UTC)),
        (datetime(2025, 6, 30, tzinfo=UTC), datetime(2025, 6, 30, tzinfo=UTC)),
        (1751241600, datetime(2025, 6, 30, tzinfo=UTC)),
        ("9999-12-31", datetime(9999, 12, 31, tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize("source", ["jsonl", "mem0"])
def test_what_expires_on_a_day_lasts_until_its_end(
    source: str, said: Any, expires_at: datetime
) -> None:
    name = "expiration_date" if source == "mem0" else "until"
    fields = {"text": "memory", "expires_at": name}
    record = {"memory": "Likes tea", "user_id": "u1", name: said, "created_at": "2025-06-30"}
    memory = _read(record, source, fields=fields, scope={"user_id": "user_id"})
    assert memory.values["expires_at"] == expires_at
    assert memory.values["created_at"] == datetime(2025, 6, 30, tzinfo=UTC)


def test_ids_of_mem0_are_of_one_store_and_others_only_where_it_is_named() -> None:
    assert make_mapping("mem0").store == "mem0"
    assert make_mapping("mem0", store="team").store == "team"
    assert make_mapping("jsonl").store is None
    with pytest.raises(InvalidArgumentError, match="must have a name, got ' '"):
        make_mapping("jsonl", store=" ")


def test_an_unknown_source_or_target_names_the_choices() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'csv'; choices.*mem0"):
        make_mapping("csv")
    with pytest.raises(InvalidArgumentError, match=r"'color'; choices.*topics"):
        make_mapping("jsonl", fields={"color": "c"})
    with pytest.raises(InvalidArgumentError, match="blank"):
        make_mapping("jsonl", scope={"user_id": "= "})
