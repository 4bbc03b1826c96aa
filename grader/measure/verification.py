"""Judges one fetched call of a benchmark against the float64 oracle. Verifier's side.

The verifier makes the inputs anew from the nonce on its own device; nothing that the student's
process replied is used but the bytes under test.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grader.measure.fill import content_hash, make_grad_outputs, make_inputs
from grader.measure.pairs import Verify
from grader.measure.timed_calls import Called, Fetched
from grader.scorecard import Check, Verdict
from grader.spec import FLOAT_DTYPES, BenchmarkCase, Case, Phase, Problem
from grader.verify import Context, check_form, compare, fail


def verifier(problem: Problem, case: BenchmarkCase, phase: Phase, device: torch.device) -> Verify:
    """Give the function that judges calls of one benchmark case in one phase.

    Args:
        problem: Gives oracle and tolerance.
        case: Gives the inputs.
        phase: In "backward" and "both" the gradients are judged too.
        device: Of the type on which the timed processes draw. The oracle runs here, in float64, so
            it needs several times the memory of the inputs.
    """

    def verify(nonce: int, called: Called, fetched: Fetched) -> Check | None:
        return verify_call(problem, case, phase, device, nonce, called, fetched)

    return verify


def verify_call(
    problem: Problem,
    case: BenchmarkCase,
    phase: Phase,
    device: torch.device,
    nonce: int,
    called: Called,
    fetched: Fetched,
) -> Check | None:
    """Judge one call: contents as timed, inputs untouched, values and gradients right.

    Returns:
        None if all is right. Contents other than those timed are ``integrity_hold``: no honest
        mistake changes an output after the device was synchronised.
    """
    context = Context(
        test=f"benchmark {phase}[{problem.name}-{case.id}]",
        why="a timed call must be as right as any other",
        rerun=f"python -m grader bench {problem.name}",
    )
    outputs = [y.to(device) for y in fetched.outputs]
    grads = [grad.to(device) for grad in fetched.grads]
    if content_hash((*outputs, *grads)) != called.checksum:
        what = "the contents of the outputs are not those that were timed"
        return fail(Verdict.INTEGRITY_HOLD, what, context)
    inputs = make_inputs(case.inputs, nonce, device)
    if content_hash(inputs) != called.input_hash:
        return fail(Verdict.MODIFIED_INPUT, "the call changed its inputs", context)
    # float64 leaves, because a gradient comes in the dtype of its leaf
    leaves = [
        x.detach().double().requires_grad_(spec.requires_grad and phase != "forward")
        if spec.dtype in FLOAT_DTYPES
        else x
        for spec, x in zip(case.inputs, inputs, strict=True)
    ]
    del inputs
    result = problem.oracle(*leaves, *case.scalars.values())
    want = result if isinstance(result, tuple) else (result,)
    names = ["y"] if len(want) == 1 else [f"y{i}" for i in range(len(want))]
    dtypes = [case.dtype] * len(want)
    failure = _compare_all(problem, case, names, dtypes, outputs, want, context)
    if failure is not None or phase == "forward":
        return failure
    wanted = [spec for spec in case.inputs if spec.requires_grad]
    want_grads = torch.autograd.grad(
        want,
        [x for x in leaves if x.requires_grad],
        # drawn in the dtype of the outputs, as in the timed processes
        [
            grad.double()
            for grad in make_grad_outputs(
                [(tuple(y.shape), y.dtype) for y in outputs], nonce, device
            )
        ],
    )
    names = [f"grad:{spec.name}" for spec in wanted]
    dtypes = [spec.dtype for spec in wanted]
    return _compare_all(problem, case, names, dtypes, grads, want_grads, context)


def as_case(case: BenchmarkCase) -> Case:
    """Give the correctness case of the same sizes, for the problem's tolerance."""
    return Case(
        dims=case.dims,
        dtype=case.dtype,
        why="a timed call must be as right as any other",
        scalars=case.scalars,
        groups=frozenset(),
    )


def _compare_all(
    problem: Problem,
    case: BenchmarkCase,
    names: Sequence[str],
    dtypes: Sequence[str],
    got: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
    context: Context,
) -> Check | None:
    if len(got) != len(want):
        what = f"returned {len(got)} tensors, want {len(want)}: {', '.join(names)}"
        return fail(Verdict.WRONG_TYPE, what, context)
    for name, dtype, got_one, want_one in zip(names, dtypes, got, want, strict=True):
        got_dtype = str(got_one.dtype).removeprefix("torch.")
        failure = check_form(
            got_one.shape, got_dtype, want_one.shape, dtype, output=name, context=context
        ) or compare(
            got_one,
            want_one,
            problem.tolerance(as_case(case), name),
            output=name,
            wrong_verdict=(
                Verdict.WRONG_GRADIENT if name.startswith("grad:") else Verdict.WRONG_VALUE
            ),
            context=context,
        )
        if failure is not None:
            return failure
    return None
