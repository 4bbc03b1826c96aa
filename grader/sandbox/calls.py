"""Calls a submission's entry point in the worker: forward, and forward with backward.

Everything is stateless: fresh tensors in, bytes out. Judges nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from grader import simulator
from grader.sandbox import launch_log
from grader.sandbox.protocol import MAX_AXES, MESSAGE_LIMIT_BYTES, Packed, pack
from grader.spec import FLOAT_DTYPES, ITEMSIZE

MAX_OUTPUTS = 16

Backend = Literal["sim", "cuda"]  # a worker that only compiles calls nothing


@dataclass(frozen=True)
class Loaded:
    """An imported submission."""

    entry: Callable[..., object]
    backend: Backend
    lift: bool
    folder: Path


@dataclass(frozen=True)
class Argument:
    """One positional argument; ``flat`` is the storage of a tensor."""

    name: str
    value: Any
    flat: torch.Tensor | None = None


@dataclass(frozen=True)
class Answer:
    """What goes back: a header without op and seq, and tensors."""

    header: dict[str, Any]
    tensors: list[Packed]


def arguments(
    described: Sequence[Mapping[str, Any]], tensors: Mapping[str, Packed], loaded: Loaded
) -> list[Argument]:
    """The arguments of one request, in order, on the device of the backend."""
    made = []
    for item in described:
        name = item["name"]
        if name in tensors:
            made.append(_place(name, tensors[name], loaded))
        else:
            made.append(Argument(name, item["value"]))
    return made


def _place(name: str, packed: Packed, loaded: Loaded) -> Argument:
    header = packed.header
    received = packed.unpack()
    flat = torch.empty(0, dtype=received.dtype).set_(received.untyped_storage())
    # a copy in torch's own memory: aligned as the allocator aligns
    flat = flat.cuda() if loaded.backend == "cuda" else flat.clone()
    value = flat.as_strided(header.shape, header.stride, header.offset).detach()
    if loaded.lift and header.dtype in FLOAT_DTYPES:
        value = simulator.declare(value, header.dtype)
    return Argument(name, value, flat)


def forward(
    loaded: Loaded,
    given: Sequence[Argument],
    cache: simulator.Cache | None = None,
    saved_shape: Sequence[int] | None = None,
) -> Answer:
    """Call the entry point once; in the simulator, with this cache modelled.

    With ``saved_shape`` the inputs ask for gradients, and the one tensor of that shape that was saved
    for the backward is sent along as "saved:"; if there is not one, the answer says what there is.
    """
    values = [argument.value for argument in given] if saved_shape is None else _leaves(given)
    with _running(loaded, cache=cache) as log:
        returned = loaded.entry(*values)
    outputs, header = _returned(returned, loaded)
    _look_for_unwritten(outputs, log)
    saved: list[Packed] = []
    if saved_shape is not None and outputs:
        found, header["saved_instead"] = _saved(next(iter(outputs.values())), saved_shape, loaded)
        saved = [_send("saved:", tensor, loaded) for tensor in found]
    answer = _answer(header, outputs, given, loaded, log)
    answer.tensors.extend(saved)
    return answer


def _leaves(given: Sequence[Argument]) -> list[Any]:
    return [
        argument.value.requires_grad_(True)
        if argument.flat is not None and argument.flat.is_floating_point()
        else argument.value
        for argument in given
    ]


def _saved(
    output: torch.Tensor, shape: Sequence[int], loaded: Loaded
) -> tuple[list[torch.Tensor], str]:
    """The tensor of this shape saved for the backward of ``output``, or what is there instead."""
    node = _function_behind(output)
    if node is None:
        return [], (
            "for autograd the output comes from no torch.autograd.Function: return what its apply"
            " returned, or a view of that"
        )
    saved = node.saved_tensors
    fitting = [
        tensor
        for tensor in saved
        if not _unsendable(tensor, loaded)
        and list(tensor.shape) == list(shape)
        and str(tensor.dtype).removeprefix("torch.") in ITEMSIZE
    ]
    if len(fitting) == 1:
        return fitting, ""
    shapes = ", ".join(str(tuple(getattr(tensor, "shape", ()))) for tensor in saved)
    what = f"tensors of shapes {shapes}"[:200] if shapes else "nothing"
    return [], f"forward saves {what} for the backward"


def _function_behind(output: torch.Tensor) -> Any:
    """The torch.autograd.Function that made the output, up to views, slices, casts and the like."""
    node: Any = output.grad_fn
    while node is not None and not isinstance(node, torch.autograd.function.BackwardCFunction):
        before = [other for other, _ in node.next_functions if other is not None]
        # what is made of several results is none of them
        node = before[0] if len(before) == 1 else None
    return node


def vjp(
    loaded: Loaded,
    given: Sequence[Argument],
    grad_outputs: Mapping[str, Packed],
    cache: simulator.Cache | None = None,
) -> Answer:
    """Call the entry point and send gradients back through it, on fresh leaves.

    ``grad_outputs`` are named "grad_output:<output>". An input that no gradient reaches is left out
    of the answer.
    """
    leaves = _leaves(given)
    with _running(loaded, cache=cache) as log:
        returned = loaded.entry(*leaves)
    n_forward = 0 if log is None else len(log.launches)
    outputs, header = _returned(returned, loaded)
    _look_for_unwritten(outputs, log)
    wanted = {
        name: _place(name, packed, loaded).value
        for name, packed in ((n.removeprefix("grad_output:"), p) for n, p in grad_outputs.items())
    }
    grads: dict[str, torch.Tensor] = {}
    if _fits(outputs, wanted):
        asked = {
            argument.name: leaf
            for argument, leaf in zip(given, leaves, strict=True)
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad
        }
        with _running(loaded, log, cache):
            grads = _gradients(outputs, wanted, asked)
        _look_for_unwritten({f"grad:{name}": grad for name, grad in grads.items()}, log)
    answer = _answer(header, outputs, given, loaded, log)
    answer.header["n_forward_launches"] = n_forward
    for name, grad in grads.items():
        what = _unsendable(grad, loaded)
        if what:
            answer.header["wrong_grads"][name] = what
        else:
            answer.tensors.append(_send(f"grad:{name}", grad, loaded))
    return answer


def _gradients(
    outputs: Mapping[str, torch.Tensor],
    wanted: Mapping[str, torch.Tensor],
    asked: Mapping[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    reached = [name for name, output in outputs.items() if output.requires_grad]
    if not reached:
        return {}
    grads: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
        [outputs[name] for name in reached],
        list(asked.values()),
        [wanted[name] for name in reached],
        allow_unused=True,
    )
    return {name: grad for name, grad in zip(asked, grads, strict=True) if grad is not None}


def _fits(outputs: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> bool:
    """Whether autograd can take the gradients; if not, the outputs alone show what is wrong."""
    return outputs.keys() == wanted.keys() and all(
        outputs[name].shape == grad.shape and outputs[name].dtype == grad.dtype
        for name, grad in wanted.items()
    )


@contextlib.contextmanager
def _running(
    loaded: Loaded, log: simulator.Log | None = None, cache: simulator.Cache | None = None
) -> Iterator[simulator.Log | None]:
    """The surroundings student code runs in."""
    if loaded.backend == "cuda":
        yield None
        torch.cuda.synchronize()
        return
    with contextlib.ExitStack() as stack:
        new = stack.enter_context(simulator.recording(cache))
        stack.enter_context(simulator.uncompiled())
        stack.enter_context(simulator.pretend_gpu())
        if loaded.lift:
            stack.enter_context(simulator.lifted())
        yield new
    if log is not None:
        log.launches.extend(new.launches)
        log.add(new.findings)


def _look_for_unwritten(tensors: Mapping[str, torch.Tensor], log: simulator.Log | None) -> None:
    """Note elements of results that came from torch.empty and were never written."""
    if log is not None:
        for name, tensor in tensors.items():
            log.check_written(tensor, name)


def _returned(returned: object, loaded: Loaded) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The outputs by name ("y", or "y0", "y1", ... of a tuple), or what was wrong with them."""
    values: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)
    names = [f"y{i}" for i in range(len(values))] if isinstance(returned, tuple) else ["y"]
    if len(values) > MAX_OUTPUTS:
        return {}, {"returned": "other", "what": f"y is a tuple of {len(values)}"}
    for name, value in zip(names, values, strict=True):
        if what := _unsendable(value, loaded):
            return {}, {"returned": "other", "what": f"{name} is {what}"}
        if (dtype := str(value.dtype).removeprefix("torch.")) not in ITEMSIZE:
            return {}, {"returned": "other_dtype", "what": f"{name} has dtype {dtype}"}
    return dict(zip(names, values, strict=True)), {"returned": "tensors"}


