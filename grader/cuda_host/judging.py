"""Judges what a CUDA C++ problem's case logged, in the verifier: never in the student's process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from grader.cuda_host import build, result
from grader.cuda_host.drawing import DEFAULTS, draw, shown_places
from grader.cuda_host.forms import CaseLog, Finding, Run, index3
from grader.scenarios import Log, Mistake
from grader.spec import Case, Inputs, Tolerance

_ADVICE = {
    "out_of_bounds": "let only threads inside the tensor read or write: if (i < n) { ... }",
    "on_cpu": "a kernel on the GPU cannot reach it: TORCH_CHECK(x.is_cuda())",
    "on_host": "code outside kernels cannot reach it: let a kernel read it",
    "uninitialised": "torch::empty_like holds whatever was there before: write it first",
    "race": "two threads write different values, and which comes last is chance: does the index use all of"
    " blockIdx, blockDim and threadIdx?",
}
# the worst first
_FINDING_VERDICT = {
    "on_cpu": "crashed",
    "on_host": "crashed",
    "out_of_bounds": "out_of_bounds",
    "uninitialised": "uninitialised_read",
    "race": "race",
}


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """The numbers that say what to draw, and a seed to draw it from."""
    strangers = case.scalars.keys() - DEFAULTS.keys()
    if strangers:
        raise ValueError(f"{case.id}: unknown scalars {sorted(strangers)}")
    seed = int(torch.randint(2**31, (), generator=rng))
    return {**DEFAULTS, **case.scalars, "seed": seed}


def not_checkable(case: Case, device: str) -> str:
    """What this machine lacks to check a case, or ""."""
    runs_on_gpu = device == "cuda" and not case.scalars.get("on_host")
    if runs_on_gpu or case.scalars.get("compiles"):
        if shutil.which("nvcc") is None:
            return "CUDA's compiler nvcc is not installed here (CUDA toolkit)"
        ninja = shutil.which("ninja") or Path(sys.executable).with_name("ninja").exists()
        if runs_on_gpu and not ninja:
            return "load_inline needs ninja, which is not installed here (pip install ninja)"
    if runs_on_gpu:
        return ""
    if sys.platform != "linux":
        return "without a GPU a .cu file can only be checked on Linux"
    if build.host_compiler() is None:
        names = " or ".join(build.HOST_COMPILERS)
        return f"there is no {names} here, so the .cu file cannot be compiled"
    return ""


@dataclass(frozen=True)
class _Judged:
    """One case's log beside what was asked for."""

    seen: CaseLog
    arguments: Inputs
    x: torch.Tensor
    wanted: Callable[[torch.Tensor], torch.Tensor]
    tolerance: Tolerance

    @property
    def places(self) -> torch.Tensor:
        """Which values the log holds."""
        return shown_places(self.x.numel(), int(self.arguments["seed"]))

    @property
    def bits(self) -> torch.Tensor | None:
        """Those values; None if they are none."""
        return result.bits(self.seen.returned.values if self.seen.returned else [])


def judge(
    case: Case,
    arguments: Inputs,
    log: Log,
    wanted: Callable[[torch.Tensor], torch.Tensor],
    tolerance: Tolerance,
) -> Mistake | None:
    """What is wrong with a case's log, or None.

    Args:
        case: Its scalars "on_host" and "compiles" say that values are not what it is about.
        arguments: As ``make_inputs`` drew them.
        log: From the student's process.
        wanted: x in float64 to y in float64.
        tolerance: Of y.
    """
    seen = CaseLog.model_validate(log)
    judged = _Judged(seen, arguments, draw(arguments), wanted, tolerance)
    checks: tuple[Callable[[_Judged], Mistake | None], ...] = (_not_run, _badly_run)
    if arguments["compiles"]:
        checks = (_not_run,)
    elif seen.raised:
        checks += (_raised,)
    elif arguments["on_host"]:
        # a race last: an index that misses elements often writes others twice
        checks += (_wrong_form, _unwritten, _race)
    else:
        checks += (_wrong_form, _unwritten, _wrong_values)
    return next((mistake for check in checks if (mistake := check(judged))), None)


def _not_run(judged: _Judged) -> Mistake | None:
    """A stub, a refusal of the compiler, or no kernel at all."""
    seen = judged.seen
    if seen.todo:
        return Mistake(f"not implemented yet: {seen.todo}", verdict="not_implemented")
    if seen.refusal is not None:
        return _refused(seen.refusal.kind, tuple(seen.refusal.lines))
    if seen.dtype:
        return Mistake(f"a kernel was given {seen.dtype}, x is float32", verdict="wrong_dtype")
    # an empty x needs no kernel, so it may be answered before any is called
    if seen.n_calls <= 0 and (judged.x.numel() or judged.arguments["compiles"]):
        return Mistake(
            "no function of a module that load_inline compiled was called",
            ("the work is to be done by a CUDA kernel of yours",),
            "foreign_kernel",
        )
    return None


