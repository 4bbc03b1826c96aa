"""What is tested, the oracle's answer to it, and how student code may end before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from grader import verify
from grader.inputs import draw_grad, is_differentiable
from grader.sandbox.client import StudentFaultError
from grader.scorecard import Check
from grader.spec import Case, Group, Inputs, Problem
from grader.verify import Context


@dataclass(frozen=True)
class Trial:
    """One case in one group; its id names it everywhere.

    Attributes:
        rerun: The command that runs just this case.
    """

    problem: Problem
    case: Case
    group: Group
    rerun: str = ""

    @property
    def id(self) -> str:
        """Such as ``forward[softmax-M63-N781-float32]``."""
        return f"{self.group}[{self.problem.name}-{self.case.id}]"

    @property
    def context(self) -> Context:
        """For messages."""
        return Context(self.id, self.case.why, self.rerun, self.case.visibility == "hidden")


def oracle(problem: Problem, inputs: Inputs) -> dict[str, torch.Tensor]:
    """What is wanted, in float64, by output name: "y", or "y0", "y1", ... of a tuple."""
    result = problem.oracle(*inputs.values())
    if isinstance(result, torch.Tensor):
        return {"y": result}
    return {f"y{i}": output for i, output in enumerate(result)}


def grad_outputs(
    case: Case, outputs: Mapping[str, torch.Tensor], rng: torch.Generator
) -> dict[str, torch.Tensor]:
    """The gradients to send back, one for each output, in the case's dtype and layout."""
    dtype = getattr(torch, case.dtype)
    return {
        name: draw_grad(output.detach().to(dtype), case.grad_layout, rng)
        for name, output in outputs.items()
    }


def ended(trial: Trial, fault: StudentFaultError) -> Check:
    """The check of student code that ended before it returned anything."""
    return verify.fail(fault.verdict, fault.what, trial.context, *fault.details)


def double_leaves(inputs: Inputs) -> Inputs:
    """The inputs with every floating tensor as a float64 leaf that asks for its gradient."""
    return {
        name: value.detach().double().requires_grad_()
        if isinstance(value, torch.Tensor) and is_differentiable(value)
        else value
        for name, value in inputs.items()
    }
