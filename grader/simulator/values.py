"""A value of the kernel language: one array whose first axis is the program instance.

That axis has length 1 when the value is the same in every program of the pass. Offsets, pointers
and masks stay formulas (index.py) as long as they can. Operators live in operators.py; creating,
reshaping and reducing values in other modules.
"""

# ruff: noqa: D102  the short methods have Triton's own names, which say it all

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from grader.simulator import index, promotion, run
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array
from grader.simulator.errors import refuse
from grader.simulator.index import Condition, Index
from grader.simulator.showing import shown

Function = TypeVar("Function", bound=Callable[..., Any])


class Value:
    """``tl.tensor``: a scalar or a block, per program.

    Attributes:
        formula: What ``data`` holds when written out: an Index for integers and pointers, a
            Condition for masks; None when there is none.
        argument: The tensor argument a pointer came from.
        cause: What the answer of a comparison depends on, for splitting by it.
    """

    __slots__ = ("_data", "argument", "cause", "dtype", "formula")
    __array_ufunc__ = None  # NumPy scalars leave operators to us
    __iter__ = None

    def __init__(self, data: Array | None, dtype: Any, argument: Any = None) -> None:
        if data is not None and data.nbytes > run.BLOCK_BYTES:
            run.check_size(data.shape[0], data.nbytes)
        self._data = data
        self.dtype = dtype
        self.argument = argument
        self.formula: Index | Condition | None = None
        self.cause: Array | None = None

    @property
    def data(self) -> Array:
        """Shape (programs or 1, *block shape), in the type that ``dtype`` computes in.

        Of a pointer: int64 element indices into the argument's storage.
        """
        if self._data is None:
            self._data = self._written_out()
        return self._data

    def _written_out(self) -> Array:
        formula = self.formula
        assert formula is not None
        item = 8 if self.argument is not None else self.dtype.itemsize
        n_bytes = math.prod(formula.shape) * item
        if n_bytes > run.BLOCK_BYTES:
            run.check_size(formula.shape[0], n_bytes)
        written = formula.written_out()
        if self.argument is None and isinstance(formula, Index):
            written = written.astype(self.dtype.storage, copy=False)
        return written

    @property
    def full_shape(self) -> tuple[int, ...]:
        """(programs or 1, *block shape)."""
        return self._data.shape if self.formula is None else self.formula.shape  # type: ignore[union-attr]

    @property
    def type(self) -> Any:
        return self.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.full_shape[1:]

    @property
    def numel(self) -> int:
        return math.prod(self.full_shape[1:])

    @property
    def T(self) -> Value:  # noqa: N802  tl.tensor.T
        if len(self.shape) != 2:  # noqa: PLR2004  rows and columns
            refuse(f".T swaps two axes, and this has shape {self.shape}")
        return self.permuted([0, 2, 1])

    def permuted(self, order: list[int]) -> Value:
        """Axes in another order, the program axis counted in."""
        if isinstance(self.formula, Index):
            return formula_value(index.permuted(self.formula, order), self.dtype, self.argument)
        return Value(self.data.transpose(order), self.dtype, self.argument)

    def __getitem__(self, index: Any) -> Value:
        parts = [plain(i) for i in (index if isinstance(index, tuple) else (index,))]
        for part in parts:
            if part is not None and not (isinstance(part, slice) and part == _ALL):
                refuse(
                    f"unsupported index {index!r}: a block takes only ':' and None; to pick "
                    "elements, load them through a pointer, or use tl.where and a reduction"
                )
        if len(parts) - parts.count(None) > len(self.shape):
            refuse(f"index {index!r} has more axes than the block of shape {self.shape}")
        return self.expanded(parts)

    def expanded(self, parts: list[Any]) -> Value:
        """With axes of size 1 where ``parts`` holds None."""
        formula = self.formula
        if formula is None:
            return Value(self.data[(_ALL, *parts)], self.dtype, self.argument)
        if isinstance(formula, Index):
            return formula_value(index.indexed(formula, parts), self.dtype, self.argument)
        first, *rest = [index.indexed(x, parts) for x in formula.negative]
        shape = index.indexed(
            Index(formula.shape, 0, (0,) * len(formula.shape), None, 0, 0), parts
        ).shape
        return formula_value(Condition(shape, (first, *rest)), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        refuse("a block is a value and has no item assignment; use tl.where")

    def scalar(self) -> Any:
        """The one Python number that all programs agree on; where they differ, split them."""
        formula = self.formula
        if isinstance(formula, Index) and formula.shape == (1,):
            return formula.offset
        flat = self.data.reshape(-1)
        if self.data.ndim > 1 and self.numel != 1:
            refuse(
                f"a block of shape {self.shape} has no single truth value or integer: use tl.where "
                "instead of `if`, and ~ instead of `not`"
            )
        if flat.size > 1 and not (flat == flat[0]).all():
            run.current().diverge(flat, self.cause)
        return flat[0].item()

    def __bool__(self) -> bool:
        return bool(self.scalar())

    def __index__(self) -> int:
        if not self.dtype.is_int():
            refuse(f"an integer is needed here, not {self.dtype}")
        return int(self.scalar())

    def __int__(self) -> int:
        return refuse("int() takes constants only; use .to(tl.int32)")

    def __float__(self) -> float:
        return refuse(
            "float() and the functions of math take constants only; use x.to(tl.float32), tl.exp(x), ..."
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return shown(self.data, self.dtype, self.argument)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return refuse(f"a block has no attribute {name!r}")


_ALL = slice(None)


def formula_value(formula: Index | Condition, dtype: Any, argument: Any = None) -> Value:
    """A value that is not written out yet."""
    made = Value(None, dtype, argument)
    made.formula = formula
    return made


def index_of(x: Any) -> Index | None:
    """An integer or pointer as a formula, if it has one."""
    if type(x) is Value:
        formula = x.formula
        if formula is not None:
            return formula if type(formula) is Index else None
        data = x.data
        if data.ndim == 1 and data.size and data.dtype.kind in "iu":
            # one integer a program
            if data.dtype == np.uint64 and int(data.max()) > _MOST:
                return None
            x.formula = index.of_programs(data)
            return x.formula
        return None
    if isinstance(x, int) and not isinstance(x, bool):
        return index.constant(int(x))
    return None


_MOST = 2**63 - 1


def value_of(x: Any) -> Value:
    """A value as it is, or a Python number as one."""
    if type(x) is Value:
        return x
    x = plain(x)
    if isinstance(x, Value):
        return x
    if not isinstance(x, (bool, int, float, np.number, np.bool_)):
        refuse(f"cannot use {x!r} (a Python {type(x).__name__}) as a value in a kernel")
    t = promotion.scalar_type(x)
    return Value(np.array([x], t.compute), t)


def align(*arrays: Array) -> list[Array]:
    """Give arrays the same rank: block shapes align on the right, the program axis stays first."""
    rank = max(a.ndim for a in arrays)
    out = [
        a if a.ndim == rank else a.reshape(a.shape[:1] + (1,) * (rank - a.ndim) + a.shape[1:])
        for a in arrays
    ]
    first = out[0].shape[1:]
    for a in out[1:]:
        if a.shape[1:] == first:
            continue
        for m, n in zip(first, a.shape[1:], strict=True):
            if m != n and 1 not in {m, n}:
                shapes = " and ".join(str(x.shape[1:]) for x in arrays)
                refuse(f"shapes {shapes} cannot be combined: axes must be equal or 1")
    return out


def member(function: Function) -> Function:
    """Make a function of the language a method of values too, as in ``x.to(tl.float32)``."""
    setattr(Value, function.__name__, function)
    return function
