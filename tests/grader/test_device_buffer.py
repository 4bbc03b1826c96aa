"""grader.sandbox.device_buffer: memory shared between two processes, on a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from grader.sandbox.device_buffer import Buffers, room
from tests.grader.course import ROOT

WRITER = """
import sys
import torch
from grader.sandbox.device_buffer import write
tensors = [torch.arange(5, device="cuda", dtype=torch.float32), torch.ones(2, 3, device="cuda").half()]
print(write(sys.argv[1], int(sys.argv[2]), tensors))
"""


@pytest.mark.parametrize(
    ("sizes", "n_bytes"),
    [([], 0), ([1], 512), ([512], 512), ([513, 1], 1536)],
)
def test_room_rounds_each_tensor_up(sizes: list[int], n_bytes: int) -> None:
    """Every tensor starts at a multiple of 512 bytes."""
    assert room(sizes) == n_bytes


def test_without_a_gpu_there_is_no_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CUDA cannot share memory, contents take the way through the CPU."""

    def refuse(_n_bytes: int) -> None:
        raise OSError("no")

    monkeypatch.setattr("grader.sandbox.device_buffer.DeviceBuffer", refuse)

    assert Buffers().at_least(10) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_another_process_writes_what_we_read() -> None:
    """Two tensors written by another process arrive bit by bit; a copy does not change later."""
    buffers = Buffers()
    buffer = buffers.at_least(4096)
    assert buffer is not None

    said = subprocess.run(
        [sys.executable, "-c", WRITER, buffer.handle, str(buffer.n_bytes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    first = buffer.read(0, 20).view(torch.float32)
    second = buffer.read(512, 12).view(torch.float16).reshape(2, 3)
    assert said.strip() == "[0, 512]"
    assert torch.equal(first.cpu(), torch.arange(5.0))
    assert torch.equal(second.cpu(), torch.ones(2, 3).half())
    assert buffers.at_least(100) is buffer
    buffers.close()
