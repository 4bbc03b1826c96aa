"""Tensor descriptors: windows that check every axis, made in a kernel or on the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.simulator import access, atomics, host_marks
from grader.simulator.block_pointers import BlockPointer, padding_value, scalars
from grader.simulator.constants import plain
from grader.simulator.creation import block_shape, cast
from grader.simulator.dtypes import pointer_type
from grader.simulator.errors import refuse
from grader.simulator.values import Value, value_of

# the names that kernels know as tl.<name>
LANGUAGE = ("make_tensor_descriptor", "load_tensor_descriptor", "store_tensor_descriptor")

_ALIGNMENT_BYTES = 16
_MAX_RANK = 5


@dataclass
class TensorDescriptor:
    """triton.tools.tensor_descriptor.TensorDescriptor: what the host gives to a kernel."""

    base: torch.Tensor
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        if not len(self.shape) == len(self.strides) == len(self.block_shape):
            raise ValueError(f"shape, strides and block_shape differ in length: {self}")
        if not 1 <= len(self.shape) <= _MAX_RANK:
            raise ValueError(f"a tensor descriptor has 1 to {_MAX_RANK} axes: {self}")
        if self.base.data_ptr() % _ALIGNMENT_BYTES:
            raise ValueError("the base of a tensor descriptor must be 16-byte aligned")
        item_bytes = self.base.element_size()
        if any(stride * item_bytes % _ALIGNMENT_BYTES for stride in self.strides[:-1]):
            raise ValueError(f"strides {tuple(self.strides)} must be multiples of 16 bytes")
        if self.strides[-1] != 1:
            raise ValueError("the last axis of a tensor descriptor must be contiguous")

    @staticmethod
    def from_tensor(
        tensor: torch.Tensor, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """The descriptor of a whole tensor."""
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding)


class Descriptor:
    """``tl.tensor_descriptor``: what a kernel sees of either kind."""

    def __init__(self, window: BlockPointer, fill: float | None) -> None:
        self._window = window
        self._fill = fill

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self._window.base.dtype.element_ty

    @property
    def shape(self) -> list[Any]:
        """Shape of the tensor."""
        return self._window.extent

    @property
    def strides(self) -> list[Any]:
        """Strides of the tensor, in elements."""
        return self._window.strides

    @property
    def block_shape(self) -> list[int]:
        """Shape of a block."""
        return list(self._window.block)

    def _lanes(self, offsets: Any) -> tuple[Value, Value | None]:
        at, rank = scalars(offsets, "offsets"), len(self._window.block)
        if len(at) != rank:
            refuse(f"this tensor descriptor takes {rank} offsets, not {len(at)}")
        return self._window.at(at).lanes(list(range(rank)))

    def _checked(self, value: Any) -> Value:
        given = value_of(value)
        if given.shape != self._window.block:
            refuse(f"the block has shape {self._window.block}, the value {given.shape}")
        return cast(given, self.dtype)

    def load(self, offsets: Any) -> Value:
        """The block at these offsets; zeros (or NaN) outside the tensor."""
        pointer, inside = self._lanes(offsets)
        return access.load(pointer, inside, self._fill)

    def store(self, offsets: Any, value: Any) -> None:
        """Write a block at these offsets; nothing outside the tensor."""
        given = self._checked(value)
        pointer, inside = self._lanes(offsets)
        access.store(pointer, given, inside)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Add a block at these offsets."""
        given = self._checked(value)
        pointer, inside = self._lanes(offsets)
        atomics.atomic("add", pointer, (given,), inside)


def _descriptor(
    base: Value, shape: list[Any], strides: list[Any], block: Any, padding: Any
) -> Descriptor:
    sizes = block_shape(block)
    row_bytes = sizes[-1] * base.dtype.element_ty.itemsize
    if row_bytes < _ALIGNMENT_BYTES:
        refuse(
            f"a block of shape {sizes} has rows of {row_bytes} bytes: a tensor descriptor needs "
            f"at least {_ALIGNMENT_BYTES}"
        )
    fill = padding_value(plain(padding) or "zero")
    return Descriptor(BlockPointer(base, shape, strides, [0] * len(shape), sizes), fill)


def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> Descriptor:
    """A tensor descriptor of the tensor at ``base``."""
    if not isinstance(base, Value) or not isinstance(base.dtype, pointer_type):
        refuse("tl.make_tensor_descriptor begins with a pointer")
    extent, steps = scalars(shape, "shape"), scalars(strides, "strides")
    if not 1 <= len(extent) <= _MAX_RANK:
        refuse(f"a tensor descriptor has 1 to {_MAX_RANK} axes, not {len(extent)}")
    # an argument that is 1 is a constant to the compiler
    if (value_of(steps[-1]).data != 1).any():
        refuse("the last stride of a tensor descriptor must be 1")
    item_bytes = base.dtype.element_ty.itemsize
    for stride in steps[:-1]:
        _check_alignment(stride, item_bytes)
    return _descriptor(base, extent, steps, block_shape, padding_option)


def _check_alignment(stride: Any, item_bytes: int) -> None:
    given = value_of(stride).data
    if (given.astype(np.int64) * item_bytes % _ALIGNMENT_BYTES).any():
        refuse("the strides of a tensor descriptor must be multiples of 16 bytes")


def load_tensor_descriptor(desc: Descriptor, offsets: Any) -> Value:
    """``desc.load(offsets)``."""
    return desc.load(offsets)


def store_tensor_descriptor(desc: Descriptor, offsets: Any, value: Any) -> None:
    """``desc.store(offsets, value)``."""
    desc.store(offsets, value)


def from_host(name: str, given: TensorDescriptor, base: Value) -> Descriptor:
    """What a kernel sees of a host's descriptor, whose tensor it sees as ``base``."""
    host_marks.check_device(name, given.base)
    extent, strides = [int(n) for n in given.shape], [int(n) for n in given.strides]
    return _descriptor(base, extent, strides, list(given.block_shape), given.padding)
