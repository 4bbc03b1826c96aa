"""Three functions that must stay one graph under torch.compile, judged by Dynamo's own counts.

The course notes' figures: 2 graphs and 1 break with .item(), 1 and 0 with torch.where; 2 graphs for
5 lengths; a loop over rows is one graph, but as long as there are rows. Values count as well: those
that the compiled function returned, against loops in float64 here.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.scenarios import Log, Mistake, has_form, is_number, shown
from grader.spec import Case, Inputs, scenario, scenario_case

N_ELEMENTS = 24  # of the weight
N_COLS = 3
_FAR = 1500  # rows, and length, of what the cases on another device are called with first
LEARNING_RATE = 0.1
# float32 rounds by 6e-8; means of up to 300 numbers, in any order, stay far below
ATOL = RTOL = 1e-5

_ENTRY_OF = {"clip": "clipped_step", "rows": "running_mean", "lengths": "causal_softmax"}
_CALL_OF = {"clip": "a gradient times {:g}", "rows": "{:g} rows", "lengths": "length {:g}"}
_REMEDY = {
    "clip": "Python must not need the value of a tensor: let torch.where or clamp choose, on tensors",
    "rows": "no loop over rows: cumsum gives the sums of all rows at once",
    "lengths": "the length may go into functions of torch (ones, arange, tril), but not into range,"
    " a list, the key of a dict or anything else that needs a plain number",
}
# Dynamo's shortest reason
_TRANSLATED = {
    "generic_jump": "if, while, and, or, assert on a tensor: Python has to know its value here"
}
# how the names of operations begin that PyTorch and Python bring along
_KNOWN = ("torch.", "Tensor.", "_operator.", "builtins.", "math.", "aten::", "prims::")
_MADE_HERE = " (made here)"  # how those end that only the submission brings along
_MAX_LISTED = 8
# A right graph of running_mean has 5 to 20. A loop over rows that are padded to a fixed number has as
# many operations for any number of rows, but some for each of them.
_MAX_OPERATIONS = 40
TIMEOUT_S = 60.0  # the first compilation of a process takes seconds on a busy machine


# what scenario.py logs: the function run once as plain Python, then each compiled call
_GRAPH = {"n_operations": int, "names": [str]}
_TENSOR = {"shape": [int], "dtype": str, "values": list}
_CALL = {
    "graphs": [_GRAPH],  # that this call made
    "n_graphs": int,  # in all by then
    "modified": bool,
    "tensor": object,  # as _TENSOR, or None
    "other": object,
}
_BREAK = {"reason": str, "line": int, "code": str}
_FORM = {
    "plain_device": str,
    "plain_shape": [int],
    "calls": [_CALL],
    "breaks": [_BREAK],
    "error": str,
}

Call = dict[str, Any]


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """A seed and the sizes of the calls: the case's own, or five drawn between low and high."""
    given = dict(case.scalars)
    del given["max_graphs"]
    if "low" in given:
        low, high = int(given.pop("low")), int(given.pop("high"))
        sizes = low + torch.randperm(high + 1 - low, generator=rng)[:5]
        given |= {f"size{i}": size for i, size in enumerate(sizes.tolist())}
    seed = int(torch.randint(2**31, (), generator=rng))
    return {"seed": seed, **given}


def clipped_step(seed: int, scale: float) -> torch.Tensor:
    """The step with the gradient cut to length 1, (N_ELEMENTS,) float64."""
    weight, grad = torch.randn(2, N_ELEMENTS, generator=torch.Generator().manual_seed(seed))
    step = (grad * scale).double()
    length = math.sqrt(sum(value**2 for value in step.tolist()))
    return torch.sub(weight.double(), step, alpha=LEARNING_RATE / max(length, 1.0))


def running_mean(seed: int, n_rows: float) -> torch.Tensor:
    """Row by row the mean of all rows so far, (n_rows, N_COLS) float64."""
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(int(n_rows), N_COLS, generator=rng).double()
    return torch.stack([x[: i + 1].mean(dim=0) for i in range(int(n_rows))])


def causal_softmax(seed: int, n: float) -> torch.Tensor:
    """Row i is the softmax of its first i + 1 scores, then zeros: (n, n) float64."""
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(int(n), int(n), generator=rng).double()
    want = torch.zeros_like(scores)
    for i in range(int(n)):
        want[i, : i + 1] = torch.softmax(scores[i, : i + 1], dim=0)
    return want


_WANTED: dict[str, Callable[[int, float], torch.Tensor]] = {
    "clip": clipped_step,
    "rows": running_mean,
    "lengths": causal_softmax,
}


