"""The local model end to end: a real llama.cpp server and a real small model."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from memorypipe.errors import InvalidArgumentError, ModelError
from memorypipe.llm.local import LocalServer, packaged_model

pytest.importorskip("xllamacpp", reason="needs the extra `local`")

pytestmark = pytest.mark.local_model

_SCHEMA = {
    "type": "object",
    "properties": {
        "memories": {
            "type": "array",
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["memories"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def server(cache: Path) -> Iterator[LocalServer]:
    with LocalServer(cache_dir=cache, context_tokens=1024, parallel=1) as running:
        yield running


def _call(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def _accepts(base_url: str) -> bool:
    address = urlsplit(base_url)
    with socket.socket() as probe:
        return probe.connect_ex((str(address.hostname), int(address.port or 0))) == 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended; who collects it is no concern of ours.
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_server_lists_its_model_on_loopback(server: LocalServer) -> None:
    assert server.base_url.startswith("http://127.0.0.1:")
    assert [model["id"] for model in _call(f"{server.base_url}/models")["data"]] == [server.model]


def test_a_schema_makes_the_reply_valid_json(server: LocalServer) -> None:
    reply = _call(
        f"{server.base_url}/chat/completions",
        {
            "model": server.model,
            "messages": [
                {"role": "user", "content": "[user]: I work as a baker in Lyon."},
                {"role": "assistant", "content": '{"memories":[{"text":"Works as a baker"}]}'},
                {"role": "user", "content": "[user]: I bought a digital piano."},
            ],
            "temperature": 0,
            "seed": 7,
            "max_tokens": 200,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": _SCHEMA, "strict": True},
            },
        },
    )
    memories = json.loads(reply["choices"][0]["message"]["content"])["memories"]
    assert all(isinstance(memory["text"], str) for memory in memories)
    assert reply["usage"]["completion_tokens"] > 0


def test_the_packaged_model_is_assembled_once(server: LocalServer, cache: Path) -> None:
    del server  # it assembled the file
    [file] = cache.iterdir()
    before = file.stat().st_mtime_ns
    assert packaged_model(cache) == file
    assert file.stat().st_mtime_ns == before


def test_a_damaged_copy_is_replaced(server: LocalServer, cache: Path, tmp_path: Path) -> None:
    del server
    [whole] = cache.iterdir()
    damaged = tmp_path / whole.name
    damaged.write_bytes(b"GGUF, torn")
    assert packaged_model(tmp_path).stat().st_size == whole.stat().st_size
    assert list(tmp_path.iterdir()) == [damaged]


def test_stop_closes_the_port_and_leaves_no_process(server: LocalServer, cache: Path) -> None:
    del server
    [file] = cache.iterdir()
    running = LocalServer(file, context_tokens=256, parallel=1)
    assert _accepts(running.base_url)
    running.stop()
    running.stop()
    assert not _accepts(running.base_url)
    assert not _is_alive(running.pid)


def test_a_file_that_llama_cpp_cannot_load_is_an_error_with_its_name(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(64))
    with pytest.raises(ModelError, match="could not serve 'broken'"):
        LocalServer(broken)


def test_too_short_a_deadline_is_an_error(cache: Path) -> None:
    with pytest.raises(ModelError, match="not ready within 0 s"):
        LocalServer(cache_dir=cache, start_timeout_s=0.0)


_PARENT = """
import sys, time
from memorypipe.llm.local import LocalServer
server = LocalServer(sys.argv[1], context_tokens=256, parallel=1)
print(server.pid, server.base_url, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits on a process descriptor")
def test_the_server_dies_with_a_killed_parent(server: LocalServer, cache: Path) -> None:
    del server
    [file] = cache.iterdir()
    parent = subprocess.Popen(  # noqa: S603  # our own script under this interpreter
        [sys.executable, "-c", _PARENT, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid, base_url = parent.stdout.readline().split()
        descriptor = os.pidfd_open(int(pid))
        assert _accepts(base_url)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    ended, _, _ = select.select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ended
    assert not _accepts(base_url)


def test_no_model_file_starts_no_server(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="no model file"):
        LocalServer(tmp_path / "absent.gguf")
