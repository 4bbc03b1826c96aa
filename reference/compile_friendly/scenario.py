"""Compiles one function of the submission with a backend that counts graphs, and calls it.

Dynamo alone is at work here: the backend runs each graph as PyTorch would, so nothing is generated
and no C++ compiler is needed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch._dynamo as dynamo
from torch._ops import OpOverload, OpOverloadPacket

N_ELEMENTS = 24  # of the weight
N_COLS = 3

ENTRIES = ("clipped_step", "running_mean", "causal_softmax")
_ENTRY_OF = {"clip": "clipped_step", "rows": "running_mean", "lengths": "causal_softmax"}
_MAX_ELEMENTS = 2048  # more than any right result has
_MAX_REASON_CHARS = 400
_MAX_ERROR_LINES = 3
_FAR = 1500  # rows, and length, of a tensor without values: more than in any call
_REGISTERED = "torch._ops."  # the modules of operators that are called by namespace and name
# Whoever registers an operator chooses its namespace, PyTorch's own included; those that are known
# before a submission is imported are PyTorch's.
_SHIPPED = frozenset(torch._C._dispatch_get_all_op_names())  # noqa: SLF001  has no public name
_TORCH = str(Path(torch.__file__).parent)
_MADE_HERE = " (made here)"  # how the names of others end

# what counts are made with, whatever a submission set: torch's own defaults, nothing that was learnt
# about shapes in an earlier process, and no limit behind which functions run uncompiled and uncounted
_SETTINGS = {
    "disable": False,
    "suppress_errors": False,
    "capture_scalar_outputs": False,
    "capture_dynamic_output_shape_ops": False,
    "specialize_int": False,
    "assume_static_by_default": True,
    "automatic_dynamic_shapes": True,
    "automatic_dynamic_local_pgo": False,
    "automatic_dynamic_remote_pgo": False,
    "recompile_limit": 64,
    "accumulated_recompile_limit": 256,
    "fail_on_recompile_limit_hit": False,
}


def drawn(entry: str, seed: int, size: float) -> tuple[torch.Tensor, ...]:
    """The arguments of one call.

    Args:
        entry: The function that is called.
        seed: Of the values, N(0, 1).
        size: The number of rows, the length, or what the gradient is multiplied by.
    """
    rng = torch.Generator().manual_seed(seed)
    if entry == "clipped_step":
        weight, grad = torch.randn(2, N_ELEMENTS, generator=rng)
        return weight, grad * size
    n = int(size)
    n_cols = N_COLS if entry == "running_mean" else n
    return (torch.randn(n, n_cols, generator=rng),)


def run(submission: ModuleType, case: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What became of each call: graphs so far, the operations in them, what was returned.

    Args:
        submission: Has the functions.
        case: Such as "rows-size"; "-device" at its end has the function run uncompiled on a large
            tensor of torch's device "meta": it has a shape and no values, and is not on the CPU.
        arguments: "seed"; "fresh": forget what was compiled before every call; "size0", "size1",
            ... of the calls.
    """
    entry = _ENTRY_OF[case.partition("-")[0]]
    function = getattr(submission, entry)
    sizes = [value for key, value in arguments.items() if key.startswith("size")]

    def given(i: int) -> tuple[torch.Tensor, ...]:
        return drawn(entry, arguments["seed"] + i, sizes[i])

    with _counting():
        # first as plain Python, so that an error of the function itself is told as one; what it
        # compiles by itself would ask for a C++ compiler
        with torch.compiler.set_stance("force_eager"):
            elsewhere = case.endswith("-device")
            plain = function(*(_far(entry) if elsewhere else given(0)))
        inputs = [given(i) for i in range(len(sizes))]
        try:
            return {
                "plain_device": str(getattr(plain, "device", "")),
                "plain_shape": list(getattr(plain, "shape", ())),
                "calls": _calls(function, inputs, fresh=bool(arguments["fresh"])),
                "breaks": _breaks(function, given(0), submission.__file__ or ""),
                "error": "",
            }
        except Exception as error:  # noqa: BLE001  it ran uncompiled: this is what compiling made of it
            return {
                "plain_device": "",
                "plain_shape": [],
                "calls": [],
                "breaks": [],
                "error": _told_error(error),
            }


