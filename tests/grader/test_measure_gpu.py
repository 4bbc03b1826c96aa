"""The same on a real GPU: bits, checksums, and a problem timed end to end."""

from __future__ import annotations

import pytest
import torch

from grader.measure.bench import measure_problem
from grader.measure.constants import MIN_PAIRS, MIN_SPIN_US, MIN_VERIFIED, WARMUP_CALLS
from grader.measure.fill import content_hash, make_grad_outputs, make_inputs
from grader.measure.implementations import Impl, baseline
from grader.measure.roofline import measure_peaks, probe, probe_specs
from grader.measure.stopwatch import CudaStopwatch
from grader.measure.timed_calls import TimedCalls
from grader.spec import BenchmarkCase, Dtype, Group, InputSpec, Phase, Problem, Tolerance, Traffic

pytestmark = [
    pytest.mark.gpu,
    # torch's compiler warns of torch's own deprecations
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

CUDA = torch.device("cuda")
SPECS = [
    InputSpec("contiguous", (1023, 513), "float32"),
    InputSpec("padded", (1023, 513), "bfloat16", stride=(520, 1), scale=2.0, shift=1.0),
    InputSpec("transposed", (513, 1023), "float16", stride=(1, 513), fill="uniform"),
    InputSpec("expanded", (64, 513), "float64", stride=(0, 1)),
    InputSpec("index", (4097,), "int64", fill="integers"),
    InputSpec("digit", (4097,), "int8", fill="integers"),
    InputSpec("mask", (4097,), "bool", fill="integers"),
]


def test_a_nonce_gives_equal_bits_again() -> None:
    """Two draws on this device are equal, in every dtype and layout."""
    first, second = (make_inputs(SPECS, 2**62 - 1, CUDA) for _ in range(2))

    for spec, a, b in zip(SPECS, first, second, strict=True):
        assert torch.equal(a, b), spec.name
        assert a.shape == spec.shape
        assert spec.stride is None or a.stride() == spec.stride
    grads = [make_grad_outputs([((1000,), torch.bfloat16)], 3, CUDA)[0] for _ in range(2)]
    assert torch.equal(*grads)


def test_checksums_agree_with_the_cpu() -> None:
    """The verifier may hash where it likes, contiguous or not."""
    for spec, x in zip(SPECS, make_inputs(SPECS, 5, CUDA), strict=True):
        want = content_hash([x.cpu().contiguous()])
        assert content_hash([x]) == want, spec.name
        assert content_hash([x[1:]]) == content_hash([x[1:].cpu()]), spec.name


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """``x * w``."""
    return x * w


CASE = BenchmarkCase(
    {"M": 2048, "N": 1024},
    "bfloat16",
    (
        InputSpec("x", (2048, 1024), "bfloat16", requires_grad=True),
        InputSpec("w", (1024,), "bfloat16", requires_grad=True),
    ),
    phases=("forward", "both", "backward"),
)
PROBLEM = Problem(
    name="scaled",
    kind="kernel",
    points=8,
    cases=(),
    make_inputs=lambda _case, _rng: {},
    oracle=lambda x, w: x.double() * w.double(),
    # a sum of 2048 products, rounded to bfloat16 as often as torch likes
    tolerance=lambda _case, output: Tolerance(1e-5 if output != "grad:w" else 4.0, 2**-7),
    min_bytes=lambda _case, _phase: 2 * 2048 * 1024 * 2,
    flops=lambda _case, _phase: 2048 * 1024,
    traffic=lambda _case, _phase: Traffic(0, 0),
    baselines={"eager": scaled, "builtin": None},
    differentiable=True,
    benchmark_cases=(CASE,),
)


def calls(impl: Impl, case: BenchmarkCase, phase: Phase) -> TimedCalls:
    """Timed calls of a baseline on this GPU."""
    fn = baseline(PROBLEM, impl)
    return TimedCalls(fn, case.inputs, case.scalars, phase, CudaStopwatch(CUDA))


@pytest.mark.parametrize("phase", ["forward", "both", "backward"])
def test_prepare_reports_what_it_did(phase: Phase) -> None:
    """Every warm-up call has a time, the spin at least its minimum, the outputs take memory."""
    prepared = calls("eager", CASE, phase).prepare()

    assert len(prepared.warmup_ms) == WARMUP_CALLS
    assert all(ms > 0 for ms in prepared.warmup_ms)
    assert prepared.spin_us >= MIN_SPIN_US
    assert prepared.peak_bytes >= 2048 * 1024 * 2


def test_a_problem_end_to_end() -> None:
    """Eager in the student's place is right in every phase, against itself and compiled."""
    peaks = measure_peaks(
        lambda name, dtype: TimedCalls(
            probe(name), probe_specs(name, dtype), {}, "forward", CudaStopwatch(CUDA)
        ),
        ["bfloat16"],
    )
    passed: dict[Dtype, frozenset[Group]] = {"bfloat16": frozenset({"forward", "backward"})}

    measurement = measure_problem(
        PROBLEM,
        open_student=lambda case, phase: calls("eager", case, phase),
        open_baseline=lambda case, phase, impl: calls(impl, case, phase),
        gpu=torch.cuda.get_device_name(),
        device=CUDA,
        passed=passed,
        peaks=peaks,
    )

    assert len(measurement.rows) == 9
    for row in measurement.rows:
        assert row.status in {"measured", "unstable"}, row.reason
        assert row.n >= MIN_PAIRS
        assert row.n_verified >= MIN_VERIFIED
        assert row.roofline_pct is not None
    assert measurement.held == ""
