"""Starts, watches and ends worker processes. The verifier's side; never imports student code."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from grader.sandbox.confine import scrubbed_environment
from grader.sandbox.protocol import Channel, open_exchange

ROOT = Path(__file__).resolve().parent.parent.parent
OUTPUT_KEPT_BYTES: Final = 32 * 1024
ZYGOTE_START_S: Final = 120.0
ZYGOTE_ANSWER_S: Final = 30.0  # a fork takes 15 ms; a student can stop the zygote with a signal
STOP_S: Final = 5.0
CATCH_UP_S: Final = 0.2

# -I: nothing of the environment or the working directory gets onto the path but what is passed here;
# -u: what is printed before a crash is not lost
_BOOTSTRAP = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]);"
    "from grader.sandbox.worker import main; main(sys.argv[2:])"
)


class LaunchError(Exception):
    """A worker could not be started: a fault of the grader or the machine, not of a student."""


class OutputDrain:
    """Takes all a worker prints, keeps its beginning, and never lets the worker wait."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_inheritable(self.write_fd, True)
        self._kept = bytearray()
        self._n_bytes = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, daemon=True)

    def start(self) -> None:
        """Begin; the verifier's copy of the writing end is closed."""
        os.close(self.write_fd)
        self._thread.start()

    def discard(self) -> None:
        """Close both ends; for a worker that did not come about."""
        os.close(self.read_fd)
        os.close(self.write_fd)

    def finish(self) -> None:
        """Take what is left once the worker is gone."""
        self._thread.join(STOP_S)

    def take(self, limit: int = OUTPUT_KEPT_BYTES) -> str:
        """What was printed since the last time, its first ``limit`` bytes, with a note if cut."""
        self._catch_up()
        with self._lock:
            kept, n_bytes = bytes(self._kept[:limit]), self._n_bytes
            self._kept.clear()
            self._n_bytes = 0
        text = kept.decode(errors="replace").rstrip()
        return text if n_bytes <= limit else f"{text}\n[cut: the first {limit} of {n_bytes} bytes]"

    def _catch_up(self) -> None:
        """Wait for what lies in the pipe already; not for a worker that goes on printing."""
        deadline = time.monotonic() + CATCH_UP_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            waiting = array.array("i", [0])
            try:
                fcntl.ioctl(self.read_fd, termios.FIONREAD, waiting)
            except OSError:  # closed: everything is taken
                return
            if not waiting[0]:
                return
            time.sleep(0.001)

    def _drain(self) -> None:
        with os.fdopen(self.read_fd, "rb", buffering=0) as pipe:
            while data := pipe.read(1 << 20):
                with self._lock:
                    self._n_bytes += len(data)
                    self._kept += data[: OUTPUT_KEPT_BYTES - len(self._kept)]


@dataclass
class Process:
    """One running worker.

    Attributes:
        poll: The wait status once it has ended, None before.
    """

    pid: int
    channel: Channel
    output: OutputDrain
    scratch: Path
    poll: Callable[[], int | None]

    def stop(self, grace_s: float = STOP_S) -> str:
        """End it and all of its process group; how it ended, such as "exit 0", "signal 9".

        Args:
            grace_s: Time to end by itself at the end of the line, in seconds; 0 kills at once.
        """
        with contextlib.suppress(OSError):
            self.channel.sock.shutdown(socket.SHUT_RDWR)
        status = self._await(grace_s) if grace_s else None
        # the group exists from the worker's setsid on, the process before
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
        if status is None:
            status = self._await(STOP_S)
        self.output.finish()
        self.channel.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        return "still running after SIGKILL" if status is None else _describe(status)

    def _await(self, limit_s: float) -> int | None:
        deadline = time.monotonic() + limit_s
        while (status := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.002)
        return status