def _unsendable(value: object, loaded: Loaded) -> str:
    """Why a value is no plain tensor on the right device, or ""."""
    if type(value) is not torch.Tensor:
        name = type(value).__name__[:64]
        article = "an" if name[:1].lower() in {*"aeiou"} else "a"
        return "None" if value is None else f"{article} {name}"
    want = "cuda" if loaded.backend == "cuda" else "cpu"
    if loaded.backend == "sim" and simulator.is_cpu(value):
        return "a tensor on the CPU, not on the device of the inputs"
    if value.layout is not torch.strided or value.device.type != want:
        return f"a {value.layout} tensor on {value.device.type}"
    if value.ndim > MAX_AXES or value.numel() * value.element_size() > MESSAGE_LIMIT_BYTES:
        return f"a tensor of shape {tuple(value.shape)}"[:200]
    return ""


def _send(name: str, value: torch.Tensor, loaded: Loaded) -> Packed:
    declared = None
    if loaded.lift and value.is_floating_point():
        declared = simulator.declared_dtype(value)
    # clone: the storage sent is just the tensor, whatever it was a view of
    return pack(name, value.detach().cpu().clone(memory_format=torch.contiguous_format), declared)


def _answer(
    header: dict[str, Any],
    outputs: Mapping[str, torch.Tensor],
    given: Sequence[Argument],
    loaded: Loaded,
    log: simulator.Log | None,
) -> Answer:
    tensors = [_send(name, value, loaded) for name, value in outputs.items()]
    tensors += [
        pack(f"after:{argument.name}", argument.flat.cpu())
        for argument in given
        if argument.flat is not None
    ]
    header = {**header, "wrong_grads": {}}
    if log is not None:
        header |= launch_log.described(log)
    return Answer(header, tensors)
