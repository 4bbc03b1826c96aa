"""Student code in this very process, so that ``breakpoint()`` works in it: for debugging, never for marks.

It answers the same requests as a worker process. Nothing is confined and nothing ends it: no time
limit holds, and a crash takes this process with it.
"""

from __future__ import annotations

import bdb
import itertools
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import torch

from grader.sandbox.line import Backend, Connect, Connection
from grader.sandbox.protocol import Message, Packed
from grader.sandbox.replies import Reply, parse
from grader.sandbox.whereabouts import Place
from grader.sandbox.worker import Worker, reply_to
from grader.scorecard import Isolation
from grader.simulator import single_program

# the user wants to leave: no end of student code
_LEAVING: Final = (KeyboardInterrupt, bdb.BdbQuit, pytest.exit.Exception)


class Direct:
    """A worker without a process of its own."""

    is_limited = False

    def __init__(self, program: single_program.Program | None) -> None:
        self._worker = Worker("student")
        self._program = program
        self._seq = itertools.count()

    def ask(
        self, op: str, header: Mapping[str, Any], tensors: Sequence[Packed], timeout_s: float
    ) -> tuple[Reply, dict[str, Packed]]:
        """One request, one reply, as a worker process gives it; ``timeout_s`` does not hold."""
        request = _through_json({**header, "op": op, "seq": next(self._seq)})
        message = Message(request, {packed.header.name: packed for packed in tensors})
        # pytest makes errors of warnings, and gradcheck asks from within autograd; a worker has neither
        with (
            warnings.catch_warnings(),
            torch.enable_grad(),
            single_program.only(self._program),
        ):
            warnings.simplefilter("default")
            answer = reply_to(self._worker, message, let_through=_LEAVING)
            is_single = single_program.n_launches() > 0
        if is_single:
            # pytest shows it with a test that fails, as it now may
            told = f"SIM_PROGRAM: only program {self._program} ran; what others write is missing"
            print(told, file=sys.stderr)
        reply = parse(_through_json(answer.header), op)
        return reply, {packed.header.name: packed for packed in answer.tensors}

    def printed(self) -> str:
        """Nothing: what student code prints goes where pytest sends it."""
        return ""

    def isolation(self) -> Isolation | None:
        """None: nothing isolates."""
        return None

    def whereabouts(self, folder: Path) -> Place | None:
        """None: while it can be asked, no student code runs."""
        return None

    def end(self, grace_s: float) -> tuple[str, str]:
        """Nothing to end."""
        return "", ""


def _through_json(header: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(header, allow_nan=False))
    return read


def connect(otherwise: Connect) -> Connect:
    """Run what runs student code here; leave to ``otherwise`` what needs a process.

    Raises:
        ValueError: If the variable SIM_PROGRAM names no program.
    """
    program = single_program.asked_for()

    def connected(backend: Backend) -> Connection:
        return Direct(program) if backend in {"sim", "cuda"} else otherwise(backend)

    return connected
