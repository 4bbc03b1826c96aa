"""The staff solutions compile for two GPUs, without spills, in every config."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader import discover
from grader.checks.trial import Trial, grad_outputs, oracle
from grader.grading import Grading, Request, opened
from grader.sandbox.compiling import Compiler
from grader.seen import CompiledKernel, ConfigSeen, SpecialisationSeen

ARCHES = (80, 90)
KERNELS = [
    name
    for name in discover.problem_names()
    if discover.load_problem(name, discover.REFERENCE).kind == "kernel"
]


def launched(grading: Grading, trial: Trial) -> tuple[SpecialisationSeen, ...]:
    """What one case launches, forward and backward."""
    student, inputs, case = grading.student(trial.problem), grading.inputs(trial), trial.case
    if trial.group == "forward":
        outcome = student.forward(inputs, backend="sim", case=case)
    else:
        grads = grad_outputs(case, oracle(trial.problem, inputs), grading.rng(trial))
        outcome = student.vjp(inputs, grads, backend="sim", case=case)
    # none was left out for lack of room
    assert len(outcome.reply.specialisations) == outcome.reply.n_specialisations > 0
    return outcome.reply.specialisations


def all_compiled(
    grading: Grading, compiler: Compiler
) -> Iterator[tuple[SpecialisationSeen, ConfigSeen | None, int, object]]:
    """Every kernel of the public cases, in every config, for every GPU."""
    for trial in grading.trials(["forward", "backward"]):
        if trial.case.visibility == "public":
            for kernel in launched(grading, trial):
                for config in (None, *kernel.others):
                    for arch in ARCHES:
                        yield kernel, config, arch, compiler.result(kernel, arch, config)


@pytest.mark.triton
@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_the_solution_compiles_without_spills(name: str) -> None:
    """For each GPU the binary is for that GPU, by its own word, and no register is spilled."""
    with opened(Request(discover.REFERENCE, (name,), device="cpu", seed=1)) as grading:
        grading.student(grading.problems[0])
        compiler = grading.compilers[name]
        results = list(all_compiled(grading, compiler))
        notes = compiler.notes

    assert results
    for kernel, config, arch, made in results:
        assert isinstance(made, CompiledKernel), (kernel.kernel, config, arch, made, notes)
        assert made.target == f"sm_{arch}"
        assert made.spill_bytes == 0, (made, config)
    assert not notes