def _far(entry: str) -> tuple[torch.Tensor, ...]:
    """Arguments on the device "meta", which take no memory however large they are."""
    return (torch.empty(_FAR, N_COLS if entry == "running_mean" else _FAR, device="meta"),)


@contextlib.contextmanager
def _counting() -> Iterator[None]:
    """Dynamo as torch sets it up, without its warnings."""
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    known = {name: value for name, value in _SETTINGS.items() if hasattr(dynamo.config, name)}
    with dynamo.config.patch(known), torch.compiler.set_stance("default"):
        yield
    torch.compiler.reset()


def _calls(
    function: Callable[..., Any], inputs: list[tuple[torch.Tensor, ...]], *, fresh: bool
) -> list[dict[str, Any]]:
    graphs: list[dict[str, Any]] = []

    def backend(graph: torch.fx.GraphModule, _examples: list[Any]) -> Callable[..., Any]:
        names = [_name(node) for node in graph.graph.nodes if node.op.startswith("call_")]
        graphs.append({"n_operations": len(names), "names": sorted(set(names))})
        return graph.forward

    calls = []
    compiled = None
    for given in inputs:
        if fresh or compiled is None:
            torch.compiler.reset()
            compiled = torch.compile(function, backend=backend)
            graphs.clear()
        n_before = len(graphs)
        writes = [tensor._version for tensor in given]  # noqa: SLF001  counts writes in place
        returned = compiled(*given)
        calls.append(
            {
                "graphs": graphs[n_before:],
                "n_graphs": len(graphs),
                "modified": writes != [tensor._version for tensor in given],  # noqa: SLF001  as above
                **_told(returned),
            }
        )
    return calls


def _name(node: torch.fx.Node) -> str:
    """Such as "torch.where", "Tensor.sum" or, for a registered operator, "aten::relu".

    One that is not PyTorch's, whatever it says of itself: "aten::mine (made here)".
    """
    if node.op != "call_function":
        return f"{'Tensor' if node.op == 'call_method' else 'torch.nn'}.{node.target}"
    module = str(getattr(node.target, "__module__", ""))
    name = str(getattr(node.target, "__name__", node.target))
    if module.startswith(_REGISTERED):
        name = f"{module.removeprefix(_REGISTERED)}::{name.partition('.')[0]}"
    else:
        name = f"{module}.{name}"
    return name + (_MADE_HERE if _is_made_here(node.target) else "")


def _is_made_here(target: Any) -> bool:
    """Whether an operation came with the submission: a new operator, or a function of Python."""
    if isinstance(target, FunctionType):
        return not target.__code__.co_filename.startswith(_TORCH)
    if isinstance(target, OpOverload):
        name: Any = target.name  # which torch leaves untyped, as overloads below
        return name() not in _SHIPPED
    if isinstance(target, OpOverloadPacket):
        overloads: Any = target.overloads
        return any(_is_made_here(getattr(target, overload)) for overload in overloads())
    return False


def _told(returned: Any) -> dict[str, Any]:
    if not isinstance(returned, torch.Tensor):
        return {"tensor": None, "other": returned}
    values: list[float] = []
    if returned.is_floating_point() and returned.numel() <= _MAX_ELEMENTS:
        # 9 digits tell float32 values apart
        values = [float(f"{value:.9g}") for value in returned.detach().flatten().tolist()]
    tensor = {
        "shape": list(returned.shape),
        "dtype": str(returned.dtype).removeprefix("torch."),
        "values": values,
    }
    return {"tensor": tensor, "other": None}


def _breaks(
    function: Callable[..., Any], given: tuple[torch.Tensor, ...], file: str
) -> list[dict[str, Any]]:
    """Why and where Dynamo ended a graph early in one call."""
    breaks = []
    for found in dynamo.explain(function)(*given).break_reasons:
        stack = [frame for frame in found.user_stack if frame.filename == file]
        breaks.append(
            {
                "reason": str(found.reason).partition("\n")[0][:_MAX_REASON_CHARS],
                "line": (stack[-1].lineno or 0) if stack else 0,
                "code": (stack[-1].line or "").strip() if stack else "",
            }
        )
    return breaks


def _told_error(error: Exception) -> str:
    lines = str(error).strip().splitlines()[:_MAX_ERROR_LINES]
    return f"{type(error).__name__}: {' '.join(line.strip() for line in lines)}"[:_MAX_REASON_CHARS]
