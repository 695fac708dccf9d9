"""No key, header or query value of an endpoint gets into anything that a run writes or says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.endpoint import Endpoint, endpoint

_COMMAND = str(Path(sys.executable).with_name("memorypipe"))
_TIMEOUT_S = 600

KEY = "sk-key-4711-under-test"
HEADER = "header-4712-under-test"
QUERY = "query-4713-under-test"
LOGIN = "login-4714-under-test"
SECRETS = (KEY, HEADER, QUERY, LOGIN)


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with endpoint() as server:
        yield server


def _config(server: Endpoint, stages: Mapping[str, str]) -> str:
    """Endpoints of one server, that differ in where the key comes from."""
    addresses = [server.base_url, server.base_url.replace("http://", f"http://me:{LOGIN}@")]
    shared = (
        f"urls = {json.dumps(addresses)}\n"
        'model = "m"\n'
        f'headers = {{X-Team = "{HEADER}"}}\n'
        f'query = {{token = "{QUERY}"}}\n'
    )
    ways = {
        "file": 'key_file = "key"',
        "command": f'key_command = "{sys.executable} -c \'print(open(\\"key\\").read())\'"',
        "variable": 'key_env = "KEY_UNDER_TEST"',
    }
    entries = [f"[endpoints.{name}]\n{shared}{key}\n" for name, key in ways.items()]
    named = "".join(f'{stage} = "{name}"\n' for stage, name in stages.items())
    return "\n".join([*entries, "[stages]", named])


@pytest.mark.parametrize(
    "stages",
    [{"extract": "file", "decide": "command"}, {"extract": "variable", "decide": "variable"}],
)
def test_a_run_writes_and_says_no_secret(
    server: Endpoint, stages: Mapping[str, str], tmp_path: Path
) -> None:
    server.script(calls=[], count=0)
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "memorypipe.toml").write_text(_config(server, stages))
    message = {"role": "user", "content": "I love green tea.", "timestamp": "2024-03-01T10:00:00Z"}
    line = {"user_id": "u1", "conversation_id": "c1", "messages": [message]}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    done = subprocess.run(  # noqa: S603  # our own command
        [_COMMAND, "backfill", "log.jsonl", "--table", "made", "--json"],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "KEY_UNDER_TEST": KEY, "MEMORYPIPE_DEBUG": "1"},
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    calls = server.calls()
    assert len(calls) >= 2
    for call in calls:
        assert call["headers"]["x-team"] == HEADER
        assert QUERY in call["path"]
    assert f"Bearer {KEY}" in {call["headers"]["authorization"] for call in calls}
    written = [path for path in (tmp_path / "made").rglob("*") if path.is_file()]
    assert any(path.suffix == ".jsonl" for path in written), "the journal is there"
    told = {"stdout": done.stdout.encode(), "stderr": done.stderr.encode()}
    told |= {str(path): path.read_bytes() for path in written}
    assert [
        (where, secret)
        for where, text in told.items()
        for secret in SECRETS
        if secret.encode() in text
    ] == []
