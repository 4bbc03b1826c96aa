"""The kernels of an imported submission, and the arguments that a launch log names, made again."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_ALIGNMENT_BYTES = 16


class NotReplayableError(Exception):
    """A launch that cannot be compiled again from its log. No fault of the kernel."""


# file, line of the first decorator, name of the function
Place = tuple[str, int, str]


def found(folder: Path) -> dict[Place, Any]:
    """All kernels that Triton holds of the files in a folder, wherever they are kept."""
    from triton.runtime.jit import JITFunction  # noqa: PLC0415  not everywhere installed

    kernels = {}
    for kernel in gc.get_objects():
        # type(), as isinstance would ask strange objects for their __class__
        if type(kernel) is JITFunction:
            path, fn = Path(kernel.fn.__code__.co_filename), kernel.fn
            if path.parent == folder:
                kernels[path.name, fn.__code__.co_firstlineno, fn.__name__] = kernel
    return kernels


def find(kernels: Mapping[Place, Any], file: str, line: int, name: str) -> Any:
    """The kernel that a launch names.

    Raises:
        NotReplayableError: If there is none, such as one that is made while the entry point runs.
    """
    if (file, line, name) not in kernels:
        raise NotReplayableError(f"{name} is not there after importing {file}")
    return kernels[file, line, name]


def decoded(name: str, kind: str, value: Any) -> Any:
    """One argument that Triton specialises on as it did on the one in the launch.

    Raises:
        NotReplayableError: If the log does not say enough.
    """
    if kind in {"aligned", "pointer"}:
        return _pointer(getattr(torch, value), is_aligned=kind == "aligned")
    if kind == "descriptor":
        return _descriptor(value)
    if kind == "dtype":
        import triton.language as tl  # noqa: PLC0415  not everywhere installed

        return tl.dtype(value)
    if kind == "constant_float":
        return float(value)
    if kind == "tuple":
        return tuple(decoded(name, *item) for item in value)
    if kind == "other":
        raise NotReplayableError(f"the argument {name} is a {value}")
    return value


def all_decoded(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of one launch. Raises as ``decoded``."""
    return {name: decoded(name, *encoded) for name, encoded in arguments.items()}


def _pointer(dtype: torch.dtype, *, is_aligned: bool) -> torch.Tensor:
    # torch aligns its allocations to 64 bytes; one element further, no type is aligned to 16
    tensor = torch.empty(2 * _ALIGNMENT_BYTES, dtype=dtype)
    return tensor if is_aligned else tensor[1:]


def _descriptor(told: str) -> Any:
    """A tensor descriptor of one block."""
    from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: PLC0415  not everywhere installed

    dtype, padding, *sizes = told.split()
    block = [int(size) for size in sizes]
    tensor = torch.empty(block, dtype=getattr(torch, dtype))
    return TensorDescriptor.from_tensor(tensor, block, padding)
