"""Forks workers that have torch, NumPy and the simulator loaded already.

Importing torch costs about 1.7 s a process and a fork 15 ms. Fork is only safe from a process with
one thread, which is checked before each one. Never imports student code itself; CUDA is never
touched here.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from grader.sandbox.confine import scrubbed_environment

_MAX_COMMAND_BYTES = 64 * 1024


def serve(control: socket.socket, run_worker: Callable[[socket.socket, int], None]) -> None:
    """Answer commands until the verifier's end closes.

    ``{"op": "fork", "scratch": dir}`` with three descriptors (line, exchange, output) gives
    ``{"pid": n}``; ``{"op": "reap", "pid": n}`` waits for its end and gives ``{"status": n}``.
    """
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MAX_COMMAND_BYTES, 3)
        if not data:
            return
        command = json.loads(data)
        if command["op"] == "fork":
            answer = _fork(control, command, descriptors, run_worker)
        else:
            pid, status = os.waitpid(command["pid"], os.WNOHANG)
            answer = {"status": status if pid else None}
        control.sendall(json.dumps(answer).encode())


def _fork(
    control: socket.socket,
    command: dict[str, str],
    descriptors: list[int],
    run_worker: Callable[[socket.socket, int], None],
) -> dict[str, int | None]:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads, a fork would not be safe")
    line, exchange, output = descriptors
    pid = os.fork()
    if pid == 0:
        control.close()
        enter(Path(command["scratch"]), output)
        try:
            run_worker(socket.socket(fileno=line), exchange)
        finally:
            os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    return {"pid": pid}


def enter(scratch: Path, output: int) -> None:
    """Make this process a worker's: own session, empty stdin, output to the verifier's pipe."""
    os.setsid()
    os.chdir(scratch)
    os.environ.update(scrubbed_environment({}, scratch))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  lives as long as the process
