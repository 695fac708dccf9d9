import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.journal import Journal, journal_key
from memorypipe.llm.types import Reply

KEYS = [f"{number:032x}" for number in range(1, 9)]
REPLY = Reply(
    content='{"memories": [{"text": "Grüße 🎹\\n"}]}',
    finish_reason="stop",
    prompt_tokens=12,
    completion_tokens=5,
    latency_ms=20.5,
    model="m-1",
)
MESSAGES = [{"role": "user", "content": "hi"}]


def _fill(folder: Path, keys: list[str]) -> Path:
    journal = Journal.open(str(folder), writer_id="w")
    for key in keys:
        journal.put(key, REPLY, usable=True)
    journal.close()
    return next(folder.glob("*.jsonl"))


def test_a_reply_comes_back_with_every_field(tmp_path: Path) -> None:
    journal = Journal.open(str(tmp_path / "deep" / "journal"))
    cut = Reply(content=None, finish_reason="length", refusal="No.", model=None)
    journal.put(KEYS[0], REPLY, usable=True, scope_key='[["user_id","u1"]]')
    journal.put(KEYS[1], cut, usable=True)
    for handle in (journal, Journal.open(str(tmp_path / "deep" / "journal"))):
        assert handle.get(KEYS[0]) == REPLY
        assert handle.get(KEYS[1]) == cut
        assert handle.get(KEYS[2]) is None
    journal.close()


def test_a_lone_surrogate_is_kept(tmp_path: Path) -> None:
    reply = Reply(content="half an emoji \ud83d")
    journal = Journal.open(str(tmp_path))
    journal.put(KEYS[0], reply, usable=True)
    journal.close()
    assert Journal.open(str(tmp_path)).get(KEYS[0]) == reply


def test_only_usable_replies_are_used_again(tmp_path: Path) -> None:
    journal = Journal.open(str(tmp_path))
    journal.put(KEYS[0], REPLY, usable=False)
    assert journal.get(KEYS[0]) is None
    journal.close()
    assert Journal.open(str(tmp_path)).get(KEYS[0]) is None
    assert KEYS[0] in next(tmp_path.glob("*.jsonl")).read_text()


def test_the_last_usable_reply_counts(tmp_path: Path) -> None:
    newer = Reply(content="newer")
    journal = Journal.open(str(tmp_path))
    journal.put(KEYS[0], REPLY, usable=True)
    journal.put(KEYS[0], newer, usable=True)
    journal.put(KEYS[0], Reply(content="bad"), usable=False)
    assert journal.get(KEYS[0]) == newer
    journal.close()
    assert Journal.open(str(tmp_path)).get(KEYS[0]) == newer


def test_a_cut_at_every_byte_of_the_last_record_loses_that_record_only(tmp_path: Path) -> None:
    segment = _fill(tmp_path / "whole", KEYS[:4])
    whole = segment.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(last, len(whole)):
        folder = tmp_path / f"cut{end}"
        folder.mkdir()
        (folder / "w.jsonl").write_bytes(whole[:end])
        journal = Journal.open(str(folder))
        assert [journal.get(key) is not None for key in KEYS[:4]] == [True, True, True, False]
        assert journal.stats.unreadable == (1 if end > last else 0)
        assert (folder / "w.jsonl").read_bytes() == whole[:end], "a reader cuts nothing"


def test_damage_in_the_middle_costs_the_damaged_lines_only(tmp_path: Path) -> None:
    segment = _fill(tmp_path, KEYS[:4])
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[0] = b"\x00" * (len(lines[0]) - 1) + b"\n"
    lines[1] = lines[1].replace(b'"reply":{', b'"reply":[')
    segment.write_bytes(b"".join(lines))
    journal = Journal.open(str(tmp_path))
    assert [journal.get(key) is not None for key in KEYS[:4]] == [False, False, True, True]


def test_a_line_longer_than_one_read_is_whole(tmp_path: Path) -> None:
    long = Reply(content="é" * 100_000)
    journal = Journal.open(str(tmp_path))
    journal.put(KEYS[0], long, usable=True)
    journal.put(KEYS[1], REPLY, usable=True)
    assert (journal.get(KEYS[0]), journal.get(KEYS[1])) == (long, REPLY)
    journal.close()


def test_writers_with_one_id_write_segments_of_their_own(tmp_path: Path) -> None:
    handles = [Journal.open(str(tmp_path), writer_id="a/b") for _ in range(3)]
    for handle, key in zip(handles, KEYS, strict=False):
        handle.put(key, REPLY, usable=True)
        handle.close()
    assert len(list(tmp_path.glob("*.jsonl"))) == 3
    reader = Journal.open(str(tmp_path))
    assert [reader.get(key) for key in KEYS[:3]] == [REPLY] * 3


