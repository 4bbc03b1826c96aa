"""What a kernel's mistake is called: the student's, with its line and the function's own name, or ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grader.simulator import CompilationError, UnsupportedError, jit, load_module, reductions

KERNEL = """\
import math
import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i)
    {line}
"""
LINE = KERNEL.count("\n")
Refused = Callable[[str], Exception]


@pytest.fixture
def raised(tmp_path: Path) -> Refused:
    """The error of a kernel whose last line this is."""

    def error_of(line: str) -> Exception:
        path = tmp_path / "submission.py"
        path.write_text(KERNEL.format(line=line))
        module = load_module(path, name="submission_of_test_simulator_explaining")
        with pytest.raises(Exception) as raised:  # noqa: PT011  which it is, is what is tested
            module.kernel[(2,)](torch.ones(16))
        return raised.value

    return error_of


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("y = torch.exp(x)", "torch.exp works on the host, not in a kernel: write tl.exp"),
        ("y = x + 2 * np.exp(x)", "np.exp works on the host, not in a kernel: write tl.exp"),
        ("y = torch.where(x > 0, x, 0)", "torch.where works on the host, not in a kernel"),
        ("y = F.gelu(x)", "F.gelu works on the host, not in a kernel: compute it with functions"),
        # below this line are frames of torch's own
        ("y = F.layer_norm(x, (16,))", "F.layer_norm works on the host"),
        ("y = math.exp(x)", "float() and the functions of math take constants only"),
        ("y = tl.exp(x, 3, 4)", "tl.exp() takes 1 positional argument but 3 were given"),
        ("y = tl.exp()", "tl.exp() missing 1 required positional argument"),
        ("y = x + tl.load(x_ptr, mesk=x > 0)", "tl.load() got an unexpected keyword argument"),
        ("y = x + nothing", "NameError: name 'nothing' is not defined"),
    ],
)
def test_the_students_mistake(raised: Refused, line: str, words: str) -> None:
    """Where the compiler would stop, too: the place, what is wrong, the line; and that alone."""
    error = raised(line)

    assert isinstance(error, CompilationError)
    where, what, source = str(error).partition(": ")[0], *str(error).split(": ", 1)[1].split("\n")
    assert where.endswith(f"submission.py:{LINE}")
    assert what.startswith(words)
    assert source.strip() == line
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_what_only_the_simulator_stumbles_on(
    raised: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours below the kernel's line is no mistake of the student's."""

    def broken(*_args: object, **_kwargs: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(reductions, "_reduce", broken)

    error = raised("y = tl.sum(x, axis=0)")

    assert isinstance(error, UnsupportedError)
    assert f"submission.py:{LINE}: the simulator cannot run this line (IndexError" in str(error)


def test_functions_of_the_host_on_constants(tmp_path: Path) -> None:
    """Numbers known at compile time are no blocks: math.sqrt of one stays what it is."""
    path = tmp_path / "submission.py"
    path.write_text(KERNEL.format(line="tl.store(x_ptr + i, x * math.sqrt(16))"))
    x = torch.ones(16)

    load_module(path, name="submission_of_test_simulator_explaining").kernel[(1,)](x)

    assert torch.equal(x, torch.full((16,), 4.0))


@pytest.mark.parametrize(
    ("form", "is_refused"),
    [
        ("triton.jit(plain)", True),
        ('triton.jit(plain, do_not_specialize=["n"])', False),
        ("triton.jit(plain, do_not_specialize=[1])", False),
        ('triton.jit(do_not_specialize=["n"])(plain)', False),
    ],
)
def test_an_argument_that_is_1(tmp_path: Path, form: str, is_refused: bool) -> None:
    """It is a constant to the compiler, unless do_not_specialize names it, however jit is called."""
    path = tmp_path / "submission.py"
    plain = "def plain(x_ptr, n):\n    tl.store(x_ptr, n.to(tl.float32))\n"
    path.write_text(f"import triton\nimport triton.language as tl\n\n{plain}\nkernel = {form}\n")
    module = load_module(path, name="submission_of_test_simulator_explaining")
    x = torch.zeros(1)

    if is_refused:
        with pytest.raises(CompilationError, match="'int' object has no attribute 'to'"):
            module.kernel[(1,)](x, 1)
    else:
        module.kernel[(1,)](x, 1)
        assert x.item() == 1


def test_jit_has_triton_s_options_and_no_others() -> None:
    """A misspelt one is refused as by Triton, not passed over."""
    with pytest.raises(TypeError, match="do_not_specialise"):
        jit.jit(do_not_specialise=["n"])  # type: ignore[call-arg]  # which is what is tested
