"""Number formats: how Triton's types are stored, computed in, rounded and mixed.

16- and 8-bit floats are computed as float32 and rounded to their own format after each operation:
exact for + - * / and sqrt, since float32 has more than 2p + 2 of their bits. Lifting precision is
then one switch: every float computes in float64 and nothing rounds.
"""

# ruff: noqa: D102  the short methods have Triton's own names, which say it all

from __future__ import annotations

from typing import Any, Self

import ml_dtypes
import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]

_BOOL, _INT, _FLOAT = range(3)
POINTER = -1


class dtype:  # noqa: N801  tl.dtype
    """A scalar type of the kernel language, such as ``tl.float16``."""

    def __new__(cls, name: str) -> Self:
        """The type of this name, such as "fp16": there is one of each.

        Raises:
            ValueError: If there is no type of this name.
        """
        if name not in _FORMATS:
            raise ValueError(f"no type is named {name!r}; there are {', '.join(_FORMATS)}")
        made: Self = _made.get(name) or super().__new__(cls)
        _made[name] = made
        return made

    def __init__(self, name: str) -> None:
        if hasattr(self, "name"):
            return
        kind, bits, storage, mantissa = _FORMATS[name]
        self.name = name
        self.kind = kind
        self.primitive_bitwidth = bits
        self.itemsize = max(1, bits // 8)
        self.fp_mantissa_width = mantissa
        self.signed = kind == _INT and not name.startswith("u")
        self.lowest = -(1 << bits - 1) if self.signed else 0
        self.highest = (1 << bits - int(self.signed)) - 1
        self.storage = np.dtype(storage)
        self._narrow = kind == _FLOAT and bits < 32  # noqa: PLR2004  float32 computes as itself
        self._native = np.dtype(np.float32) if self._narrow else self.storage
        self.compute = self._native
        self.rounds = self._narrow

    def lift(self, on: bool) -> None:
        """Compute in float64 without rounding, or as the GPU does."""
        self.compute = np.dtype(np.float64) if on else self._native
        self.rounds = self._narrow and not on

    @property
    def scalar(self) -> dtype:
        return self

    @property
    def element_ty(self) -> dtype:
        return self

    @property
    def int_bitwidth(self) -> int:
        return self.primitive_bitwidth

    def is_ptr(self) -> bool:
        return False

    def is_floating(self) -> bool:
        return self.kind == _FLOAT

    def is_int(self) -> bool:
        return self.kind != _FLOAT

    def is_bool(self) -> bool:
        return self.kind == _BOOL

    def is_int_signed(self) -> bool:
        return self.kind == _INT and self.signed

    def is_int_unsigned(self) -> bool:
        return self.is_int() and not self.signed

    def is_fp8(self) -> bool:
        return self.kind == _FLOAT and self.itemsize == 1

    def is_fp16(self) -> bool:
        return self is float16

    def is_bf16(self) -> bool:
        return self is bfloat16

    def is_fp32(self) -> bool:
        return self is float32

    def is_fp64(self) -> bool:
        return self is float64

    def is_block(self) -> bool:
        return False

    def __repr__(self) -> str:
        return self.name

    def round(self, x: Array) -> Array:
        """Round each value of a float32 array to this format; fp8 saturates, as cvt.satfinite."""
        if self.is_fp8():
            largest = _LARGEST_FP8[self.name]
            x = np.clip(x, -largest, largest)
        return x.astype(self.storage).astype(np.float32)

    def truncate(self, x: Array) -> Array:
        """Round each value of a float32 array toward zero: the largest number, not infinity."""
        near = self.round(x)
        too_far = np.abs(near) > np.abs(x)
        bits = self.encode(near)
        # in sign and magnitude, one less is the next number toward zero
        return np.where(too_far, self.decode((bits - 1).view(self.storage)), near)

    def encode(self, x: Array) -> Array:
        """Bits, as unsigned integers, of values of this type; what is in a NaN is kept."""
        if self.storage == bfloat16.storage and x.dtype == np.float32:
            return (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        stored = np.ascontiguousarray(x.astype(self.storage, copy=False))
        return stored.view(np.dtype(f"u{self.itemsize}"))

    def decode(self, raw: Array) -> Array:
        """Stored values to the type they are computed in."""
        if raw.dtype == bfloat16.storage and self.compute == np.float32:
            return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        return raw.astype(self.compute, copy=False)


class pointer_type:  # noqa: N801  tl.pointer_type
    """The type of an address of elements of one type."""

    primitive_bitwidth = 64
    kind = POINTER

    def __init__(self, element_ty: dtype, address_space: int = 1) -> None:
        self.element_ty = element_ty
        self.address_space = address_space

    @property
    def scalar(self) -> pointer_type:
        return self

    def is_ptr(self) -> bool:
        return True

    def is_floating(self) -> bool:
        return False

    def is_int(self) -> bool:
        return False

    def is_bool(self) -> bool:
        return False

    def is_block(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, pointer_type) and other.element_ty is self.element_ty

    def __hash__(self) -> int:
        return hash(self.element_ty)

    def __repr__(self) -> str:
        return f"pointer<{self.element_ty}>"


# name: kind, bits, storage, bits of mantissa
_FORMATS: dict[str, tuple[int, int, npt.DTypeLike, int]] = {
    "int1": (_BOOL, 1, np.bool_, 0),
    "int8": (_INT, 8, np.int8, 0),
    "int16": (_INT, 16, np.int16, 0),
    "int32": (_INT, 32, np.int32, 0),
    "int64": (_INT, 64, np.int64, 0),
    "uint8": (_INT, 8, np.uint8, 0),
    "uint16": (_INT, 16, np.uint16, 0),
    "uint32": (_INT, 32, np.uint32, 0),
    "uint64": (_INT, 64, np.uint64, 0),
    "fp8e4nv": (_FLOAT, 8, ml_dtypes.float8_e4m3fn, 3),
    "fp8e5": (_FLOAT, 8, ml_dtypes.float8_e5m2, 2),
    "fp16": (_FLOAT, 16, np.float16, 10),
    "bf16": (_FLOAT, 16, ml_dtypes.bfloat16, 7),
    "fp32": (_FLOAT, 32, np.float32, 23),
    "fp64": (_FLOAT, 64, np.float64, 52),
}
_made: dict[str, Any] = {}
_LARGEST_FP8 = {"fp8e4nv": 448.0, "fp8e5": 57344.0}

int1, int8, int16, int32, int64 = map(dtype, ("int1", "int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(dtype, ("uint8", "uint16", "uint32", "uint64"))
float8e4nv, float8e5 = map(dtype, ("fp8e4nv", "fp8e5"))
float16, bfloat16, float32, float64 = map(dtype, ("fp16", "bf16", "fp32", "fp64"))

FLOATS = (float8e4nv, float8e5, float16, bfloat16, float32, float64)
FROM_TORCH: dict[torch.dtype, dtype] = {
    torch.bool: int1,
    torch.int8: int8,
    torch.int16: int16,
    torch.int32: int32,
    torch.int64: int64,
    torch.uint8: uint8,
    torch.uint16: uint16,
    torch.uint32: uint32,
    torch.uint64: uint64,
    torch.float8_e4m3fn: float8e4nv,
    torch.float8_e5m2: float8e5,
    torch.float16: float16,
    torch.bfloat16: bfloat16,
    torch.float32: float32,
    torch.float64: float64,
}


def set_lifted(on: bool) -> None:
    """Compute every floating type in float64, or as the GPU does."""
    for t in FLOATS:
        t.lift(on)


def is_lifted() -> bool:
    """Whether floating types compute in float64."""
    return float32.compute == np.float64


def convert(x: Array, source: dtype, target: dtype) -> Array:
    """Values of one type as another: round to nearest even, truncate to integers."""
    if source is target:
        return x
    if target.is_bool():
        return x.astype(np.bool_)
    if source.is_floating() and target.is_int():
        return _to_integer(x, source, target)
    y = x.astype(target.compute, copy=False)
    if not target.rounds or (source.rounds and _contains(target, source)):
        return y
    return target.round(y)


def _to_integer(x: Array, source: dtype, target: dtype) -> Array:
    """Truncate; out of range gives the nearest limit, as cvt.rzi does.

    8-bit integers are the low byte of a conversion to 16 bits. A NaN is 0 where source and target
    have at most 32 bits, else the highest bit alone. Seen with Triton 3.6 on an H200.
    """
    if target.itemsize == 1:
        wide = int16 if target.signed else uint16
        return _to_integer(x, source, wide).astype(target.storage)
    limits = np.iinfo(target.storage)
    low, high = float(limits.min), float(limits.max)
    if ((x > low) & (x < high)).all():
        return x.astype(target.storage)
    inside = np.where((x > low) & (x < high), x, 0).astype(target.storage)
    of_nan = 0
    if max(source.primitive_bitwidth, target.primitive_bitwidth) > 32:  # noqa: PLR2004
        of_nan = limits.min if target.signed else 1 << (target.primitive_bitwidth - 1)
    inside[np.isnan(x)] = of_nan
    return np.where(x <= low, limits.min, np.where(x >= high, limits.max, inside)).astype(
        target.storage
    )


def _contains(target: dtype, source: dtype) -> bool:
    """Every value of ``source`` is a value of ``target``."""
    return source.is_fp8() and target in {float16, bfloat16} and source is not target
