"""What the journal commands print."""

import json
from pathlib import Path

import pytest

from memorypipe.cli.main import main
from memorypipe.llm.types import Reply
from tests.support.journals import KEYS, REPLY, fill, local, put


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_show_tells_what_lies_in_a_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0])
    put(journal, KEYS[1], Reply(content="x"))
    put(journal, KEYS[2], usable=False)
    journal.close()
    assert main(["journal", "show", str(tmp_path)]) == 0
    text = shown(capsys)
    assert "2 replies (and 1 that could not be used) 1 segment," in text
    assert "1 m-1 1 (model not told)" in text
    assert main(["journal", "show", tmp_path.as_uri(), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["usable"], value["unusable"], value["unreadable"]) == (2, 1, 0)
    assert value["models"] == {"m-1": 1, "null": 1}
    assert value["oldest"] == value["newest"] is not None
    assert value["size_bytes"] == next(tmp_path.glob("*.jsonl")).stat().st_size


def test_without_an_address_it_is_the_journal_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "journal", [KEYS[0]], REPLY)
    assert main(["journal", "show", "--table", str(tmp_path)]) == 0
    assert "1 reply 1 segment," in shown(capsys)
    assert main(["journal", "compact", "--table", str(tmp_path)]) == 0
    capsys.readouterr()
    assert main(["journal", "show", str(tmp_path)]) == 1
    assert "is no journal; that of a table is" in capsys.readouterr().err
    (tmp_path / "table" / "runs").mkdir(parents=True)
    assert main(["journal", "show", str(tmp_path / "table")]) == 1


def test_compact_shows_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for key in (KEYS[0], KEYS[0], KEYS[1]):
        fill(tmp_path, [key], REPLY)
    assert main(["journal", "compact", str(tmp_path)]) == 0
    text = shown(capsys)
    assert "3 segments became 1" in text
    assert "replies 3 → 2" in text
    fill(tmp_path, [KEYS[2]], REPLY)
    assert main(["journal", "compact", str(tmp_path), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["merged"], value["before"]["segments"], value["after"]["segments"]) == (2, 2, 1)
    assert value["after"]["usable"] == 3


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("nowhere", 1, "no journal"),
        ("ftp://host/x", 2, "s3://"),
        ("s3://me:secret@bucket/x", 2, "without user"),
    ],
)
def test_an_address_that_cannot_work_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], uri: str, code: int, words: str
) -> None:
    assert main(["journal", "show", uri]) == code
    err = capsys.readouterr().err
    assert words in err
    assert "secret" not in err
