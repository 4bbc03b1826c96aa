"""One running worker and the requests sent to it: one request, one reply. The verifier's side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Protocol

from grader.sandbox import whereabouts
from grader.sandbox.confine import probe
from grader.sandbox.launcher import Launcher, LaunchError, Process
from grader.sandbox.protocol import Packed, PeerClosedError, ProtocolError
from grader.sandbox.replies import Raised, Reply, parse
from grader.scorecard import Isolation

PRINTED_SHOWN_BYTES: Final = 2000
READY_TIMEOUT_S: Final = 120.0  # imports torch and makes a CUDA context, maybe from a cold disk

Backend = Literal["sim", "cuda", "compile_only"]


class Connection(Protocol):
    """What runs student code and answers requests: a worker process, or this one (``direct``)."""

    @property
    def is_limited(self) -> bool:
        """Whether time limits hold."""

    def ask(
        self, op: str, header: Mapping[str, Any], tensors: Sequence[Packed], timeout_s: float
    ) -> tuple[Reply, dict[str, Packed]]:
        """One request, one reply. Raises as ``Line.ask``."""

    def printed(self) -> str:
        """What was printed since the last time, its beginning."""

    def isolation(self) -> Isolation | None:
        """What confines it."""

    def whereabouts(self, folder: Path) -> whereabouts.Place | None:
        """The line of the submission in ``folder`` that it is at; ask only what is to be ended."""

    def end(self, grace_s: float) -> tuple[str, str]:
        """End it within this time; how it ended, and what it printed."""


Connect = Callable[[Backend], Connection]
"""Starts what runs student code; raises ``LaunchError``."""


@dataclass
class Line:
    """One running worker and the requests sent to it."""

    is_limited: ClassVar[bool] = True

    process: Process
    seq: itertools.count[int] = field(default_factory=itertools.count)

    def ask(
        self, op: str, header: Mapping[str, Any], tensors: Sequence[Packed], timeout_s: float
    ) -> tuple[Reply, dict[str, Packed]]:
        """One request, one reply.

        Raises:
            ProtocolError: If the reply is not one.
            PeerClosedError: If the worker ended.
            TimeoutError: If it did not answer in time.
        """
        seq = next(self.seq)
        channel = self.process.channel
        channel.send({**header, "op": op, "seq": seq}, tensors, timeout_s)
        message = channel.receive(timeout_s)
        try:
            reply = parse(message.header, op)
        except ValueError as error:
            raise ProtocolError(f"the worker's answer to {op!r} is not one: {error}") from error
        if reply.seq != seq:
            raise ProtocolError(f"the worker answered request {reply.seq}, not {seq}")
        return reply, message.tensors

    def printed(self) -> str:
        """What the worker printed since the last time, its beginning."""
        return self.process.output.take(PRINTED_SHOWN_BYTES)

    def isolation(self) -> Isolation | None:
        """What confines the worker, probed from outside."""
        return probe(self.process.pid)

    def whereabouts(self, folder: Path) -> whereabouts.Place | None:
        """The line of the submission that the worker is at, if it tells."""
        return whereabouts.ask(self.process.pid, self.process.scratch, folder)

    def end(self, grace_s: float) -> tuple[str, str]:
        """End the worker, killing it after this time; how it ended, and what it printed."""
        ended = self.process.stop(grace_s)
        return ended, self.printed()


def workers(launcher: Launcher) -> Connect:
    """Connections to worker processes that answer."""
    return lambda backend: ready(launcher.start(backend), backend)


def ready(process: Process, backend: Backend) -> Line:
    """The line to a worker that answers. One that does not has not seen the submission yet."""
    line = Line(process)
    try:
        reply, _ = line.ask("ready", {"backend": backend}, (), READY_TIMEOUT_S)
        why = f"{reply.type}: {reply.message}" if isinstance(reply, Raised) else ""
    except (ProtocolError, PeerClosedError, TimeoutError) as error:
        why = f"{type(error).__name__} {error}"
    except BaseException:  # interrupted: nobody else knows of this process yet
        process.stop(grace_s=0.0)
        raise
    if why:
        ended = process.stop(grace_s=1.0)
        printed = process.output.take(PRINTED_SHOWN_BYTES)
        raise LaunchError(f"a worker process did not start: {why}, {ended}\n{printed}")
    return line