def judge(case: Case, arguments: Inputs, log: Log) -> Mistake | None:
    """First the values of every call, then what became of the function: graphs, breaks, operations."""
    if not has_form(log, _FORM):
        return Mistake("the log of the scenario is not of its form", (), "protocol_error")
    what = case.id.partition("-")[0]
    entry = _ENTRY_OF[what]
    sizes = [float(value) for name, value in arguments.items() if name.startswith("size")]
    if log["error"]:
        hint = "it ran as plain Python before; Dynamo runs it with stand-ins that have no values"
        return Mistake(f"{entry} fails under torch.compile: {log['error']}", (hint,))
    if len(log["calls"]) != len(sizes):
        told = f"the log tells of {len(log['calls'])} calls, there were {len(sizes)}"
        return Mistake(told, (), "protocol_error")
    if case.id.endswith("-device"):
        wrong = _wrong_elsewhere(what, log)
        if wrong is not None:
            return wrong
    for i, (size, call) in enumerate(zip(sizes, log["calls"], strict=True)):
        want = _WANTED[what](int(arguments["seed"]) + i, size)
        wrong = _wrong_result(call, want, f"{entry}, {_CALL_OF[what].format(size)}")
        if wrong is not None:
            return wrong
    return (
        _not_whole(log, entry, _REMEDY[what])
        or _too_many_graphs(case, log["calls"], sizes)
        or (_unrolled(log["calls"], sizes) if arguments["fresh"] else None)
    )


def _wrong_elsewhere(what: str, log: Log) -> Mistake | None:
    """What it returned, as plain Python, for a large tensor of another device."""
    entry, far = _ENTRY_OF[what], [_FAR, N_COLS if what == "rows" else _FAR]
    if log["plain_device"] != "meta":
        told = f"{entry}: arguments on the device meta, result on {log['plain_device'] or 'none'}"
        return Mistake(told, ("make every tensor with device=x.device",), "wrong_type")
    if log["plain_shape"] != far:
        told = f"{entry}: the shape is {_shape(log['plain_shape'])}, want {_shape(far)}"
        return Mistake(told, ("any number may come: keep nothing of a fixed size",), "wrong_shape")
    return None


def _wrong_result(call: Call, want: torch.Tensor, where: str) -> Mistake | None:
    got = call["tensor"]
    if not has_form(got, _TENSOR):
        return Mistake(f"{where}: returned {shown(call['other'])}, want a tensor", (), "wrong_type")
    if got["shape"] != list(want.shape):
        told = f"the shape is {_shape(got['shape'])}, want {_shape(want.shape)}"
        return Mistake(f"{where}: {told}", (), "wrong_shape")
    if got["dtype"] != "float32":
        return Mistake(f"{where}: the dtype is {got['dtype']}, want float32", (), "wrong_dtype")
    if call["modified"]:
        told = "it wrote into its argument, want a new tensor"
        return Mistake(f"{where}: {told}", (), "modified_input")
    return _wrong_value(got["values"], want, where)


def _wrong_value(got: Sequence[Any], want: torch.Tensor, where: str) -> Mistake | None:
    if len(got) != want.numel():
        told = f"{where}: the log tells {len(got)} values, want {want.numel()}"
        return Mistake(told, (), "protocol_error")
    pairs = list(zip(got, want.flatten().tolist(), strict=True))
    wrong = [i for i, (g, w) in enumerate(pairs) if not _is_near(g, w)]
    if not wrong:
        return None
    got_value, want_value = pairs[wrong[0]]
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(wrong[0]), want.shape))
    seen = f"{got_value:.6g}" if is_number(got_value) else shown(got_value)
    return Mistake(
        f"{where}: {len(wrong)} of {len(pairs)} values are wrong",
        (f"first at index {index}: got {seen}, want {want_value:.6g}",),
        "wrong_value" if is_number(got_value) else "non_finite",
    )


def _shape(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))})"


def _is_near(got: Any, want: float) -> bool:
    return is_number(got) and bool(abs(got - want) <= ATOL + RTOL * abs(want))


def _not_whole(log: Log, entry: str, remedy: str) -> Mistake | None:
    """What keeps a first call from being one graph of PyTorch's own operations."""
    n_graphs = len(log["calls"][0]["graphs"])
    if n_graphs == 0:
        return Mistake(
            f"Dynamo made no graph of {entry}, want 1",
            ("it ran as plain Python: is it, or what it calls, under torch.compiler.disable?",),
        )
    names = {name for call in log["calls"] for graph in call["graphs"] for name in graph["names"]}
    foreign = sorted(
        name for name in names if not name.startswith(_KNOWN) or name.endswith(_MADE_HERE)
    )
    if foreign:
        return Mistake(
            f"the graph of {entry} calls {', '.join(foreign[:_MAX_LISTED])}, which is not PyTorch's",
            ("what is hidden in an operator of your own, no compiler can fuse", remedy),
        )
    n_breaks = max(len(log["breaks"]), n_graphs - 1)
    if n_breaks == 0:
        return None
    where = [
        line
        for found in log["breaks"][:_MAX_LISTED]
        for line in (
            f"line {found['line']}: {found['code']}" if found["line"] else "",
            f"  Dynamo says: {_translated(found['reason'])}",
        )
    ]
    told = f"{_count(n_graphs, 'graph')} and {_count(n_breaks, 'break')}"
    return Mistake(f"Dynamo made {told} of {entry}, want 1 graph and no break", (*where, remedy))