def test_a_reader_makes_no_segment(tmp_path: Path) -> None:
    Journal.open(str(tmp_path)).close()
    assert list(tmp_path.iterdir()) == []


def test_a_segment_that_is_gone_is_a_miss(tmp_path: Path) -> None:
    _fill(tmp_path, KEYS[:1])
    journal = Journal.open(str(tmp_path))
    next(tmp_path.glob("*.jsonl")).unlink()
    assert journal.get(KEYS[0]) is None


def test_keys_that_share_their_first_half_are_told_apart(tmp_path: Path) -> None:
    twins = ["f" * 16 + f"{number:016x}" for number in range(3)]
    journal = Journal.open(str(tmp_path))
    for number, key in enumerate(twins[:2]):
        journal.put(key, Reply(content=str(number)), usable=True)
    journal.close()
    reader = Journal.open(str(tmp_path))
    found = [reader.get(key) for key in twins]
    assert [reply.content if reply else None for reply in found] == ["0", "1", None]


def test_after_a_write_that_failed_the_next_goes_to_a_new_segment(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    journal = Journal.open(str(tmp_path))
    journal.put(KEYS[0], REPLY, usable=True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size_bytes = next(tmp_path.glob("*.jsonl")).stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 30, limits[1]))
        with pytest.raises(OSError, match="journal took only part"):
            journal.put(KEYS[1], REPLY, usable=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    journal.put(KEYS[2], REPLY, usable=True)
    journal.close()
    reader = Journal.open(str(tmp_path))
    assert [reader.get(key) for key in KEYS[:3]] == [REPLY, None, REPLY]
    assert reader.stats.segments == 2


WRITER = """
import sys
from memorypipe.llm.journal import Journal
from memorypipe.llm.types import Reply
journal = Journal.open(sys.argv[1])
number = 0
while True:
    journal.put(f"{number:016x}" + "0" * 16, Reply(content="x" * 500), usable=True)
    number += 1
    if number % 200 == 0:
        print(number, flush=True)
"""


def test_a_writer_that_is_killed_loses_no_reply_that_it_had_put(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:  # noqa: S603  # ours
        assert writer.stdout is not None
        told = 0
        while told < 2_000:
            told = int(writer.stdout.readline())
        writer.kill()
    journal = Journal.open(str(tmp_path))
    assert journal.stats.loaded >= told
    assert all(journal.get(f"{number:016x}" + "0" * 16) for number in range(told))


def test_stats_count_what_happened(tmp_path: Path) -> None:
    _fill(tmp_path, KEYS[:3])
    journal = Journal.open(str(tmp_path))
    journal.get(KEYS[0])
    journal.get(KEYS[7])
    journal.put(KEYS[7], REPLY, usable=True)
    journal.close()
    stats = journal.stats
    assert (stats.segments, stats.loaded, stats.unreadable) == (1, 3, 0)
    assert (stats.hits, stats.misses, stats.written) == (1, 1, 1)


@pytest.mark.parametrize("address", ["s3://bucket/journal", "gs://b/j", "file://host/j"])
def test_other_places_than_local_folders_are_refused(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="local folder"):
        Journal.open(address)


def test_a_file_address_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    _fill(folder, KEYS[:1])
    assert Journal.open(folder.as_uri()).get(KEYS[0]) == REPLY


def _key(**changes: Any) -> str:
    arguments: dict[str, Any] = {
        "endpoint": "https://host/v1",
        "model": "m",
        "params": {"temperature": 0, "logit_bias": {50256: -100}},
        "messages": MESSAGES,
        "repeat_key": None,
    }
    return journal_key(**{**arguments, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoint": "https://other/v1"},
        {"model": "m2"},
        {"params": {"temperature": 1}},
        {"params": {"temperature": 0, "response_format": {"type": "json_object"}}},
        {"params": {"temperature": 0, "extra_body": {"top_k": 1}}},
        {"messages": [{"role": "system", "content": "hi"}]},
        {"messages": [*MESSAGES, *MESSAGES]},
        {"repeat_key": "1"},
    ],
)
def test_whatever_can_change_the_reply_changes_the_key(changes: dict[str, Any]) -> None:
    assert _key(**changes) != _key()


def test_what_cannot_change_the_reply_does_not_change_the_key() -> None:
    headers = {"Authorization": "Bearer s"}
    params = {"logit_bias": {50256: -100}, "temperature": 0, "timeout": object()}
    assert _key(params={**params, "extra_headers": headers}) == _key()


def test_the_key_is_the_same_in_every_process() -> None:
    assert journal_key("e", "m", {"seed": 1}, MESSAGES) == "c8369947d2d195884f3b8e40ff8a2ac6"
