"""profile(run): how often run calls each operator and where its time goes, by torch.profiler.

What must be counted is known from what the work does, times the repetitions that are drawn here; the
course notes' figures are among it: 6 mul, 2 add and 1 tanh for GeLU by its formula, 1 gelu for the
built-in. Times differ from run to run: they are compared with the rows of the student's own profile.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from grader.scenarios import Log, Mistake, has_form, is_number, shown
from grader.spec import Case, Inputs, scenario, scenario_case

# what scenario.py logs
_ROW = {"name": str, "calls": int, "cpu_us": float, "total_us": float, "gpu_us": float}
_FORM = {
    "n_runs": int,
    "n_profiled": int,  # calls of run with the profiler on
    "first_was_profiled": bool,
    "n_profiles": int,
    "profiles": [[_ROW]],  # rows of operators, where there were any
    "is_dict": bool,
    "items": [(object, object)],
    "other": object,
}
OPERATOR = "aten::"
N_VALUES = 3
MAX_REPEATS = 9
MAX_CALLS = 10**6  # of run in one profile; whoever forges a log may write any number
TIMEOUT_S = 60.0  # a first profile of a GPU loads its tracing library
# the same number, whole microseconds at the least: no two measurements are compared
RTOL, ATOL_US = 1e-3, 1.0
MAX_LISTED = 5
SET_UP = "aten::linspace"  # what the work "first" does in its first call alone

# operators of one repetition, and of one repetition of the second kind
_PLAIN = {"aten::mul": 6, "aten::add": 2, "aten::tanh": 1}
_BUILT_IN = {"aten::gelu": 1}
_PRODUCT = {"aten::matmul": 1, "aten::mm": 1}
_COUNTS: dict[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    "gelu": (_PLAIN, _BUILT_IN),
    "softmax": ({"aten::softmax": 1, "aten::_softmax": 1}, {}),
    "matmul": (_PRODUCT, _PRODUCT),
    "cdist": ({"aten::cdist": 1}, {}),
    # forward: a product with bias a layer. Backward: the gradients of two weights and of the inner
    # activations; x needs none
    "mlp": (
        {"aten::linear": 2, "aten::addmm": 2, "aten::mm": 3, "aten::threshold_backward": 1},
        {},
    ),
    "first": (_BUILT_IN, {}),
    "range": (_PLAIN, _BUILT_IN),
    "sleep": ({}, {}),
}

Items = list[tuple[str, tuple[int, float, float]]]
Rows = dict[str, dict[str, Any]]


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """The numbers of repetitions, 2 to 9, but those that the case sets itself."""
    repeats, more = torch.randint(2, MAX_REPEATS + 1, (2,), generator=rng).tolist()
    return {"repeats": repeats, "more": more, **case.scalars}


def wanted_counts(case: Case, arguments: Inputs) -> dict[str, int]:
    """Calls by operator in one call of run; of others that these call themselves nothing is said."""
    once, more = _COUNTS[case.id.partition("-")[0]]
    n, m = int(arguments["repeats"]), int(arguments["more"])
    return {name: n * once.get(name, 0) + m * more.get(name, 0) for name in {**once, **more}}


def judge(case: Case, arguments: Inputs, log: Log) -> Mistake | None:
    """First how it was profiled, then names and counts; times and order in the cases named for them."""
    if not has_form(log, _FORM):
        return Mistake("the log of the scenario is not of its form", (), "protocol_error")
    wrong = _not_profiled(log) or _wrong_form(log)
    if wrong is not None:
        return wrong
    items: Items = [(name, tuple(values)) for name, values in log["items"]]
    profiles: list[Rows] = [{row["name"]: row for row in rows} for rows in log["profiles"]] or [{}]
    mistakes = [_compared(case, arguments, items, rows, log) for rows in profiles]
    if None in mistakes:
        return None
    names = {name for name, _ in items}
    # the one that was returned, as far as names tell, or the last
    meant = max(range(len(profiles)), key=lambda i: (profiles[i].keys() == names, i))
    return mistakes[meant]


def _compared(case: Case, arguments: Inputs, items: Items, rows: Rows, log: Log) -> Mistake | None:
    """What was returned, beside one of the student's profiles."""
    how = case.id.partition("-")[2]
    wanted = wanted_counts(case, arguments)
    n_calls = _n_calls(rows, wanted)
    return (
        _wrong_names(items, rows)
        or _wrong_counts(items, rows, wanted, log)
        or (_wrong_times(items, rows, n_calls) if how == "time" else None)
        or (_wrong_order(items) if how == "order" else None)
        or (_wrong_on_gpu(items, rows, n_calls) if how == "gpu" else None)
    )


