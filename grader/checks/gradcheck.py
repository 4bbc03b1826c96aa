"""The group gradcheck: the student's gradients against finite differences of their own forward."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError

from grader import verify
from grader.checks.form import form
from grader.checks.trial import Trial, double_leaves, ended, oracle
from grader.sandbox.client import Outcome, Student, StudentFaultError
from grader.scorecard import Check, Verdict
from grader.spec import Inputs
from grader.verify import PASSED

# a constant wrong in its fourth digit fails at these, and passes at PyTorch's default rtol of 1e-3
GRADCHECK_EPS = 1e-5
GRADCHECK_ATOL = 1e-7
GRADCHECK_RTOL = 1e-6
GRADCHECK_LIMIT_S = 120.0


def gradcheck(trial: Trial, student: Student, inputs: Inputs) -> Check:
    """torch.autograd.gradcheck in slow mode around the simulator with lifted precision.

    Every floating type computes in float64 there, so that a wrong constant is not lost in rounding.
    """
    deadline = time.monotonic() + GRADCHECK_LIMIT_S
    lifted = double_leaves(inputs)
    leaves = {n: value for n, value in lifted.items() if isinstance(value, torch.Tensor)}
    remote = _Remote(trial, student, lifted, list(leaves), deadline)
    try:
        torch.autograd.gradcheck(
            remote,
            list(leaves.values()),
            eps=GRADCHECK_EPS,
            atol=GRADCHECK_ATOL,
            rtol=GRADCHECK_RTOL,
            check_undefined_grad=False,
        )
    except StudentFaultError as fault:
        return ended(trial, fault)
    except _WrongFormError as wrong:
        return wrong.check
    except GradcheckError as error:
        what = "the gradients do not match finite differences of the forward"
        return verify.fail(Verdict.WRONG_GRADIENT, what, trial.context, str(error).strip())
    return PASSED


class _WrongFormError(Exception):
    def __init__(self, check: Check) -> None:
        super().__init__(check.verdict)
        self.check = check


class _Remote:
    """The submission's entry point as a differentiable function of its tensor inputs."""

    def __init__(
        self, trial: Trial, student: Student, inputs: Inputs, names: list[str], deadline: float
    ) -> None:
        self.trial, self.student, self.inputs, self.names = trial, student, inputs, names
        self.deadline = deadline
        self.wanted = oracle(trial.problem, inputs)

    def __call__(self, *tensors: torch.Tensor) -> Any:
        outputs = _RemoteFunction.apply(self, *tensors)  # type: ignore[no-untyped-call]  # autograd.Function is untyped
        return outputs[0] if len(outputs) == 1 else outputs

    def run(
        self, tensors: tuple[torch.Tensor, ...], grads: Mapping[str, torch.Tensor] | None
    ) -> Outcome:
        """One request with these tensors; with ``grads``, forward and backward."""
        if time.monotonic() > self.deadline:
            what = f"gradcheck took over {GRADCHECK_LIMIT_S:g} s"
            raise StudentFaultError(Verdict.TIMEOUT, what)
        given: Inputs = {**self.inputs}
        given.update({n: t.detach() for n, t in zip(self.names, tensors, strict=True)})
        case = self.trial.case
        if grads is None:
            outcome = self.student.forward(given, backend="sim", case=case, lift=True)
        else:
            outcome = self.student.vjp(given, grads, backend="sim", case=case, lift=True)
        wrong = form(self.trial, outcome, self.wanted)
        if wrong:
            raise _WrongFormError(wrong)
        return outcome


class _RemoteFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, remote: _Remote, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.remote = remote
        ctx.save_for_backward(*tensors)
        outcome = remote.run(tensors, None)
        return tuple(outcome.outputs[name].unpack() for name in remote.wanted)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        remote: _Remote = ctx.remote
        named = {n: g.contiguous() for n, g in zip(remote.wanted, grads, strict=True)}
        outcome = remote.run(ctx.saved_tensors, named)
        got = []
        for name, leaf in zip(remote.names, ctx.saved_tensors, strict=True):
            packed = outcome.grads.get(name)
            if packed is not None and tuple(packed.header.shape) != tuple(leaf.shape):
                shape = tuple(packed.header.shape)
                what = f"grad:{name} has shape {shape}, want {tuple(leaf.shape)}"
                raise _WrongFormError(verify.fail(Verdict.WRONG_SHAPE, what, remote.trial.context))
            got.append(packed.unpack().double() if packed is not None else None)
        return (None, *got)
