"""A fetched call is judged from the nonce: contents, inputs, values, gradients."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from grader.measure.fill import content_hash, make_grad_outputs, make_inputs
from grader.measure.timed_calls import Called, Fetched
from grader.measure.verification import verifier, verify_call
from grader.scorecard import Check, Verdict
from grader.spec import BenchmarkCase, InputSpec, Phase, Problem, Tolerance, Traffic

CPU = torch.device("cpu")
NONCE = 77
CASE = BenchmarkCase(
    {"M": 4, "N": 8},
    "bfloat16",
    (
        InputSpec("x", (4, 8), "bfloat16", requires_grad=True),
        InputSpec("index", (4,), "int64", fill="integers"),
    ),
    scalars={"factor": 3.0},
    phases=("forward", "both"),
)


def oracle(x: torch.Tensor, index: torch.Tensor, factor: float) -> torch.Tensor:
    """Rows of ``x * factor``, plus their index."""
    return x.double() * factor + index[:, None]


PROBLEM = Problem(
    name="affine",
    kind="kernel",
    points=8,
    cases=(),
    make_inputs=lambda _case, _rng: {},
    oracle=oracle,
    # half a unit in the last place of bfloat16 is 2**-9
    tolerance=lambda _case, output: Tolerance(1e-6, 2**-8 if output == "y" else 2**-7),
    min_bytes=lambda _case, _phase: 128,
    flops=lambda _case, _phase: 64,
    traffic=lambda _case, _phase: Traffic(32, 32),
    baselines={"eager": lambda x, index, factor: x * factor + index[:, None]},
    differentiable=True,
    benchmark_cases=(CASE,),
)


def right_call(phase: Phase = "both") -> tuple[Called, Fetched]:
    """An honest call in bfloat16."""
    x, index = make_inputs(CASE.inputs, NONCE, CPU)
    y = (x.detach().float() * 3 + index[:, None]).bfloat16()
    (grad,) = make_grad_outputs([((4, 8), torch.bfloat16)], NONCE, CPU)
    fetched = Fetched((y,), ((grad.float() * 3).bfloat16(),) if phase == "both" else ())
    return called_for(fetched), fetched


def called_for(fetched: Fetched) -> Called:
    """The reply that goes with some contents."""
    return Called(
        event_ms=1.0,
        checksum=content_hash((*fetched.outputs, *fetched.grads)),
        input_hash=content_hash(make_inputs(CASE.inputs, NONCE, CPU)),
    )


def judge(called: Called, fetched: Fetched, phase: Phase = "both") -> Check | None:
    """Verify the call."""
    return verify_call(PROBLEM, CASE, phase, CPU, NONCE, called, fetched)


@pytest.mark.parametrize("phase", ["forward", "both"])
def test_an_honest_call_is_right(phase: Phase) -> None:
    """Rounding to bfloat16 is within tolerance, gradients included."""
    called, fetched = right_call(phase)

    assert verifier(PROBLEM, CASE, phase, CPU)(NONCE, called, fetched) is None


def test_the_call_of_another_nonce_is_wrong() -> None:
    """An output kept from an earlier call has the earlier values."""
    called, fetched = right_call()
    x, index = make_inputs(CASE.inputs, NONCE + 1, CPU)
    other = dataclasses.replace(called, input_hash=content_hash([x, index]))

    check = verify_call(PROBLEM, CASE, "both", CPU, NONCE + 1, other, fetched)

    assert check is not None
    assert check.verdict is Verdict.WRONG_VALUE
    assert "benchmark both[affine-M4-N8-bfloat16]" in check.cause
    assert "rerun it: python -m grader bench affine" in check.cause


def test_one_wrong_value_or_gradient_is_found() -> None:
    """Values and gradients have their own verdicts."""
    _, fetched = right_call()
    y, grad = fetched.outputs[0].clone(), fetched.grads[0].clone()
    y[3, 7] *= 1.02
    grad[0, 0] *= 1.02

    wrong_y = judge(called_for(f := Fetched((y,), fetched.grads)), f)
    wrong_grad = judge(called_for(f := Fetched(fetched.outputs, (grad,))), f)

    assert wrong_y is not None
    assert wrong_y.verdict is Verdict.WRONG_VALUE
    assert "(3, 7)" in wrong_y.cause
    assert wrong_grad is not None
    assert wrong_grad.verdict is Verdict.WRONG_GRADIENT
    assert "grad:x" in wrong_grad.cause


def test_contents_that_changed_after_the_reply_are_held() -> None:
    """Right values are not those that were timed if their checksum is another."""
    called, fetched = right_call()

    check = judge(dataclasses.replace(called, checksum=called.checksum ^ 1), fetched)

    assert check is not None
    assert check.verdict is Verdict.INTEGRITY_HOLD
    assert "not those that were timed" in check.cause


def test_a_changed_input_is_told() -> None:
    """A hash of other inputs than the nonce's is a modified input."""
    called, fetched = right_call()

    check = judge(dataclasses.replace(called, input_hash=0), fetched)

    assert check is not None
    assert check.verdict is Verdict.MODIFIED_INPUT


@pytest.mark.parametrize(
    ("fetched", "want"),
    [
        pytest.param(Fetched(()), Verdict.WRONG_TYPE, id="nothing"),
        pytest.param(Fetched((torch.zeros(8, 4).bfloat16(),)), Verdict.WRONG_SHAPE, id="shape"),
        pytest.param(Fetched((torch.zeros(4, 8),)), Verdict.WRONG_DTYPE, id="dtype"),
        pytest.param(Fetched((torch.zeros(4, 8).bfloat16(),)), Verdict.WRONG_VALUE, id="zeros"),
        pytest.param(
            Fetched((torch.full((4, 8), torch.nan).bfloat16(),)), Verdict.NON_FINITE, id="nan"
        ),
    ],
)
def test_each_wrong_output_has_its_verdict(fetched: Fetched, want: Verdict) -> None:
    """Form before values."""
    check = judge(called_for(fetched), fetched)

    assert check is not None
    assert check.verdict is want


def test_a_missing_gradient_is_told() -> None:
    """Right outputs without gradients are not enough."""
    _, fetched = right_call("forward")

    check = judge(called_for(fetched), fetched)

    assert check is not None
    assert check.verdict is Verdict.WRONG_TYPE
    assert "want 1: grad:x" in check.cause
