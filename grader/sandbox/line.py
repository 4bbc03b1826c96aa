"""One running worker and the requests sent to it: one request, one reply. The verifier's side."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from grader.sandbox.launcher import LaunchError, Process
from grader.sandbox.protocol import Packed, PeerClosedError, ProtocolError
from grader.sandbox.replies import Raised, Reply, parse

PRINTED_SHOWN_BYTES: Final = 2000
READY_TIMEOUT_S: Final = 120.0  # imports torch and makes a CUDA context, maybe from a cold disk

Backend = Literal["sim", "cuda"]


@dataclass
class Line:
    """One running worker and the requests sent to it."""

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
