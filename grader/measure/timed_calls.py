"""Times calls of one function in one phase, each on fresh inputs. Judges nothing.

Runs in the student's process and in the baselines'. What a student's process replies is a claim;
the verifier checks it against the nonce and the contents it fetches.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grader.measure.constants import MATMUL_PRECISION, WARMUP_CALLS
from grader.measure.fill import content_hash, make_grad_outputs, make_inputs
from grader.measure.stopwatch import Stopwatch
from grader.spec import InputSpec, Phase

# bound before any student code is imported
_autograd_grad = torch.autograd.grad
_set_matmul_precision = torch.set_float32_matmul_precision
_content_hash = content_hash

NONCE_BITS = 62  # a nonce passes through JSON and torch as a signed 64-bit integer

_Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Prepared:
    """What preparing told.

    Attributes:
        warmup_ms: GPU time of each of the ``WARMUP_CALLS``.
        spin_us: How long the GPU is held before the start event.
        peak_bytes: Most bytes one call allocates at once, beyond its inputs.
    """

    warmup_ms: tuple[float, ...]
    spin_us: float
    peak_bytes: int


@dataclass(frozen=True)
class Called:
    """What one timed call told.

    Attributes:
        event_ms: GPU time of the phase, cold L2.
        checksum: ``content_hash`` of the outputs, then the gradients.
        input_hash: ``content_hash`` of the inputs as they are after the call.
    """

    event_ms: float
    checksum: int
    input_hash: int


@dataclass(frozen=True)
class Fetched:
    """Outputs and gradients of a call; ``grads`` in the order of the inputs that require them."""

    outputs: _Tensors
    grads: _Tensors = ()


class TimedCalls:
    """Timed calls of ``fn(*tensors, *scalars)``.

    In phase "both" the forward and the backward are timed together, in "backward" the backward
    alone, after an untimed forward. The gradient of the output lies ready on the device before the
    start event, and autograd gets it after the forward returned.

    Between calls only the last outputs and gradients are kept.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        specs: Sequence[InputSpec],
        scalars: Mapping[str, float | bool],
        phase: Phase,
        stopwatch: Stopwatch,
    ) -> None:
        if phase != "forward" and not any(spec.requires_grad for spec in specs):
            raise ValueError(f"phase {phase}: no input requires a gradient")
        self._fn = fn
        self._specs = (
            [dataclasses.replace(spec, requires_grad=False) for spec in specs]
            if phase == "forward"
            else list(specs)
        )
        self._scalars = tuple(scalars.values())
        self._phase = phase
        self._stopwatch = stopwatch
        self._output_like: list[tuple[tuple[int, ...], torch.dtype]] = []
        self._last: Fetched | None = None

    def prepare(self) -> Prepared:
        """Compile and tune in an untimed call, fit the spin, then make exactly the warm-up calls.

        Sets torch's precision of float32 products for the process.

        Raises:
            TypeError: If ``fn`` returns anything but a tensor or a tuple of tensors.
        """
        self._drop_last()
        _set_matmul_precision(MATMUL_PRECISION)
        outputs = self._run_forward(self._draw(any_nonce()))
        self._output_like = [(tuple(y.shape), y.dtype) for y in outputs]
        del outputs
        # compiles and tunes the backward, too
        self._set_up(any_nonce()).work()
        self._stopwatch.size_spin(lambda: self._set_up(any_nonce()).work)
        calls = [self._call(any_nonce()) for _ in range(WARMUP_CALLS)]
        return Prepared(
            warmup_ms=tuple(called.event_ms for called, _ in calls),
            spin_us=self._stopwatch.spin_us,
            peak_bytes=max(peak_bytes for _, peak_bytes in calls),
        )

    def call(self, nonce: int) -> Called:
        """Time one call on the inputs that ``nonce`` gives; keep what it returned."""
        called, _ = self._call(nonce)
        return called

    def fetch(self) -> Fetched:
        """Give outputs and gradients of the preceding call, on the device.

        They may be hundreds of megabytes; nothing is copied here.

        Raises:
            RuntimeError: If there was no call.
        """
        if self._last is None:
            raise RuntimeError("fetch before any call")
        return self._last

    def _call(self, nonce: int) -> tuple[Called, int]:
        if not self._output_like:
            raise RuntimeError("call before prepare")
        # the allocator then serves every call from the same blocks
        self._drop_last()
        setup = self._set_up(nonce)
        timed = self._stopwatch.time(setup.work)
        outputs, grads = timed.result
        # detached, so that the graph does not keep the inputs alive
        self._last = Fetched(
            tuple(y.detach() for y in outputs), tuple(grad.detach() for grad in grads)
        )
        called = Called(
            event_ms=timed.event_ms,
            checksum=_content_hash((*self._last.outputs, *self._last.grads)),
            input_hash=_content_hash(setup.inputs),
        )
        return called, timed.peak_bytes

    def _drop_last(self) -> None:
        self._last = None

    def _draw(self, nonce: int) -> list[torch.Tensor]:
        return make_inputs(self._specs, nonce, self._stopwatch.device)

    def _set_up(self, nonce: int) -> _Setup:
        inputs = self._draw(nonce)
        if self._phase == "forward":
            return _Setup(inputs, lambda: (self._run_forward(inputs), ()))
        leaves = [x for x in inputs if x.requires_grad]
        grad_outputs = make_grad_outputs(self._output_like, nonce, self._stopwatch.device)
        if self._phase == "backward":
            outputs = self._run_forward(inputs)
            return _Setup(inputs, lambda: (outputs, _autograd_grad(outputs, leaves, grad_outputs)))

        def both() -> tuple[_Tensors, _Tensors]:
            outputs = self._run_forward(inputs)
            return outputs, _autograd_grad(outputs, leaves, grad_outputs)

        return _Setup(inputs, both)

    def _run_forward(self, inputs: Sequence[torch.Tensor]) -> _Tensors:
        result = self._fn(*inputs, *self._scalars)
        outputs = result if isinstance(result, tuple) else (result,)
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise TypeError(f"returned {type(output).__name__}, want a tensor")
        return outputs


@dataclass(frozen=True)
class _Setup:
    """Inputs of one call, and the work to time on them."""

    inputs: list[torch.Tensor]
    work: Callable[[], tuple[_Tensors, _Tensors]]


def any_nonce() -> int:
    """Draw a nonce that nothing else will ask for."""
    return secrets.randbits(NONCE_BITS)