def _badly_run(judged: _Judged) -> Mistake | None:
    """A process that ended, an access that must not be, a launch that was refused or never made."""
    seen, arguments = judged.seen, judged.arguments
    for run in seen.runs:
        if run.ended:
            verdict = "timeout" if run.timed_out else "crashed"
            return Mistake(f"the C++ code did not end well: {run.ended}", run.launched(), verdict)
    # a case about values says nothing of bounds, as on a GPU; only memory of the other side counts
    other_side = {"on_cpu", "on_host"}
    is_about_bounds = arguments["on_host"] and not arguments["on_cpu"]
    bounds = {"out_of_bounds", "uninitialised"} if is_about_bounds else set()
    if mistake := _found(seen, other_side | bounds):
        return mistake
    for pending in (seen.pending, *(run.pending for run in seen.runs)):
        refused = [launch for run in seen.runs for launch in run.launches if launch.refused]
        if pending:
            return Mistake(
                f"a launch was refused, and nobody asked: {pending}",
                (
                    *(f"{launch}" for launch in refused[:1]),
                    "blocks and threads must be at least 1, and a block has at most 1024 threads",
                    "C10_CUDA_KERNEL_LAUNCH_CHECK() after a launch raises its error",
                ),
                "crashed",
            )
    if seen.n_runs > 0 and seen.n_launches <= 0 and not seen.raised and judged.x.numel():
        return Mistake("no kernel was launched", verdict="foreign_kernel")
    return None


def _raised(judged: _Judged) -> Mistake | None:
    """An exception, where x must not be refused."""
    if judged.arguments["may_refuse"]:
        return None
    return Mistake(f"the call raised {judged.seen.raised}", verdict="crashed")


def _unwritten(judged: _Judged) -> Mistake | None:
    """Values that are none, or were never written."""
    places, bits = judged.places, judged.bits
    if bits is None or bits.numel() != places.numel():
        what = f"the log holds other values than the {places.numel()} asked for"
        return Mistake(what, verdict="protocol_error")
    return result.unwritten(judged.seen, judged.x, places, bits)


def _race(judged: _Judged) -> Mistake | None:
    return _found(judged.seen, {"race"})


def _wrong_values(judged: _Judged) -> Mistake | None:
    places, bits = judged.places, judged.bits
    assert bits is not None
    want = judged.wanted(judged.x.flatten()[places].double())
    return result.wrong_values(judged.seen, judged.x, places, bits, want, judged.tolerance)


def _found(seen: CaseLog, kinds: set[str]) -> Mistake | None:
    """The worst of the wrong accesses of these kinds."""
    findings = [(run, found) for run in seen.runs for found in run.findings if found.kind in kinds]
    order = list(_FINDING_VERDICT)
    findings.sort(key=lambda pair: order.index(pair[1].kind))
    return _finding(*findings[0]) if findings else None


def _finding(run: Run, found: Finding) -> Mistake:
    verb = "write" if found.is_write else "read"
    tensor = {"": "every tensor", "result": "the result", "scratch": "a tensor of its own"}.get(
        found.tensor, "x"
    )
    size = f" ({found.n_elements} elements)" if found.tensor else ""
    index = f" at index {found.index}" if found.tensor else ""
    where = f"line {found.line}: " if found.line else ""
    thread = f"block {index3(found.block)}, thread {index3(found.thread)} of {found.kernel}"
    times = f"; {found.count} such accesses in all" if found.count > 1 else ""
    what = {
        "out_of_bounds": f"{verb} outside {tensor}{size}{index}",
        "on_cpu": f"{verb} of {tensor}{size}{index}, which is in the CPU's memory",
        "on_host": f"{verb} of {tensor}{size}{index} by code that runs on the CPU",
        "uninitialised": f"{verb} of {tensor}{size}{index}, which nothing has written",
        "race": f"{verb} of {tensor}{size}{index}, which another thread wrote before",
    }[found.kind]
    return Mistake(
        f"{where}{what}",
        (
            *((f"by {thread}{times}",) if found.kernel else ()),
            *run.launched(),
            _ADVICE[found.kind],
        ),
        _FINDING_VERDICT[found.kind],
    )


def _wrong_form(judged: _Judged) -> Mistake | None:
    seen, x, y = judged.seen, judged.x, judged.seen.returned
    if y is None or y.kind != "Tensor":
        kind = "nothing" if y is None else y.kind
        return Mistake(f"y is {kind}, want a tensor", verdict="wrong_type")
    if seen.is_changed:
        what = "x was changed by the call; write into a tensor of its own"
        return Mistake(what, verdict="modified_input")
    if y.shape != list(x.shape):
        what = f"y has shape {tuple(y.shape)}, want {tuple(x.shape)}"
        return Mistake(what, verdict="wrong_shape")
    if y.dtype != "float32":
        return Mistake(f"y has dtype {y.dtype}, want float32", verdict="wrong_dtype")
    return None


def _refused(kind: str, lines: tuple[str, ...]) -> Mistake:
    """What a compiler refuses, or what our header has not."""
    first, rest = (lines[0], lines[1:]) if lines else ("the compiler refused it", ())
    if kind == "unsupported":
        what = f"it may be right, but its accesses to memory cannot be checked: there is no {first} here"
        return Mistake(what, rest, "not_checkable")
    if kind == "foreign":
        advice = "the work is to be done by a CUDA kernel of yours"
        return Mistake(first, (*rest, advice), "foreign_kernel")
    return Mistake(first, rest, "timeout" if kind == "timeout" else "compile_error")
