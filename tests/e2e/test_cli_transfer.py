"""Another store is taken over by the installed command, and the import is proved."""

import json
import os
import subprocess
import sys
from pathlib import Path

_COMMAND = str(Path(sys.executable).with_name("memorypipe"))

_RECORDS = [
    {"id": "a1", "memory": "Likes tea", "user_id": "alice", "created_at": "2024-07-20T01:30:36Z"},
    {"id": "a2", "memory": "Has a dog", "user_id": "alice", "metadata": {"sure": True}},
]


def _run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own command
        [_COMMAND, *words],
        check=False,
        capture_output=True,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "MEMORYPIPE_TABLE"},
        text=True,
        timeout=300,
    )


def test_a_store_is_taken_over_and_what_came_later_is_missing(tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"results": _RECORDS}))
    done = _run("import", "export.json", "--from", "mem0", "--yes", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("done  import_")
    assert "memorypipe verify --against export.json --from mem0" in done.stdout
    later = {"id": "a3", "memory": "Plays chess", "user_id": "alice"}
    export.write_text(json.dumps({"results": [*_RECORDS, later]}))
    proof = _run("verify", "--against", "export.json", "--from", "mem0", "--json", folder=tmp_path)
    assert proof.returncode == 5
    value = json.loads(proof.stdout)
    assert (value["found"], value["missing"], value["absent"][0]["id"]) == (2, 1, "a3")
