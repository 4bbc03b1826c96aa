"""One case of one problem, run in the simulator for what it shows: counts, DRAM traffic, findings.

Judges no values and gives no points; the memory group of a grading judges bounds, races and traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grader.checks.trial import Trial, grad_outputs, oracle
from grader.grading import Grading, Request, UsageError, opened
from grader.sandbox.client import Outcome
from grader.sandbox.compiling import Compiler
from grader.seen import CompiledKernel, Trace
from grader.simulator import Cache
from grader.spec import Case, Phase, Problem

SEED = 0  # the same inputs each time, so that two traces differ by the code alone


def trace(
    path: Path,
    problem: str,
    case: str | None,
    phase: Phase,
    cache: Cache,
    reference: Path,
    arches: Sequence[int] = (),
) -> Trace:
    """Run the case in a worker, as the tests do, and return what the simulator saw.

    Args:
        path: The submission: a folder with ``<problem>.py``, ``reference``, or one file.
        problem: Its name.
        case: A case id; None takes the public one that moves the most bytes.
        phase: "backward" lists only the launches after the gradient was sent back.
        cache: The cache to model.
        reference: The folder of problems.
        arches: What to compile for, compute capability times ten, where Triton is installed.

    Raises:
        UsageError: If there is nothing to trace as asked.
        StudentFaultError: If the submission's code ended before it returned.
    """
    request = Request(path, (problem,), case, device="cpu", seed=SEED, reference=reference)
    with opened(request) as grading:
        (known,) = grading.problems
        if known.kind != "kernel":
            raise UsageError(f"{problem} is a {known.kind}: it asks for no kernel to trace")
        if phase != "forward" and not known.differentiable:
            raise UsageError(f"{problem} has no backward: trace --phase forward")
        chosen = _chosen(known, case)
        outcome = _run(grading, Trial(known, chosen, "memory"), phase, cache)
        traced = _traced(known, chosen, phase, outcome, cache, grading.taken.card.path)
        compiler = grading.compilers.get(problem)
        return _compiled(traced, outcome, compiler, arches) if arches else traced


def _chosen(problem: Problem, case: str | None) -> Case:
    if case is not None:
        return next(each for each in problem.cases if each.id == case)
    public = [each for each in problem.cases if each.visibility == "public"]
    return max(public, key=lambda each: problem.min_bytes(each, "forward"))


def _run(grading: Grading, trial: Trial, phase: Phase, cache: Cache) -> Outcome:
    student, inputs, case = grading.student(trial.problem), grading.inputs(trial), trial.case
    if phase == "forward":
        return student.forward(inputs, backend="sim", case=case, cache=cache)
    grads = grad_outputs(case, oracle(trial.problem, inputs), grading.rng(trial))
    return student.vjp(inputs, grads, backend="sim", case=case, cache=cache)


def _compiled(
    traced: Trace, outcome: Outcome, compiler: Compiler | None, arches: Sequence[int]
) -> Trace:
    """With what the real compiler makes of every kernel and config, for each GPU."""
    if compiler is None:
        absent = (
            "kernels were not compiled: Triton is not installed here. `pip install triton` (on Linux; no "
            "GPU is needed) adds the compiler's errors, registers, spills and occupancy"
        )
        return traced.model_copy(update={"compiler_notes": (absent,)})
    made, refusals = [], []
    for kernel in outcome.reply.specialisations:
        for config in (None, *kernel.others):
            for arch in arches:
                result = compiler.result(kernel, arch, config)
                if isinstance(result, CompiledKernel):
                    made.append(result)
                elif result is not None:
                    text = config.text if config else kernel.config
                    refusals.append(
                        f"{result.file}:{result.line}: {kernel.kernel}{text and f' with {text}'} is"
                        f" refused for sm_{arch}: {result.reason}"
                    )
    return traced.model_copy(
        update={
            "compiled": tuple(dict.fromkeys(made)),
            "compiler_notes": (*refusals, *compiler.notes),
        }
    )


def _traced(
    problem: Problem, case: Case, phase: Phase, outcome: Outcome, cache: Cache, submission: str
) -> Trace:
    reply = outcome.reply
    skipped = reply.n_forward_launches if phase == "backward" else 0
    # the bound called "backward" is one on forward and backward together
    bounds: dict[Phase, Phase] = {"forward": "forward", "both": "backward"}
    allowed = problem.traffic(case, bounds[phase]) if phase in bounds else None
    return Trace(
        problem=problem.name,
        case=case.id,
        phase=phase,
        submission=submission,
        launches=reply.launches[skipped:],
        n_launches=max(0, reply.n_launches - skipped),
        findings=reply.findings,
        read=reply.read,
        written=reply.written,
        allowed_read=None if allowed is None else allowed.read,
        allowed_written=None if allowed is None else allowed.written,
        min_bytes=problem.min_bytes(case, phase),
        cache_bytes=cache.size_bytes,
        in_flight=cache.in_flight,
    )
