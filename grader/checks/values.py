"""The groups forward and backward: values against the float64 oracle, on the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from grader import verify
from grader.checks.compilation import refused
from grader.checks.configs import every_config
from grader.checks.form import form, modified
from grader.checks.trial import Trial, double_leaves, ended, grad_outputs, oracle
from grader.inputs import dtype_name
from grader.sandbox.client import Outcome, Student, StudentFaultError
from grader.scorecard import Check, Verdict
from grader.seen import AutotunedSeen
from grader.spec import Inputs
from grader.verify import PASSED

SAVED = "the tensor saved for the backward"


def forward(trial: Trial, student: Student, inputs: Inputs) -> Check:
    """The values of the entry point, on the target."""
    wanted = oracle(trial.problem, inputs)

    def judge(config: int) -> tuple[Check, Sequence[AutotunedSeen]]:
        try:
            outcome = student.forward(
                inputs,
                backend=student.target,
                case=trial.case,
                autotune_config=config,
                saved_shape=trial.problem.saved_shape(trial.case),
            )
        except StudentFaultError as fault:
            return ended(trial, fault), ()
        # all configs are compiled with the first
        check = refused(trial, student, outcome) if config == 0 else None
        return check or _outputs(trial, outcome, inputs, wanted), outcome.reply.autotuned

    return every_config(trial, judge)


def _outputs(
    trial: Trial, outcome: Outcome, inputs: Inputs, wanted: Mapping[str, torch.Tensor]
) -> Check:
    wrong = modified(trial, inputs, outcome) or form(trial, outcome, wanted)
    if wrong:
        return wrong
    for name, want in wanted.items():
        wrong = verify.compare(
            outcome.outputs[name].unpack(),
            want,
            trial.problem.tolerance(trial.case, name),
            output=name,
            wrong_verdict=Verdict.WRONG_VALUE,
            context=trial.context,
        )
        if wrong:
            return wrong
    return _saved(trial, outcome, inputs) or PASSED


def _saved(trial: Trial, outcome: Outcome, inputs: Inputs) -> Check | None:
    """Whether the one tensor that the problem names is saved for the backward, and is right."""
    shape, oracle_of = trial.problem.saved_shape(trial.case), trial.problem.saved_oracle
    if shape is None or oracle_of is None:
        return None
    if outcome.saved is None:
        what = (
            f"{outcome.reply.saved_instead or 'forward saves nothing for the backward'}; want exactly"
            f" one tensor of shape {shape} among those saved"
        )
        return verify.fail(Verdict.WRONG_SHAPE, what, trial.context)
    return verify.check_form(
        outcome.saved.header.shape, "", shape, "", output=SAVED, context=trial.context
    ) or verify.compare(
        outcome.saved.unpack(),
        oracle_of(*inputs.values()),
        trial.problem.tolerance(trial.case, "saved"),
        output=SAVED,
        wrong_verdict=Verdict.WRONG_VALUE,
        context=trial.context,
    )


def backward(trial: Trial, student: Student, inputs: Inputs, rng: torch.Generator) -> Check:
    """The gradients of all floating tensor inputs, on the target."""
    leaves: Inputs = double_leaves(inputs)
    outputs = oracle(trial.problem, leaves)
    sent = grad_outputs(trial.case, outputs, rng)
    asked = {n: x for n, x in leaves.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    wanted = torch.autograd.grad(
        list(outputs.values()),
        list(asked.values()),
        [sent[name].double() for name in outputs],
    )

    def judge(config: int) -> tuple[Check, Sequence[AutotunedSeen]]:
        try:
            outcome = student.vjp(
                inputs, sent, backend=student.target, case=trial.case, autotune_config=config
            )
        except StudentFaultError as fault:
            return ended(trial, fault), ()
        wrong = refused(trial, student, outcome) if config == 0 else None
        wrong = wrong or modified(trial, inputs, outcome) or form(trial, outcome, outputs)
        check = wrong or _gradients(trial, outcome, dict(zip(asked, wanted, strict=True)), inputs)
        return check, outcome.reply.autotuned

    return every_config(trial, judge)


def _gradients(
    trial: Trial, outcome: Outcome, wanted: Mapping[str, torch.Tensor], inputs: Inputs
) -> Check:
    for name, want in wanted.items():
        wrong = _gradient(trial, outcome, name, want, inputs)
        if wrong:
            return wrong
    return PASSED


def _gradient(
    trial: Trial, outcome: Outcome, name: str, want: torch.Tensor, inputs: Inputs
) -> Check | None:
    output = f"grad:{name}"
    if name in outcome.reply.wrong_grads:
        what = f"the gradient of {name} is {outcome.reply.wrong_grads[name]}, want a tensor"
        return verify.fail(Verdict.WRONG_TYPE, what, trial.context)
    if name not in outcome.grads:
        what = f"no gradient reaches {name}: for autograd the output does not depend on it"
        return verify.fail(Verdict.WRONG_GRADIENT, what, trial.context)
    grad, of = outcome.grads[name], inputs[name]
    assert isinstance(of, torch.Tensor)
    return verify.check_form(
        grad.header.shape,
        grad.header.dtype,
        of.shape,
        dtype_name(of.dtype),
        output=output,
        context=trial.context,
    ) or verify.compare(
        grad.unpack(),
        want,
        trial.problem.tolerance(trial.case, output),
        output=output,
        wrong_verdict=Verdict.WRONG_GRADIENT,
        context=trial.context,
    )
