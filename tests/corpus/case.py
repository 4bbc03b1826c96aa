"""One small launch of the corpus: a kernel, its arguments, and how exact its result is."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Out:
    """A tensor that the kernel writes: its result is what it holds after the launch."""

    before: torch.Tensor


def out(dtype: str, *shape: int) -> Out:
    """An output whose bytes are all 0x55 until they are written."""
    t: torch.dtype = getattr(torch, dtype)
    n_bytes = t.itemsize * int(torch.Size(shape).numel())
    if t is torch.bool:
        return Out(torch.zeros(shape, dtype=t))
    return Out(torch.full((n_bytes,), 0x55, dtype=torch.uint8).view(t).reshape(shape))


@dataclass(frozen=True)
class Within:
    """How far a result may be from the GPU's, and why it may be.

    A difference passes if it is at most ``ulps`` units in the last place of the larger value, or at
    most ``atol``.
    """

    why: str
    ulps: int = 0
    atol: float = 0.0


@dataclass(frozen=True)
class Case:
    """A launch.

    Attributes:
        name: Unique in the corpus.
        kernel: A @triton.jit function, or a host function that launches one.
        arguments: Tensors, numbers and ``Out``, by position.
        constants: tl.constexpr arguments and launch options.
        within: None where the GPU's result is defined bit for bit.
        wrong_in_interpreter: Why Triton's interpreter gives something else than a GPU, if it does.
    """

    name: str
    kernel: Any
    arguments: tuple[Any, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = (1,)
    within: Within | None = None
    wrong_in_interpreter: str = ""

    def fingerprint(self) -> int:
        """A number of the arguments' bytes: golden data holds for these inputs alone."""
        value = 0
        for given in _flat(self.arguments):
            data = raw(given) if isinstance(given, torch.Tensor) else repr(given).encode()
            value = zlib.crc32(data, value)
        return value


def _flat(argument: Any) -> Iterator[Any]:
    if isinstance(argument, tuple):
        for item in argument:
            yield from _flat(item)
    else:
        yield argument.before if isinstance(argument, Out) else argument


def _placed(argument: Any, device: str) -> Any:
    """A fresh copy of the tensors in an argument."""
    if isinstance(argument, tuple):
        return tuple(_placed(item, device) for item in argument)
    given = argument.before if isinstance(argument, Out) else argument
    return given.clone().to(device) if isinstance(given, torch.Tensor) else given


def raw(tensor: torch.Tensor) -> bytes:
    """The elements' bytes in row-major order."""
    cpu = tensor.detach().cpu().contiguous()
    return bytes(cpu.view(-1).view(torch.uint8).numpy().tobytes())


def run(case: Case, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Launch and return the outputs by the parameter's name."""
    given = [_placed(argument, device) for argument in case.arguments]
    names: list[str] = list(getattr(case.kernel, "arg_names", []))
    if names:
        case.kernel[case.grid](*given, **case.constants)
    else:
        names = _parameters(case.kernel)
        case.kernel(*given, **case.constants)
    return {
        name: value.cpu()
        for name, argument, value in zip(names, case.arguments, given, strict=False)
        if isinstance(argument, Out)
    }


def _parameters(function: Callable[..., Any]) -> list[str]:
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount])