def _n_calls(rows: Rows, wanted: Mapping[str, int]) -> int:
    """Of how many calls of run a profile is; whoever made one of several may return their mean."""
    shares = [rows[name]["calls"] // n for name, n in wanted.items() if n and name in rows]
    return max(1, min([*shares, MAX_CALLS])) if shares else 1


def _not_profiled(log: Log) -> Mistake | None:
    if log["n_profiles"] == 0:
        return Mistake("no profile was made: torch.profiler.profile never ran, or never ended")
    if log["n_profiled"] == 0:
        called = _times(log["n_runs"])
        return Mistake(f"run() was called {called}, and the profiler was on in none of the calls")
    return None


def _wrong_form(log: Log) -> Mistake | None:
    if not log["is_dict"]:
        return Mistake(f"returned {shown(log['other'])[:200]}, want a dict", (), "wrong_type")
    for name, value in log["items"]:
        if type(name) is not str:
            return Mistake(
                f"a key is {shown(name)}, want the name of an operator", (), "wrong_type"
            )
        if not _is_row(value):
            told = f"{name}: got {shown(value)[:200]}, want (calls, cpu_us, gpu_us)"
            return Mistake(told, ("calls is an int, the others are numbers",), "wrong_type")
    return None


def _is_row(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != N_VALUES:
        return False
    return type(value[0]) is int and all(map(is_number, value))


def _wrong_names(items: Items, rows: Rows) -> Mistake | None:
    got = [name for name, _ in items]
    cut = [name for name in got if OPERATOR + name in rows]
    if cut:
        told = f"the name {cut[0]!r} is cut short, want {OPERATOR + cut[0]!r}"
        return Mistake(told, ("the profiler tells by it whose operator it is",))
    foreign = [name for name in got if not name.startswith(OPERATOR)]
    if foreign:
        return Mistake(
            f"no operators: {_listed(foreign)}",
            (f"only rows whose names begin with {OPERATOR} are calls of operators",),
        )
    invented = [name for name in got if name not in rows]
    if invented:
        return Mistake(f"not in the profile that was made: {_listed(invented)}")
    return None


def _wrong_counts(items: Items, rows: Rows, wanted: Mapping[str, int], log: Log) -> Mistake | None:
    got, n_profiled = {name: values[0] for name, values in items}, log["n_profiled"]
    hints = []
    if n_profiled > max(len(log["profiles"]), 1):
        hints.append(f"the profiler was on in {n_profiled} calls of run(): it counts them all")
    elif log["first_was_profiled"]:
        hints.append("the very first call of run() was profiled: warm up before")
    if SET_UP in got and SET_UP not in wanted:
        told = f"{SET_UP} is called in the first call of run() only, where a table is filled"
        return Mistake(told, ("a profile is of a call after the first", *hints))
    wrong = [name for name, n in wanted.items() if got.get(name, 0) != n]
    if wrong:
        told = "; ".join(f"{n}: got {got.get(n, 0)}, want {wanted[n]}" for n in wrong[:MAX_LISTED])
        return Mistake(f"calls of {told}", (*hints, *_by_shape(got, rows, wrong)))
    left_out = [name for name in rows if name not in got]
    if left_out:
        hint = "operators that other operators call count as well: they are where the time goes"
        return Mistake(f"left out: {_listed(left_out)}", (hint,))
    return None


def _by_shape(got: Mapping[str, int], rows: Rows, wrong: Sequence[str]) -> list[str]:
    lost = [name for name in wrong if name in got and name in rows]
    if lost and all(got[name] < rows[name]["calls"] for name in lost):
        return [
            f"the profile has {rows[name]['calls']} calls of {name} in all" for name in lost[:1]
        ] + ["several rows of one name (group_by_input_shape) leave only the last in a dict"]
    return []


def _wrong_times(items: Items, rows: Rows, n_calls: int) -> Mistake | None:
    """Compares with the self times of the profile, and says what else a wrong one is."""
    for name, (calls, cpu_us, _) in items:
        row = {key: rows[name][key] / n_calls for key in ("cpu_us", "total_us")}
        if _near(cpu_us, row["cpu_us"]):
            continue
        others = {
            "that is the total time: it counts what the operator calls, and those count it again": (
                row["total_us"]
            ),
            f"that is the time of all {n_calls} calls of run(), want one's": rows[name]["cpu_us"],
            "that is the time of one call, on average": row["cpu_us"] / max(calls, 1),
            "that is the total time of one call, on average": row["total_us"] / max(calls, 1),
            "those are milliseconds": row["cpu_us"] / 1e3,
            "those are seconds": row["cpu_us"] / 1e6,
        }
        is_what = [what for what, value in others.items() if _near(cpu_us, value, atol=0)]
        added = sum(values[1] for _, values in items)
        whole = sum(row["cpu_us"] for row in rows.values()) / n_calls
        return Mistake(
            f"cpu_us of {name}: got {cpu_us:.6g}, want {row['cpu_us']:.6g}",
            (
                *is_what[:1],
                f"your times add up to {added:.6g} us, the operators took {whole:.6g} us together",
                "want self_cpu_time_total: the time in an operator but not in those it calls",
            ),
        )
    return None


def _wrong_order(items: Items) -> Mistake | None:
    for (name, (_, cpu, gpu)), (after, (_, next_cpu, next_gpu)) in itertools.pairwise(items):
        if cpu + gpu < next_cpu + next_gpu:
            told = (
                f"{name} ({cpu + gpu:.6g} us) stands before {after} ({next_cpu + next_gpu:.6g} us)"
            )
            return Mistake(told, ("want the operator first that took longest",))
    return None


def _wrong_on_gpu(items: Items, rows: Rows, n_calls: int) -> Mistake | None:
    if not any(row["gpu_us"] for row in rows.values()):
        hint = "it records kernels only with torch.profiler.ProfilerActivity.CUDA"
        return Mistake("the profile has no time on the GPU", (hint,))
    for name, (_, _, gpu_us) in items:
        want = rows[name]["gpu_us"] / n_calls
        if not _near(gpu_us, want):
            hint = "want self_device_time_total"
            return Mistake(f"gpu_us of {name}: got {gpu_us:.6g}, want {want:.6g}", (hint,))
    return None


def _near(got: float, want: float, atol: float = ATOL_US) -> bool:
    return abs(got - want) <= atol + RTOL * want


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(names[:MAX_LISTED]) + more


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def not_checkable(case: Case, device: str) -> str:
    """The cases named "-gpu" need one."""
    if case.id.endswith("-gpu") and device == "cpu":
        return "needs a GPU: whether its kernels are recorded"
    return ""


def _case(name: str, why: str, **repeats: int) -> Case:
    return scenario_case(name, why=why, scalars=repeats, timeout_s=TIMEOUT_S)


CASES = (
    _case(
        "gelu-formula",
        "GeLU by its formula is 6 mul, 2 add and 1 tanh: nine kernels on a GPU",
        repeats=1,
        more=0,
    ),
    _case("gelu-builtin", "the built-in GeLU is one operator, a single kernel", repeats=0, more=1),
    _case("gelu-drawn", "both GeLUs, each as often as was drawn"),
    _case("softmax-nested", "aten::softmax calls aten::_softmax, and both are in the profile"),
    _case("matmul-sizes", "products of two sizes are one operator: their calls add up"),
    _case(
        "cdist-nested", "one call that becomes a dozen operators: all of them are in the profile"
    ),
    _case("mlp-names", "forward and backward: the nodes of autograd are rows, and no operators"),
    _case("range-names", "a range that somebody named with record_function is no operator"),
    _case("first-call", "the first call fills a table: warm up, and profile a later one"),
    _case("sleep-nothing", "sleeping calls no operator: an empty profile is no error"),
    _case("matmul-time", "the time of aten::mm must not count again in aten::matmul around it"),
    _case("mlp-time", "times are of all calls together, in microseconds, so that they add up"),
    _case("mlp-order", "what takes longest stands first: there it pays to begin"),
    _case(
        "gelu-gpu", "on a GPU: the CPU only starts the kernels; their time must be recorded, too"
    ),
    _case(
        "matmul-gpu", "on a GPU: a kernel's time is that of aten::mm, and not again of aten::matmul"
    ),
)

PROBLEM = scenario(
    name="profile",
    points=4,
    cases=CASES,
    make_inputs=make_inputs,
    judge=judge,
    not_checkable=not_checkable,
)
