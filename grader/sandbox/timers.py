"""Timed calls in worker processes: of the submission, and of the baselines.

The verifier's side; what the submission's process answers is a claim until it is verified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from grader import verify
from grader.measure.implementations import Impl
from grader.measure.pairs import WorkerFault
from grader.measure.roofline import Probe, probe_specs
from grader.measure.timed_calls import Called, Fetched, Prepared
from grader.sandbox.client import Student, StudentFaultError
from grader.sandbox.device_buffer import Buffers, DeviceBuffer
from grader.sandbox.launcher import Launcher
from grader.sandbox.line import PRINTED_SHOWN_BYTES, Backend, Line
from grader.sandbox.protocol import MESSAGE_LIMIT_BYTES, Packed, PeerClosedError, ProtocolError
from grader.sandbox.replies import CalledReply, DeviceTensor, PreparedReply, Raised, Reply
from grader.sandbox.replies import Fetched as FetchedReply
from grader.scorecard import Check, Verdict
from grader.spec import ITEMSIZE, BenchmarkCase, Dtype, Phase, Problem
from grader.verify import Context

FIRST_BUFFER_BYTES = 1 << 20
PREPARE_TIMEOUT_S = 300.0  # torch.compile and autotuning of one case
CALL_TIMEOUT_S = 60.0

Ask = Callable[[str, Mapping[str, Any], float], tuple[Reply, dict[str, Packed]]]
"""Operation, parameters and limit in seconds to the reply; raises ``WorkerFault``."""


@dataclass(frozen=True)
class WorkerTimer:
    """One benchmark case in one phase, in a worker.

    Attributes:
        buffers: Device memory for fetched contents; without it they travel through the CPU.
    """

    ask: Ask
    request: Mapping[str, Any]
    buffers: Buffers | None = None

    def prepare(self) -> Prepared:
        """Compile, tune and warm up."""
        reply, _ = self.ask("prepare", self.request, PREPARE_TIMEOUT_S)
        assert isinstance(reply, PreparedReply)
        return Prepared(reply.warmup_ms, reply.spin_us, reply.peak_bytes)

    def call(self, nonce: int) -> Called:
        """Time one call."""
        reply, _ = self.ask("call", {"nonce": nonce}, CALL_TIMEOUT_S)
        assert isinstance(reply, CalledReply)
        return Called(reply.event_ms, reply.checksum, reply.input_hash)

    def fetch(self) -> Fetched:
        """Outputs and gradients of the preceding call, copied out of the worker's reach."""
        n_bytes = FIRST_BUFFER_BYTES
        for _ in range(2):  # one growth is enough for an honest worker
            buffer = self.buffers.at_least(n_bytes) if self.buffers else None
            if buffer is None:
                break
            offer = {"handle": buffer.handle, "n_bytes": buffer.n_bytes}
            reply, packed = self.ask("fetch", offer, CALL_TIMEOUT_S)
            assert isinstance(reply, FetchedReply)
            if packed:  # the worker could not open the memory that was offered
                return _fetched({name: p.unpack() for name, p in packed.items()})
            if reply.needs_bytes <= buffer.n_bytes:
                return _fetched({t.name: _copy(buffer, t) for t in reply.on_device})
            if reply.needs_bytes > MESSAGE_LIMIT_BYTES:
                raise _fault(f"fetch: {reply.needs_bytes} bytes are over the limit")
            n_bytes = reply.needs_bytes
        _, packed = self.ask("fetch", {}, CALL_TIMEOUT_S)
        return _fetched({name: p.unpack() for name, p in packed.items()})


def _copy(buffer: DeviceBuffer, tensor: DeviceTensor) -> torch.Tensor:
    n_bytes = math.prod(tensor.shape) * ITEMSIZE[tensor.dtype]
    if tensor.at + n_bytes > buffer.n_bytes:
        raise _fault(f"fetch: {tensor.name} lies outside the memory that was offered")
    dtype: torch.dtype = getattr(torch, tensor.dtype)
    return buffer.read(tensor.at, n_bytes).view(dtype).reshape(tensor.shape)


def _fetched(tensors: Mapping[str, torch.Tensor]) -> Fetched:
    outputs = [tensor for name, tensor in tensors.items() if name.startswith("output")]
    grads = [tensor for name, tensor in tensors.items() if name.startswith("grad")]
    return Fetched(tuple(outputs), tuple(grads))


def student_timer(
    student: Student,
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    stopwatch: str | float,
    buffers: Buffers | None,
) -> WorkerTimer:
    """The submission's entry point, timed."""
    context = Context(f"benchmark {phase}[{problem.name}-{case.id}]", "speed")

    def ask(op: str, header: Mapping[str, Any], limit_s: float) -> tuple[Reply, dict[str, Packed]]:
        try:
            return student.ask(op, header, backend=student.target, timeout_s=limit_s)
        except StudentFaultError as fault:
            raise WorkerFault(
                verify.fail(fault.verdict, fault.what, context, *fault.details)
            ) from fault

    return WorkerTimer(ask, _request(case, phase, stopwatch), buffers)


class Baselines:
    """The process that runs eager, builtin and compile. Never sees a submission."""

    def __init__(
        self, launcher: Launcher, backend: Backend, reference: Path, stopwatch: str | float
    ) -> None:
        self._launcher = launcher
        self._backend = backend
        self._reference = reference
        self._stopwatch = stopwatch
        self._line: Line | None = None

    def timer(self, problem: Problem, case: BenchmarkCase, phase: Phase, impl: Impl) -> WorkerTimer:
        """One baseline of one case, timed."""
        request = _request(case, phase, self._stopwatch) | {
            "problem": problem.name,
            "impl": impl,
            "reference": str(self._reference),
        }
        return WorkerTimer(self._ask, request)

    def probe_timer(self, name: Probe, dtype: Dtype) -> WorkerTimer:
        """A copy or a matrix product, timed: what the GPU can do at best."""
        specs = [asdict(spec) for spec in probe_specs(name, dtype)]
        request = {"inputs": specs, "scalars": {}, "phase": "forward", "probe": name}
        return WorkerTimer(self._ask, request | {"stopwatch": self._stopwatch})

    def close(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.process.stop()
            self._line = None

    def _ask(
        self, op: str, header: Mapping[str, Any], limit_s: float
    ) -> tuple[Reply, dict[str, Packed]]:
        if self._line is None:
            self._line = Line(self._launcher.start(self._backend, role="baseline"))
        try:
            reply, tensors = self._line.ask(op, header, (), limit_s)
        except (TimeoutError, ProtocolError, PeerClosedError) as error:
            printed = self._line.process.output.take(PRINTED_SHOWN_BYTES)
            self.close()
            raise _fault(f"{op}: {type(error).__name__} {error}\n{printed}") from error
        if isinstance(reply, Raised):
            raise _fault(f"{op}: {reply.type}: {reply.message}\n{reply.traceback}")
        return reply, tensors


def _fault(cause: str) -> WorkerFault:
    return WorkerFault(Check(verdict=Verdict.CRASHED, cause=cause))


def _request(case: BenchmarkCase, phase: Phase, stopwatch: str | float) -> dict[str, Any]:
    return {
        "inputs": [asdict(spec) for spec in case.inputs],
        "scalars": dict(case.scalars),
        "phase": phase,
        "stopwatch": stopwatch,
    }
