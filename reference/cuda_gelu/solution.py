"""GELU (tanh form) in CUDA C++; the kernel is in the .cu file of this name."""

import functools
from pathlib import Path
from types import ModuleType

import torch
from torch.utils.cpp_extension import load_inline

CUDA_FILE = Path(__file__).with_suffix(".cu")


@functools.cache
def extension() -> ModuleType:
    """The compiled .cu file as a Python module. Compiling takes a minute, so it is kept."""
    # load_inline(name=..., cpp_sources=..., cuda_sources=..., functions=[...]) writes a main.cpp that
    # binds the functions named, and a cuda.cu; ninja has both compiled and linked. main.cpp is
    # compiled without the .cu file: cpp_sources must declare each function, just as it is defined.
    # BEGIN SOLUTION
    return load_inline(
        name="cuda_gelu",
        cpp_sources="torch::Tensor cuda_gelu(torch::Tensor x);",
        cuda_sources=CUDA_FILE.read_text(encoding="utf-8"),
        functions=["cuda_gelu"],
    )
    # END SOLUTION


def cuda_gelu(x: torch.Tensor) -> torch.Tensor:
    """Compute x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).

    Args:
        x: Any shape, float32, contiguous, on the GPU.

    Returns:
        Shape and dtype of ``x``, in memory of its own.
    """
    return extension().cuda_gelu(x)
