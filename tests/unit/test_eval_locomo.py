"""LoCoMo's observations against what was extracted; the sample here is our own."""

import json
from pathlib import Path

from benchmarks.eval.locomo import content_words, overlap, read_sessions, score_sessions

SAMPLE = {
    "sample_id": "s1",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ida", "dia_id": "D1:1", "text": "I paint boats."}],
        "session_2": [{"speaker": "Max", "dia_id": "D2:1", "text": "I sold my old tractor."}],
        "session_3": [{"speaker": "Max", "dia_id": "D3:1", "text": "Hello."}],
    },
    "observation": {
        "session_1_observation": {"Ida": [["Ida paints boats at the harbour.", "D1:1"]]},
        "session_2_observation": {"Max": [["Max sold a tractor.", "D2:1"]]},
    },
}


def _sessions(folder: Path) -> Path:
    path = folder / "file.json"
    path.write_text(json.dumps([SAMPLE]), "utf-8")
    return path


def test_sessions_with_observations_are_read_with_names_and_times(tmp_path: Path) -> None:
    first, second = read_sessions(_sessions(tmp_path))
    assert (first.name, second.observations) == ("s1/session_1", ("Max sold a tractor.",))
    [turn] = first.task.turns
    assert (turn.name, turn.content) == ("Ida", "I paint boats.")
    assert turn.timestamp is not None
    assert turn.timestamp.isoformat() == "2023-05-08T13:56:00+00:00"
    assert len(read_sessions(_sessions(tmp_path), limit=1)) == 1


def test_words_are_compared_by_their_stems_without_small_words() -> None:
    assert content_words("She was painting a boat") == content_words("painted the boats")


def test_the_overlap_is_that_of_the_best_single_fact() -> None:
    facts = [content_words("Ida paints"), content_words("Max likes the harbour")]
    assert overlap("Ida paints boats at the harbour", facts) == 0.5


def test_half_of_the_words_count_as_found_and_chance_is_told_beside_it(tmp_path: Path) -> None:
    sessions = read_sessions(_sessions(tmp_path))
    numbers = score_sessions(sessions, [["Ida paints"], None])
    assert numbers == {
        "sessions": 2,
        "observations": 2,
        "facts": 1,
        "recall": 0.5,
        "overlap": 0.25,
        "by_chance": 0.0,
        "failed": 1,
    }