def _describe(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"signal {number} ({signal.Signals(number).name})"
        except ValueError:
            return f"signal {number}"
    return f"exit {os.WEXITSTATUS(status)}"


@dataclass(frozen=True)
class Zygote:
    """The process that forks workers. A student's signal can end or stop it, so it is replaceable."""

    process: subprocess.Popen[bytes]
    control: socket.socket

    def ask(self, command: Mapping[str, object], descriptors: Sequence[int] = ()) -> int | None:
        """One command, one answer.

        Raises:
            LaunchError: If it is gone or silent; then it is ended, and its workers with it.
        """
        try:
            socket.send_fds(self.control, [json.dumps(command).encode()], descriptors)
            data = self.control.recv(4096)
        except OSError:
            data = b""
        if not data:
            self.end(0)
            raise LaunchError("the process that forks workers is gone")
        answer: int | None = json.loads(data)
        return answer

    def end(self, grace_s: float) -> None:
        """Let it end by itself at the end of the line, or kill it; its workers die with it."""
        self.control.close()
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Launcher:
    """Starts workers: CPU ones forked from a zygote where that is possible, CUDA ones afresh.

    Every worker's scratch folder lies in one of the launcher's, so that ``close`` leaves nothing,
    whatever was interrupted.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kernelgrade-"))
        self._zygote: Zygote | None = None
        self._cannot_start = ""

    def start(self, backend: str, *, role: str = "student") -> Process:
        """Start a worker.

        Args:
            backend: "sim", "cuda" or "compile_only".
            role: "student" runs a submission; "baseline" may load problem.py and never sees one.

        Raises:
            LaunchError: If no process can be started.
        """
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        ours, theirs = socket.socketpair()
        channel, output = Channel(ours, open_exchange()), OutputDrain()
        try:
            if backend != "cuda" and role == "student" and sys.platform == "linux":
                pid, poll = self._fork(theirs, channel.exchange_fd, output.write_fd, scratch)
            else:
                pid, poll = _spawn(
                    theirs, channel.exchange_fd, output.write_fd, scratch, backend, role
                )
        except BaseException as error:
            channel.close()
            output.discard()
            shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, (OSError, ValueError, LaunchError)):
                raise LaunchError(f"no worker process could be started: {error}") from error
            raise
        finally:
            theirs.close()
        output.start()
        return Process(pid, channel, output, scratch, poll)

    def close(self) -> None:
        """End the zygote, and its workers with it; remove what they wrote."""
        if self._zygote is not None:
            self._zygote.end(STOP_S)
            self._zygote = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fork(
        self, line: socket.socket, exchange_fd: int, output_fd: int, scratch: Path
    ) -> tuple[int, Callable[[], int | None]]:
        command = {"op": "fork", "scratch": str(scratch)}
        descriptors = [line.fileno(), exchange_fd, output_fd]
        try:
            zygote = self._running_zygote()
            pid = zygote.ask(command, descriptors)
        except LaunchError:
            # an earlier worker may have taken the zygote down: that must not cost this one
            self._zygote = None
            zygote = self._running_zygote()
            pid = zygote.ask(command, descriptors)
        if pid is None:
            raise LaunchError("the process that forks workers could not fork")

        def poll() -> int | None:
            try:
                return zygote.ask({"op": "reap", "pid": pid})
            except LaunchError:  # the zygote is gone, and its workers died with it
                return signal.SIGKILL

        return pid, poll

    def _running_zygote(self) -> Zygote:
        """The zygote. One that cannot start is not tried again for every test."""
        if self._cannot_start:
            raise LaunchError(self._cannot_start)
        if self._zygote is None:
            try:
                self._zygote = _start_zygote()
            except LaunchError as error:
                self._cannot_start = str(error)
                raise
        return self._zygote


def _start_zygote() -> Zygote:
    ours, theirs = socket.socketpair()
    # its own scratch is never used: each worker gets another
    with tempfile.TemporaryFile() as said:
        process = _python(
            ["zygote", str(theirs.fileno())],
            [theirs.fileno()],
            Path(tempfile.gettempdir()),
            stderr=said.fileno(),
        )
        theirs.close()
        zygote = Zygote(process, ours)
        try:
            ours.settimeout(ZYGOTE_START_S)
            ready = ours.recv(64)
        except OSError:
            ready = b""
        except BaseException:
            zygote.end(0)
            raise
        if ready != b"ready":
            zygote.end(0)
            said.seek(0)
            why = said.read().decode(errors="replace")[-2000:]
            raise LaunchError(f"the process that forks workers did not start\n{why}")
    ours.settimeout(ZYGOTE_ANSWER_S)
    return zygote


def _spawn(
    line: socket.socket, exchange_fd: int, output_fd: int, scratch: Path, backend: str, role: str
) -> tuple[int, Callable[[], int | None]]:
    numbers = [line.fileno(), exchange_fd, output_fd]
    arguments = ["fresh", *map(str, numbers), str(scratch), backend, role]
    process = _python(arguments, numbers, scratch)

    def poll() -> int | None:
        code = process.poll()
        if code is None:
            return None
        return -code if code < 0 else code << 8

    return process.pid, poll


def _python(
    arguments: list[str], descriptors: list[int], scratch: Path, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    path = [str(ROOT), *(entry for entry in sys.path if entry and entry != str(ROOT))]
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-u", "-c", _BOOTSTRAP, json.dumps(path), *arguments],
        env=scrubbed_environment(os.environ, scratch),
        pass_fds=descriptors,
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        # a Ctrl-C in the terminal is the verifier's to answer
        start_new_session=True,
    )