def _too_many_graphs(case: Case, calls: Sequence[Call], sizes: Sequence[float]) -> Mistake | None:
    what = case.id.partition("-")[0]
    n_graphs, most = max(call["n_graphs"] for call in calls), int(case.scalars["max_graphs"])
    if n_graphs <= most:
        return None
    order = ", ".join(f"{size:g}" for size in sizes)
    anew = ", ".join(f"{s:g}" for s, call in zip(sizes, calls, strict=True) if call["graphs"])
    units = {"clip": "gradients times", "rows": "numbers of rows", "lengths": "lengths"}[what]
    return Mistake(
        f"{_count(len(calls), 'call')} of {_ENTRY_OF[what]} took {_count(n_graphs, 'graph')},"
        f" want at most {most}",
        (
            f"{units}, in the order of the calls: {order}",
            f"compiled anew for: {anew}",
            _REMEDY[what],
            "TORCH_LOGS=recompiles tells for each new graph what the one before did not fit",
        ),
    )


def _unrolled(calls: Sequence[Call], sizes: Sequence[float]) -> Mistake | None:
    """More operations for more rows, or too many for any: the loop was written out."""
    counts = [sum(graph["n_operations"] for graph in call["graphs"]) for call in calls]
    few, many = counts[sizes.index(min(sizes))], counts[sizes.index(max(sizes))]
    if few > _MAX_OPERATIONS and many <= few:
        return Mistake(
            f"the graph has {few} operations for {min(sizes):g} rows, want at most"
            f" {_MAX_OPERATIONS}",
            ("a loop over a fixed number of rows is unrolled as well", _REMEDY["rows"]),
        )
    if many <= few:
        return None
    return Mistake(
        f"the graph grows with the rows: {few} operations for {min(sizes):g} rows,"
        f" {many} for {max(sizes):g}",
        ("one graph, but the loop in it is unrolled: a copy of its body a row", _REMEDY["rows"]),
    )


def _translated(reason: str) -> str:
    return _TRANSLATED.get(reason.partition(" ")[0], reason)


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _case(name: str, why: str, *sizes: float, max_graphs: int = 1, fresh: bool = False) -> Case:
    given = {f"size{i}": size for i, size in enumerate(sizes)}
    scalars = {"max_graphs": max_graphs, "fresh": fresh, **given}
    return scenario_case(name, why=why, scalars=scalars, timeout_s=TIMEOUT_S)


def _drawn(name: str, why: str, low: int, high: int) -> Case:
    scalars = {"max_graphs": 2, "fresh": False, "low": low, "high": high}
    return scenario_case(name, why=why, scalars=scalars, timeout_s=TIMEOUT_S)


CASES = (
    _case(
        "clip-long",
        "a gradient longer than 1: one graph with no break, where .item() makes two",
        3.0,
    ),
    _case("clip-short", "a gradient shorter than 1, which must stay as it is", 0.02),
    _case("clip-zero", "a gradient of zeros: 0 / 0 on the side not taken must not come through", 0),
    _case(
        "clip-both",
        "long and short gradients in turn: one graph serves both sides of the branch",
        *(3.0, 0.02, 0.0, 5.0),
    ),
    _case(
        "rows-size",
        "a graph for 40 rows has no more operations than one for 10: a loop would be unrolled",
        *(10, 40),
        fresh=True,
    ),
    _drawn("rows-five", "five numbers of rows, drawn: two graphs serve them all", 5, 40),
    _case(
        "rows-one",
        "a single row is its own mean; size 1 has a graph of its own, all others share two",
        *(12, 1, 30, 7),
        max_graphs=3,
    ),
    _case(
        "rows-device",
        "the counts must lie on the device of x: on a GPU, or as here on torch's device 'meta'",
        *(9, 30, 17),
        max_graphs=2,
    ),
    _drawn("lengths-five", "five lengths, drawn: two graphs serve them all", 3, 12),
    _case(
        "lengths-return",
        "lengths that come back later: a mask kept by length gives each its graph all the same",
        *(6, 9, 6, 11, 9),
        max_graphs=2,
    ),
    _case(
        "lengths-one",
        "one token sees itself alone: 1.0; length 1 has a graph of its own, all others share two",
        *(5, 8, 1, 11),
        max_graphs=3,
    ),
    _case(
        "lengths-device",
        "the mask must lie on the device of the scores, here 'meta', and be as large as they are",
        *(5, 9, 7),
        max_graphs=2,
    ),
)

PROBLEM = scenario(
    name="compile_friendly",
    points=4,
    cases=CASES,
    make_inputs=make_inputs,
    judge=judge,
)
