"""The group memory: bounds, races, unwritten elements and traffic, always in the simulator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from grader import verify
from grader.checks.configs import every_config
from grader.checks.form import form
from grader.checks.trial import Trial, ended, grad_outputs, oracle
from grader.inputs import is_differentiable
from grader.sandbox.client import Outcome, Student, StudentFaultError
from grader.sandbox.protocol import Packed
from grader.scorecard import Check, Verdict
from grader.seen import AutotunedSeen, FindingSeen
from grader.spec import Inputs, Phase
from grader.verify import PASSED

# of one test; the rest are counted
MAX_FINDINGS = 4


def memory(trial: Trial, student: Student, inputs: Inputs, rng: torch.Generator) -> Check:
    """Bounds, races, unwritten elements and traffic of all launches, in the simulator."""
    phase: Phase = "backward" if trial.problem.differentiable else "forward"
    outputs = oracle(trial.problem, inputs) if phase == "backward" else {}
    grads = grad_outputs(trial.case, outputs, rng)

    def judge(config: int) -> tuple[Check, Sequence[AutotunedSeen]]:
        try:
            outcome = _run(trial, student, inputs, grads, config)
        except StudentFaultError as fault:
            return _of_the_forward(trial, student, inputs, fault), ()
        # how much it moves depends on the config, and a config of small tiles may be of no use here
        # but win on a small GPU: what is judged is the first, as README says
        check = _judged(trial, outcome, None if config else phase)
        if check.verdict is Verdict.PASSED and phase == "backward":
            check = _without_backward(trial, outcome, inputs, outputs) or PASSED
        return check, outcome.reply.autotuned

    return every_config(trial, judge)


def _run(
    trial: Trial,
    student: Student,
    inputs: Inputs,
    grads: Mapping[str, torch.Tensor],
    config: int,
) -> Outcome:
    if not trial.problem.differentiable:
        return student.forward(inputs, backend="sim", case=trial.case, autotune_config=config)
    return student.vjp(inputs, grads, backend="sim", case=trial.case, autotune_config=config)


def _without_backward(
    trial: Trial, outcome: Outcome, inputs: Inputs, outputs: Mapping[str, torch.Tensor]
) -> Check | None:
    """Why no backward ran that could be checked: outputs autograd cannot use, or no gradient."""
    missing = [
        name
        for name, value in inputs.items()
        if is_differentiable(value) and name not in {*outcome.grads, *outcome.reply.wrong_grads}
    ]
    wrong = form(trial, outcome, outputs)
    if wrong or not missing:
        return wrong
    what = f"no gradient reaches {', '.join(missing)}, so there is no backward to check"
    return verify.fail(Verdict.WRONG_GRADIENT, what, trial.context)


def _of_the_forward(
    trial: Trial, student: Student, inputs: Inputs, fault: StudentFaultError
) -> Check:
    """While the backward is not written yet, what is wrong in the forward is worth knowing."""
    check = ended(trial, fault)
    if fault.verdict is not Verdict.NOT_IMPLEMENTED or not trial.problem.differentiable:
        return check
    try:
        outcome = student.forward(inputs, backend="sim", case=trial.case)
    except StudentFaultError:
        return check
    found = _judged(trial, outcome, "backward")
    return check if found.verdict is Verdict.PASSED else found


def _judged(trial: Trial, outcome: Outcome, phase: Phase | None) -> Check:
    """What the launches did; the traffic of the phase, if one is given."""
    reply = outcome.reply
    # stores beside the tensor and elements left out are why too little was written, where there are any
    findings = [finding for finding in reply.findings if finding.kind != "note"]
    foreign = "" if findings else _foreign(trial, outcome)
    if foreign or not reply.n_launches:
        what = (
            f"{foreign or 'no kernel of your own ran'}: this problem asks for kernels of your own"
        )
        return verify.fail(Verdict.FOREIGN_KERNEL, what, trial.context)
    if findings:
        return _found(trial, findings)
    return PASSED if phase is None else _traffic(trial, outcome, phase)


def _foreign(trial: Trial, outcome: Outcome) -> str:
    """What kernels of the student's own did not write, of the outputs and of the gradients, or "".

    How much of the work is the student's own is judged by time elsewhere; this is its floor. Of the
    gradients the largest must be written, where the problem asks for a backward of one's own: others
    may be summed by PyTorch, as the partial sums of a weight's.
    """
    reply = outcome.reply
    n_outputs = sum(_sizes(outcome.outputs))
    if reply.written < n_outputs:
        return f"kernels wrote {reply.written} elements, but the output has {n_outputs}"
    if not outcome.grads or len(reply.launches) < reply.n_launches:
        return ""
    forward, backward = (
        sum(
            moved.written + moved.atomics
            for launch in launches
            for moved in launch.arguments.values()
        )
        for launches in (
            reply.launches[: reply.n_forward_launches],
            reply.launches[reply.n_forward_launches :],
        )
    )
    if forward < n_outputs:
        return f"the forward's kernels wrote {forward} elements, but the output has {n_outputs}"
    n_grad = max(_sizes(outcome.grads))
    if "both" in trial.problem.own_share and backward < n_grad:
        return f"the backward's kernels wrote {backward} elements, but a gradient has {n_grad}"
    return ""


def _sizes(tensors: Mapping[str, Packed]) -> list[int]:
    return [math.prod(packed.header.shape) for packed in tensors.values()]


def _found(trial: Trial, findings: Sequence[FindingSeen]) -> Check:
    """All findings in words, the one that gives the verdict first, else in the order they were made."""
    order = list(Verdict)
    findings = sorted(findings, key=lambda finding: order.index(Verdict(finding.kind)))
    shown = findings[:MAX_FINDINGS]
    (what, *details), *others = map(_told, shown)
    for told in others:
        # what is known of the line, and what to do, once
        details += [f"also: {told[0]}", *(line for line in told[1:] if line not in details)]
    if len(findings) > len(shown):
        n = len(findings) - len(shown)
        details.append(f"and {n} more finding{'s' * (n != 1)}")
    return verify.fail(Verdict(findings[0].kind), what, trial.context, *details)


def _told(finding: FindingSeen) -> tuple[str, ...]:
    """A finding in words: what and where, then the line and what is known of it."""
    if finding.kind == "never_written":
        # where the last kernel that wrote there begins, if any did
        near = "" if finding.where.startswith(":0") else f"it is written by {finding.where}"
        return (finding.text, near, finding.advice)
    return (
        f"{finding.kind.replace('_', ' ')} at {finding.where}, program {finding.program}",
        finding.source_line,
        finding.text,
        finding.advice,
    )


def _traffic(trial: Trial, outcome: Outcome, phase: Phase) -> Check:
    allowed = trial.problem.traffic(trial.case, phase)
    reply = outcome.reply
    read, written, kernels, launches = reply.read, reply.written, "the kernels", reply.launches
    if read <= allowed.read and written <= allowed.written:
        # what the backward spares must not pay for the forward
        forward = reply.launches[: reply.n_forward_launches]
        if phase == "forward" or len(forward) < reply.n_forward_launches:
            return PASSED
        moved = [t for launch in forward for t in launch.arguments.values()]
        read = sum(t.read + t.atomics for t in moved)
        written = sum(t.written + t.atomics for t in moved)
        allowed = trial.problem.traffic(trial.case, "forward")
        kernels, launches = "the forward's kernels", forward
        if read <= allowed.read and written <= allowed.written:
            return PASSED
    return verify.fail(
        Verdict.EXCESS_TRAFFIC,
        f"{kernels} read {read} and write {written} elements,"
        f" allowed are {allowed.read} and {allowed.written}",
        trial.context,
        *(
            f"{launch.kernel}: "
            + ", ".join(
                f"{name} read {moved.read} written {moved.written}"
                for name, moved in launch.arguments.items()
            )
            for launch in launches
        ),
    )
