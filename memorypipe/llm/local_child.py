"""The process that serves a local model: settings come in by its pipe, the address goes out.

Run as ``python -m memorypipe.llm.local_child``. It reads one JSON line with the settings, writes
one with the address, and ends when its input does or its parent is gone.
"""

import json
import os
import sys
import threading
from typing import Any

__all__ = ["main"]

_PARENT_CHECK_S = 1.0


def _quiet_output() -> int:
    """Keep the pipe for the address alone: llama.cpp writes to standard output, too."""
    address_out = os.dup(1)
    os.dup2(2, 1)
    return address_out


def _serve(settings: dict[str, Any]) -> Any:
    import xllamacpp  # noqa: PLC0415  # an extra, and only this process may load it

    params = xllamacpp.CommonParams()
    params.model.path = settings["model_path"]
    params.model_alias = {settings["model"]}
    params.n_ctx = settings["context_tokens"]
    params.n_parallel = settings["parallel"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any free one
    params.verbosity = 0  # errors only
    params.ui = False
    return xllamacpp.Server(params)


def _end_with(parent_pid: int) -> None:
    """End this process at once when the parent is another: a fork may hold the pipe open."""
    tick = threading.Event()
    while not tick.wait(_PARENT_CHECK_S):
        if os.getppid() != parent_pid:
            os._exit(0)


def main() -> None:
    """Serve until the input ends."""
    address_out = _quiet_output()
    settings = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with, args=(settings["parent_pid"],), daemon=True).start()
    # Already while the model loads: loading may take minutes.
    threading.Thread(target=_end_with_input, daemon=True).start()
    server = _serve(settings)
    os.write(address_out, json.dumps({"address": server.listening_address}).encode() + b"\n")
    os.close(address_out)
    threading.Event().wait()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    # Not `sys.exit`: llama.cpp's threads would be joined, and may be in a long computation.
    os._exit(0)


if __name__ == "__main__":
    main()
