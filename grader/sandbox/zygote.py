"""Forks workers that have torch, NumPy and the simulator loaded already.

Importing torch costs about 1.7 s a process and a fork 15 ms. Fork is only safe from a process with
one thread, which is checked before each one. Never imports student code itself; CUDA is never
touched here.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from grader.sandbox import whereabouts
from grader.sandbox.confine import adopt_orphans, scrubbed_environment

_MAX_COMMAND_BYTES = 64 * 1024
_MAX_GENERATIONS = 100
_CHILDREN = Path("/proc/thread-self/children")


def serve(control: socket.socket, run_worker: Callable[[socket.socket, int], None]) -> None:
    """Answer commands until the verifier's end closes.

    ``{"op": "fork", "scratch": dir}`` with three descriptors (line, exchange, output) gives the pid
    or null; ``{"op": "reap", "pid": n}`` gives its wait status, or null while it runs. What a worker
    leaves running, wherever it went, becomes a child of this process and is killed with the worker.
    """
    adopt_orphans()
    workers: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MAX_COMMAND_BYTES, 3)
        if not data:
            _end_children(but=set())
            return
        command = json.loads(data)
        answer: int | None = None
        if command["op"] == "fork":
            answer = _fork(control, command, descriptors, run_worker)
            workers |= {answer} if answer else set()
        else:
            pid, status = os.waitpid(command["pid"], os.WNOHANG)
            if pid:
                answer = status
                workers.discard(pid)
                _end_children(but=workers)
        control.sendall(json.dumps(answer).encode())


def _end_children(but: set[int]) -> None:
    """Kill the children of this process; the children they leave are ours next."""
    for _ in range(_MAX_GENERATIONS):
        children = {int(pid) for pid in _CHILDREN.read_text().split()} if _CHILDREN.exists() else ()
        orphans = set(children) - but
        if not orphans:
            return
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            os.waitpid(pid, 0)


def _fork(
    control: socket.socket,
    command: dict[str, str],
    descriptors: list[int],
    run_worker: Callable[[socket.socket, int], None],
) -> int | None:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"the zygote has {threads} threads, a fork would not be safe")
    line, exchange, output = descriptors
    try:
        pid = os.fork()
    except OSError:  # no memory or no process left
        return None
    if pid == 0:
        control.close()
        os.setsid()
        enter(Path(command["scratch"]), output)
        try:
            run_worker(socket.socket(fileno=line), exchange)
        except BaseException as error:  # noqa: BLE001  the child must not go on as a second zygote
            what = "the process cannot answer: its modules were changed or its descriptors closed"
            print(f"{what} ({type(error).__name__}: {error})")
            os._exit(1)
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def enter(scratch: Path, output: int) -> None:
    """Make this process a worker's: empty stdin, output to the verifier's pipe, ready to be asked."""
    os.chdir(scratch)
    os.environ.update(scrubbed_environment({}, scratch))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(nothing)
    os.close(output)
    whereabouts.answer(scratch)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  lives as long as the process
