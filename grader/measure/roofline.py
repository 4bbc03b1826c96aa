"""What the machine can do at best, and how near a time comes to it.

The limits are measured by the same protocol as everything else: a copy and a matrix product that
the baselines' process times. Reads no data sheet.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch

from grader.measure.constants import PROBE_CALLS
from grader.measure.pairs import Timer
from grader.measure.timed_calls import any_nonce
from grader.spec import ITEMSIZE, Dtype, InputSpec

Probe: TypeAlias = Literal["copy", "matmul"]

# 1 GiB to read and 1 GiB to write: far beyond any L2, 0.5 ms at 4 TB/s
COPY_BYTES = 1 << 30
# large enough to fill the GPU: 1.6 ms in bfloat16 and 2.7 ms in float32 at 700 and 50 TFLOP/s
MATMUL_SIZE: dict[Dtype, int] = {
    "float64": 4096,
    "float32": 4096,
    "float16": 8192,
    "bfloat16": 8192,
}


@dataclass(frozen=True)
class Peaks:
    """Measured limits of one GPU.

    Attributes:
        bytes_per_s: Bytes read plus bytes written, of a copy.
        flops_per_s: Floating-point operations, of a matrix product, per dtype of its inputs.
    """

    bytes_per_s: float
    flops_per_s: Mapping[Dtype, float]


def probe(name: Probe) -> Callable[..., torch.Tensor]:
    """Give the function to time, in the baselines' process."""
    return torch.clone if name == "copy" else torch.matmul


def probe_specs(name: Probe, dtype: Dtype) -> tuple[InputSpec, ...]:
    """Give the inputs of a probe."""
    if name == "copy":
        return (InputSpec("x", (COPY_BYTES // ITEMSIZE[dtype],), dtype),)
    size = MATMUL_SIZE[dtype]
    return InputSpec("a", (size, size), dtype), InputSpec("b", (size, size), dtype)


def measure_peaks(open_probe: Callable[[Probe, Dtype], Timer], dtypes: Iterable[Dtype]) -> Peaks:
    """Time a float32 copy, and a matrix product in each of ``dtypes``."""
    copy_s = _median_s(open_probe("copy", "float32"))
    flops_per_s = {
        dtype: 2 * MATMUL_SIZE[dtype] ** 3 / _median_s(open_probe("matmul", dtype))
        for dtype in sorted(set(dtypes))
    }
    return Peaks(2 * COPY_BYTES / copy_s, flops_per_s)


def limit_ms(min_bytes: int, flops: int, dtype: Dtype, peaks: Peaks) -> float:
    """Give the least time a kernel needs on this GPU: the larger of moving and computing.

    max(min_bytes / bytes_per_s, flops / flops_per_s). Anchors at 1 TB/s and 1 TFLOP/s: 10**9 bytes
    and 10**6 operations take 1 ms, and so do 10**9 operations on 10**6 bytes.
    Source: Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance
    model for multicore architectures".
    """
    return 1e3 * max(min_bytes / peaks.bytes_per_s, flops / peaks.flops_per_s[dtype])


def roofline_pct(min_bytes: int, flops: int, dtype: Dtype, median_ms: float, peaks: Peaks) -> float:
    """Give the percentage of the limit that a time reaches; a read-mostly kernel may pass 100."""
    return 100 * limit_ms(min_bytes, flops, dtype, peaks) / median_ms


def _median_s(timer: Timer) -> float:
    timer.prepare()
    times_ms = [timer.call(any_nonce()).event_ms for _ in range(PROBE_CALLS)]
    return statistics.median(times_ms) / 1e3
