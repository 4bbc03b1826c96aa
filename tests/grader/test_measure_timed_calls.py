"""Timed calls: fresh inputs each, the right part timed, the last outputs kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch

from grader.measure.constants import LAUNCH_PROBES, MATMUL_PRECISION, WARMUP_CALLS
from grader.measure.fill import content_hash, make_grad_outputs, make_inputs
from grader.measure.stopwatch import ScriptedStopwatch, Timed
from grader.measure.timed_calls import TimedCalls
from grader.spec import InputSpec, Phase

CPU = torch.device("cpu")
SPECS = [
    InputSpec("x", (4, 8), "float32", requires_grad=True),
    InputSpec("w", (8,), "float32", requires_grad=True),
]
T = TypeVar("T")


@pytest.fixture(autouse=True)
def precision() -> Iterator[None]:
    """Preparing sets torch's precision for the process; put it back."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


class Recorder(ScriptedStopwatch):
    """Writes down what happens inside the timed region and what outside."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.log: list[str] = []

    def time(self, work: Callable[[], T]) -> Timed[T]:
        """Mark the region."""
        self.log.append("start")
        timed = super().time(work)
        self.log.append("end")
        return timed


class Scale(torch.autograd.Function):
    """``x * w``, telling the log when each direction runs."""

    log: list[str]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        """Run forward."""
        Scale.log.append("forward")
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run backward."""
        Scale.log.append("backward")
        x, w = ctx.saved_tensors
        return grads[0] * w, (grads[0] * x).sum(0)


def scale(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Entry point."""
    apply: Callable[..., torch.Tensor] = Scale.apply
    return apply(x, w)


def timed_calls(phase: Phase) -> tuple[TimedCalls, list[str]]:
    """Calls of ``scale``, prepared, with an empty log."""
    watch = Recorder()
    Scale.log = watch.log
    calls = TimedCalls(scale, SPECS, {}, phase, watch)
    calls.prepare()
    watch.log.clear()
    return calls, watch.log


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param("forward", ["start", "forward", "end"], id="forward"),
        pytest.param("both", ["start", "forward", "backward", "end"], id="both"),
        pytest.param("backward", ["forward", "start", "backward", "end"], id="backward"),
    ],
)
def test_what_is_timed(phase: Phase, want: list[str]) -> None:
    """Each phase times its own part of one call."""
    calls, log = timed_calls(phase)

    calls.call(1)

    assert log == want


def test_warm_up_is_a_fixed_number_of_timed_calls() -> None:
    """Exactly WARMUP_CALLS are timed in prepare; compiling and sizing the spin are not."""
    watch = Recorder()
    Scale.log = watch.log

    prepared = TimedCalls(scale, SPECS, {}, "forward", watch).prepare()

    assert prepared.warmup_ms == (1.0,) * WARMUP_CALLS
    assert watch.log.count("start") == WARMUP_CALLS
    assert watch.log.count("forward") == 2 + LAUNCH_PROBES + WARMUP_CALLS


def test_inputs_outputs_and_gradients_are_those_of_the_nonce() -> None:
    """The verifier gets the same from the nonce: x * w, and the gradients of its own draw."""
    calls, _ = timed_calls("both")

    called = calls.call(9)
    fetched = calls.fetch()

    x, w = make_inputs(SPECS, 9, CPU)
    (grad,) = make_grad_outputs([((4, 8), torch.float32)], 9, CPU)
    assert called.input_hash == content_hash([x, w])
    assert torch.equal(fetched.outputs[0], x * w)
    assert torch.equal(fetched.grads[0], grad * w)
    assert torch.equal(fetched.grads[1], (grad * x).sum(0))
    assert called.checksum == content_hash((*fetched.outputs, *fetched.grads))


def test_only_the_last_call_is_kept_and_without_its_graph() -> None:
    """A fetch gives the preceding call's outputs; no graph keeps inputs alive."""
    calls, _ = timed_calls("both")
    calls.call(1)
    called = calls.call(2)

    fetched = calls.fetch()

    assert content_hash((*fetched.outputs, *fetched.grads)) == called.checksum
    assert all(t.grad_fn is None for t in (*fetched.outputs, *fetched.grads))


def test_forward_asks_for_no_gradient() -> None:
    """In phase forward the inputs are plain tensors, as in inference."""
    asked = []

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        asked.append(x.requires_grad or w.requires_grad)
        return x * w

    TimedCalls(fn, SPECS, {}, "forward", ScriptedStopwatch(1.0)).prepare()

    assert not any(asked)


def test_scalars_follow_the_tensors() -> None:
    """The order of the arguments is that of inputs, then scalars."""

    def fn(x: torch.Tensor, eps: float, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
        assert (eps, causal) == (1e-5, True)
        return x, x + 1

    calls = TimedCalls(fn, SPECS[:1], {"eps": 1e-5, "causal": True}, "forward", Recorder())
    calls.prepare()
    calls.call(3)

    assert len(calls.fetch().outputs) == 2


def test_a_changed_input_shows_in_the_hash() -> None:
    """The inputs are hashed after the call."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x.mul_(w)

    calls = TimedCalls(fn, SPECS, {}, "forward", ScriptedStopwatch(1.0))
    calls.prepare()

    assert calls.call(4).input_hash != content_hash(make_inputs(SPECS, 4, CPU))


def test_what_is_no_tensor_is_refused() -> None:
    """Forgetting to return is the student's error, told as such."""
    calls = TimedCalls(lambda x, w: None, SPECS, {}, "forward", ScriptedStopwatch(1.0))

    with pytest.raises(TypeError, match="returned NoneType, want a tensor"):
        calls.prepare()


def test_requests_out_of_order_are_refused() -> None:
    """No call before prepare, no fetch before a call, no backward without a gradient."""
    calls = TimedCalls(scale, SPECS, {}, "forward", ScriptedStopwatch(1.0))
    with pytest.raises(RuntimeError, match="fetch before any call"):
        calls.fetch()
    with pytest.raises(RuntimeError, match="call before prepare"):
        calls.call(1)
    with pytest.raises(ValueError, match="no input requires a gradient"):
        TimedCalls(scale, [InputSpec("x", (4,), "float32")], {}, "both", ScriptedStopwatch(1.0))


def test_products_may_use_tf32_for_everyone() -> None:
    """The precision of float32 products is set before the first call, whatever it was."""
    seen: list[str] = []
    torch.set_float32_matmul_precision("highest")

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return x * w

    TimedCalls(fn, SPECS, {}, "forward", ScriptedStopwatch(1.0)).prepare()

    assert set(seen) == {MATMUL_PRECISION}
