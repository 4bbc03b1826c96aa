"""A value of a kernel as text, for a debugger's prompt and for print."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.simulator.dtypes import Array

# a block of 8 x 8 is shown in full, of anything larger the ends of each axis
_SHOWN_IN_FULL = 64


def shown(data: Array, t: Any, argument: Any) -> str:
    """Type, shape and contents, such as ``tensor(fp32[4], [0., 1., 2., 3.])``.

    Args:
        data: Shape (programs or 1, *block shape).
        t: The element type.
        argument: Of a pointer, what it points into; None for numbers.
    """
    n_programs, *shape = data.shape
    what = f"{t}{shape or ''}"
    if n_programs > 1:
        what += f" in each of {n_programs} programs"
    contents = data[0] if n_programs == 1 else data
    if argument is None:
        return f"tensor({what}, {_text(contents)})"
    return f"tensor({what}, {argument.name} + {_text(contents - argument.base)})"


def _text(contents: Array) -> str:
    return np.array2string(contents, threshold=_SHOWN_IN_FULL, separator=", ")
