"""The simulator's own memory stays bounded, however large the grid."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def vector_add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK_SIZE=1024)
    return out
"""
PROGRAM = """
import json, sys
from pathlib import Path
import torch
from grader.simulator import load_module, recording

module = load_module(Path(sys.argv[1]), name="kernels")
n = 1 << 26
x, y = torch.arange(n, dtype=torch.float32), torch.ones(n)
with recording() as log:
    out = module.vector_add(x, y)
    log.check_written(out, "y")
(launch,) = log.launches
peak_kib = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(json.dumps({
    "right": all(torch.equal(o, a + 1) for o, a in zip(out.split(1 << 22), x.split(1 << 22))),
    "findings": len(log.findings),
    "n_programs": launch.n_programs,
    "read": [launch.arguments[name].read for name in ("x_ptr", "y_ptr")],
    "peak_bytes": peak_kib * 1024,
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc to tell the peak of a process")
def test_65536_programs_over_2_to_the_26_elements_fit_into_2_gb(tmp_path: Path) -> None:
    """All of the process: torch, the three tensors (0.8 GB), and all that the checks keep."""
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL)

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        cwd=Path(__file__).resolve().parent.parent.parent,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told.pop("peak_bytes") < 2e9
    assert told == {"right": True, "findings": 0, "n_programs": 65_536, "read": [1 << 26] * 2}
