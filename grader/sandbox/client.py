"""The verifier's end of a worker: sends requests, and turns every end of student code into a fault.

Judges no values. Restarts a worker after a crash, a timeout or a lost CUDA context, and gives a
problem up after too many of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from grader.inputs import is_differentiable
from grader.sandbox.compiling import Compiler
from grader.sandbox.launcher import STOP_S
from grader.sandbox.line import Backend, Connect, Connection
from grader.sandbox.protocol import Packed, PeerClosedError, ProtocolError, pack
from grader.sandbox.replies import Raised, Reply, Returned, ScenarioReply
from grader.scenarios import Log
from grader.scorecard import Attempt, Isolation, Verdict
from grader.spec import Case, Inputs

if TYPE_CHECKING:
    from grader.simulator import Cache

MAX_TIMEOUTS: Final = 2
MAX_RESTARTS: Final = 3
# on CUDA a first call compiles, and may tune a dozen configurations at 2 to 5 s each
COMPILE_ALLOWANCE_S: Final = 100.0
PROBLEM_LIMIT_S: Final = 1800.0  # of one problem's tests; a tuned matmul compiles for every case
TIMING_LIMIT_S: Final = 600.0  # of one problem's prepare and calls; the reference takes 10 s (H200)
LOAD_TIMEOUT_S: Final = 60.0

# a compiler's message that names the line needs no traceback: "gelu.py:6: ...", "at 5:8: ..."
_LOCATION = re.compile(r"\w+\.py:\d+|at \d+:\d+:")
_TEST_OPERATIONS = frozenset({"load", "forward", "vjp", "scenario"})
_KIND_VERDICT = {
    "not_implemented": Verdict.NOT_IMPLEMENTED,
    "compile_error": Verdict.COMPILE_ERROR,
    "unsupported": Verdict.NOT_CHECKABLE,
    "deadlock": Verdict.DEADLOCK,
    "out_of_memory": Verdict.OUT_OF_MEMORY,
    "exit": Verdict.CRASHED,
    "exception": Verdict.CRASHED,
}


class StudentFaultError(Exception):
    """Student code ended in a way that is a verdict, before there was anything to compare.

    Attributes:
        what: One line.
        details: Further lines, such as the student's traceback.
    """

    def __init__(self, verdict: Verdict, what: str, *details: str) -> None:
        super().__init__(f"{verdict}: {what}")
        self.verdict = verdict
        self.what = what
        self.details = details


@dataclass(frozen=True)
class Outcome:
    """What one call brought back.

    Attributes:
        outputs: By name: "y", or "y0", "y1", ...
        grads: By input name; an input no gradient reached is missing.
        after: The storages of the tensor inputs after the call, by name.
        saved: The tensor of ``saved_shape`` that was saved for the backward, if it was asked for.
    """

    reply: Returned
    outputs: Mapping[str, Packed]
    grads: Mapping[str, Packed]
    after: Mapping[str, Packed]
    saved: Packed | None = None


class Student:
    """One problem of one submission, over as many workers as it takes.

    Attributes:
        target: Where forward and backward run; gradcheck and memory always use the simulator.
        compiler: Compiles what forward and backward launch in the simulator; None where it cannot.
        scenario_file: The scenario.py of a scenario; None for a problem of kernels.
        attempts: Workers that ended before we ended them.
        isolation: What confines the first worker, probed before it sees the submission.
    """

    def __init__(
        self,
        connect: Connect,
        file: Path,
        entry: str,
        *,
        target: Backend = "sim",
        compiler: Compiler | None = None,
        scenario: Path | None = None,
    ) -> None:
        self.target = target
        self.compiler = compiler
        self.scenario_file = scenario
        self.attempts: list[Attempt] = []
        self.isolation: Isolation | None = None
        self._connect = connect
        self._file = file
        self._entry = entry
        self._lines: dict[Backend, Connection] = {}
        self._lifted: dict[Backend, bool] = {}
        self._load_faults: dict[Backend, StudentFaultError] = {}
        self._n_timeouts = 0
        self._spent_s = 0.0
        self._timed_s = 0.0

    def forward(
        self,
        inputs: Inputs,
        *,
        backend: Backend,
        case: Case,
        lift: bool = False,
        cache: Cache | None = None,
        autotune_config: int = 0,
        saved_shape: Sequence[int] | None = None,
    ) -> Outcome:
        """Call the entry point; in the simulator, with this cache modelled.

        There each @triton.autotune takes its config of this number. With ``saved_shape`` the tensor
        of that shape which is saved for the backward comes along.

        Raises:
            StudentFaultError: However else student code ended.
            LaunchError: If no worker can be started.
        """
        header, tensors = _arguments(inputs, lift=lift)
        header |= _for_simulator(cache, autotune_config)
        header["saved_shape"] = None if saved_shape is None else list(saved_shape)
        return self._call("forward", header, tensors, backend, case, lift=lift)

    def vjp(
        self,
        inputs: Inputs,
        grad_outputs: Mapping[str, torch.Tensor],
        *,
        backend: Backend,
        case: Case,
        lift: bool = False,
        cache: Cache | None = None,
        autotune_config: int = 0,
    ) -> Outcome:
        """Call the entry point and send ``grad_outputs`` back through it. Raises as ``forward``."""
        header, tensors = _arguments(inputs, lift=lift)
        header |= _for_simulator(cache, autotune_config)
        tensors += [_pack(f"grad_output:{k}", grad, lift=lift) for k, grad in grad_outputs.items()]
        return self._call("vjp", header, tensors, backend, case, lift=lift)

    def scenario(self, case: Case, arguments: Inputs) -> Log:
        """Run one case of a scenario on the target; its log. Raises as ``forward``."""
        reply, _ = self.ask(
            "scenario",
            {"case": case.id, "arguments": dict(arguments)},
            backend=self.target,
            timeout_s=case.timeout_s + _compile_allowance_s(self.target),
        )
        assert isinstance(reply, ScenarioReply)
        return reply.log

    def ask(
        self,
        op: str,
        header: Mapping[str, Any],
        tensors: Sequence[Packed] = (),
        *,
        backend: Backend,
        timeout_s: float,
        lift: bool = False,
    ) -> tuple[Reply, dict[str, Packed]]:
        """Any request, to a worker that has the submission loaded. Raises as ``forward``."""
        self._refuse_if_given_up()
        self._load(backend, lift=lift)
        return self._ask(op, header, tensors, backend, timeout_s)

    def printed(self) -> str:
        """What the submission printed since the last time, its beginning."""
        shown = [line.printed() for line in self._lines.values()]
        return "\n".join(text for text in shown if text)

    def close(self) -> None:
        """End all workers."""
        for line in self._lines.values():
            line.end(STOP_S)
        self._lines.clear()
        if self.compiler is not None:
            self.compiler.close()

    def _call(
        self,
        op: str,
        header: Mapping[str, Any],
        tensors: Sequence[Packed],
        backend: Backend,
        case: Case,
        *,
        lift: bool,
    ) -> Outcome:
        reply, got = self.ask(
            op,
            {**header, "matmul_precision": case.matmul_precision},
            tensors,
            backend=backend,
            timeout_s=case.timeout_s + _compile_allowance_s(backend),
            lift=lift,
        )
        assert isinstance(reply, Returned)
        return Outcome(
            reply,
            outputs={name: p for name, p in got.items() if ":" not in name},
            grads=_named(got, "grad:"),
            after=_named(got, "after:"),
            saved=got.get("saved:"),
        )

    def _refuse_if_given_up(self) -> None:
        if self._n_timeouts >= MAX_TIMEOUTS:
            why = f"{MAX_TIMEOUTS} cases of this problem ran out of time"
        elif len(self.attempts) > MAX_RESTARTS:
            why = f"this problem's process ended {len(self.attempts)} times"
        elif self._spent_s > PROBLEM_LIMIT_S:
            why = f"this problem used up its {PROBLEM_LIMIT_S:g} s"
        elif self._timed_s > TIMING_LIMIT_S:
            why = f"timing this problem used up its {TIMING_LIMIT_S:g} s"
        else:
            return
        raise StudentFaultError(Verdict.BLOCKED, f"not run: {why} before")

    def _load(self, backend: Backend, *, lift: bool) -> None:
        """Have a worker with the submission imported. An import that failed is not tried again."""
        if backend in self._load_faults:
            raise self._load_faults[backend]
        if backend in self._lines and self._lifted.get(backend) is lift:
            return
        if not self._file.is_file():
            raise StudentFaultError(
                Verdict.IMPORT_ERROR,
                f"the submission has no file {self._file.name} (links, and files over 1 MiB, are not"
                " taken)",
            )
        if backend not in self._lines:
            self._lines[backend] = self._connect(backend)
            self.isolation = self.isolation or self._lines[backend].isolation()
        header = {
            "file": str(self._file),
            "entry": self._entry,
            "backend": backend,
            "lift": lift,
            "scenario": None if self.scenario_file is None else str(self.scenario_file),
        }
        try:
            self._ask("load", header, (), backend, LOAD_TIMEOUT_S)
        except StudentFaultError as fault:
            self._load_faults[backend] = fault
            raise
        self._lifted[backend] = lift

    def _ask(
        self,
        op: str,
        header: Mapping[str, Any],
        tensors: Sequence[Packed],
        backend: Backend,
        timeout_s: float,
    ) -> tuple[Reply, dict[str, Packed]]:
        started, line = time.monotonic(), self._lines[backend]
        try:
            reply, got = line.ask(op, header, tensors, timeout_s)
        except TimeoutError:
            self._n_timeouts += 1
            at = self._lines[backend].whereabouts(self._file.parent)
            self._end(backend, "timeout")
            what = f"{'importing' if op == 'load' else 'running'} took over {timeout_s:g} s"
            told = () if at is None else (f"it was at {at}", f"  {at.source_line}")
            raise StudentFaultError(Verdict.TIMEOUT, what, *told) from None
        except ProtocolError as error:
            self._end(backend, "protocol error")
            raise StudentFaultError(Verdict.PROTOCOL_ERROR, str(error)) from None
        except PeerClosedError:
            ended, printed = self._end(backend)
            verdict = Verdict.IMPORT_ERROR if op == "load" else Verdict.CRASHED
            doing = "importing it" if op == "load" else "the call"
            what = f"{doing} ended the process: {ended}"
            raise StudentFaultError(verdict, what, printed) from None
        finally:
            took_s = time.monotonic() - started if line.is_limited else 0.0
            if op in _TEST_OPERATIONS:
                self._spent_s += took_s
            else:
                self._timed_s += took_s
        if isinstance(reply, Raised):
            if reply.sticky:
                self._end(backend, "CUDA context lost")
            raise _fault(reply, backend)
        return reply, got

    def _end(self, backend: Backend, why: str = "") -> tuple[str, str]:
        ended, printed = self._lines.pop(backend).end(grace_s=0.0 if why else 1.0)
        self.attempts.append(Attempt(problem=self._entry, backend=backend, ended=why or ended))
        return ended, printed


def _compile_allowance_s(backend: Backend) -> float:
    return COMPILE_ALLOWANCE_S if backend == "cuda" else 0.0


def _fault(raised: Raised, backend: Backend) -> StudentFaultError:
    if raised.stage == "import":
        what = f"importing it raised {raised.type}: {raised.message}"
        return StudentFaultError(Verdict.IMPORT_ERROR, what, raised.traceback)
    if raised.kind == "not_implemented":
        what = f"not implemented yet: {raised.message}"
        return StudentFaultError(Verdict.NOT_IMPLEMENTED, what)
    what = f"{raised.type}: {raised.message}" if raised.message else raised.type
    if raised.kind == "exit":
        what = f"the call tried to end the process: {what}"
    if raised.kind == "compile_error" and _LOCATION.search(raised.message):
        return StudentFaultError(Verdict.COMPILE_ERROR, raised.message)
    verdict = _KIND_VERDICT[raised.kind]
    if verdict is Verdict.NOT_CHECKABLE and backend == "cuda":
        verdict = Verdict.CRASHED  # only the simulator lacks anything
    return StudentFaultError(verdict, what, raised.traceback)


def _for_simulator(cache: Cache | None, autotune_config: int) -> dict[str, Any]:
    modelled = {} if cache is None else {"cache": asdict(cache)}
    return {"autotune_config": autotune_config, **modelled}


def _arguments(inputs: Inputs, *, lift: bool) -> tuple[dict[str, Any], list[Packed]]:
    described: list[dict[str, Any]] = []
    tensors = []
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):
            described.append({"name": name})
            tensors.append(_pack(name, value, lift=lift))
        else:
            described.append({"name": name, "value": value})
    return {"arguments": described}, tensors


def _pack(name: str, tensor: torch.Tensor, *, lift: bool) -> Packed:
    """Lifted tensors are float64 here and declared as the case declares them: float32."""
    return pack(name, tensor, "float32" if lift and is_differentiable(tensor) else None)


def _named(tensors: Mapping[str, Packed], prefix: str) -> dict[str, Packed]:
    return {n.removeprefix(prefix): p for n, p in tensors.items() if n.startswith(prefix)}
