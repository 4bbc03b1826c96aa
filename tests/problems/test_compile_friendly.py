"""What compile_friendly takes and refuses beyond its known mistakes: other right ways, odd logs."""

from __future__ import annotations

import copy
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from grader import inputs
from grader.discover import REFERENCE, ROOT, load_problem
from grader.grading import Request, opened
from grader.scenarios import Log, Mistake, plain
from grader.scorecard import Verdict
from grader.spec import Inputs

FOLDER = REFERENCE / "compile_friendly"
PROBLEM = load_problem("compile_friendly")
CASES = {case.id: case for case in PROBLEM.cases}
SEED = 5

WHERE = '''
"""Both sides and torch.where, a triangle of weights, positions compared; compiled by themselves."""

import torch


@torch.compile
def clipped_step(weight, grad):
    length = grad.norm()
    return weight - 0.1 * torch.where(length > 1, grad / length, grad)


@torch.compile(dynamic=False)
def running_mean(x):
    n = x.shape[0]
    below = torch.ones(n, n, device=x.device).tril()
    return (below / below.sum(dim=1, keepdim=True)) @ x


def causal_softmax(scores):
    at = torch.arange(len(scores), device=scores.device)
    hidden = torch.tensor(-torch.inf, device=scores.device)
    return torch.where(at[:, None] >= at, scores, hidden).softmax(-1)
'''
COND = '''
"""torch.cond, vmap over rows, and a mask that is made once for all lengths."""

import torch

torch._dynamo.config.automatic_dynamic_shapes = False
ALLOWED = torch.ones(2048, 2048, dtype=torch.bool).tril()


def clipped_step(weight, grad):
    length = grad.norm()
    grad = torch.cond(length > 1, lambda g, n: g / n, lambda g, n: g.clone(), (grad, length))
    return weight - 0.1 * grad


def running_mean(x):
    at = torch.arange(x.shape[0], device=x.device)
    return torch.vmap(lambda i: torch.where((at <= i)[:, None], x, 0).sum(0) / (i + 1))(at)


def causal_softmax(scores):
    n = scores.shape[0]
    allowed = ALLOWED.to(scores.device)[:n, :n]
    return torch.softmax(scores + torch.where(allowed, 0.0, -torch.inf), dim=-1)
'''


def verdicts(text: str, folder: Path, *cases: str) -> dict[str, tuple[Verdict, str]]:
    """Verdict and cause by case of a submission in a process of its own."""
    file = folder / "compile_friendly.py"
    file.write_text(text)
    request = Request(file, ("compile_friendly",), device="cpu", seed=SEED)
    with opened(request) as grading:
        trials = [t for t in grading.trials() if not cases or t.case.id in cases]
        checks = {trial.case.id: grading.judge(trial) for trial in trials}
    return {case: (check.verdict, check.cause) for case, check in checks.items()}


@pytest.mark.slow
@pytest.mark.parametrize("text", [WHERE, COND], ids=["where", "cond"])
def test_other_right_ways_pass(text: str, tmp_path: Path) -> None:
    """There is more than one way to stay one graph; settings of Dynamo change no count."""
    got = verdicts(text, tmp_path)

    assert {case: cause for case, (verdict, cause) in got.items() if verdict != "passed"} == {}


UNCOUNTED = """
import torch

torch._dynamo.config.recompile_limit = 1
torch._dynamo.config.disable = True
torch.compiler.set_stance("eager_on_recompile")
"""


@pytest.mark.slow
def test_no_setting_hides_a_graph(tmp_path: Path) -> None:
    """Running uncompiled instead of compiling anew is no way to few graphs."""
    text = (FOLDER / "wrong" / "as_they_were.py").read_text()

    got = verdicts(UNCOUNTED + text, tmp_path, "clip-long", "rows-five", "lengths-five")

    assert "Dynamo made 2 graphs and 1 break" in got["clip-long"][1]
    assert "5 calls of running_mean took 5 graphs" in got["rows-five"][1]
    assert "5 calls of causal_softmax took 5 graphs" in got["lengths-five"][1]


ODD = """
import torch


def clipped_step(weight, grad):
    return "a step"


def running_mean(x):
    x /= torch.arange(1, x.shape[0] + 1, device=x.device)[:, None]
    return torch.zeros(1 << 22)


def causal_softmax(scores):
    return torch.cond(scores.sum() > 1e9, lambda s: s.tolist(), lambda s: s, (scores,))
"""


@pytest.mark.slow
def test_odd_submissions_get_a_verdict(tmp_path: Path) -> None:
    """Whatever a function returns or raises, under torch.compile alone or always, is told."""
    got = verdicts(ODD, tmp_path, "clip-long", "rows-size", "lengths-return")

    assert got["clip-long"][0] is Verdict.WRONG_TYPE
    assert "returned 'a step', want a tensor" in got["clip-long"][1]
    assert got["rows-size"][0] is Verdict.WRONG_SHAPE
    assert "the shape is (4194304), want (10, 3)" in got["rows-size"][1]
    assert got["lengths-return"][0] is Verdict.WRONG_VALUE
    assert "causal_softmax fails under torch.compile: " in got["lengths-return"][1]


HIDDEN_LOOPS = """
import torch

plain = torch.library.Library("aten", "FRAGMENT")
plain.define("step_of_mine(Tensor x, Tensor y) -> Tensor")
plain.impl("step_of_mine", lambda weight, grad: clipped_step_plain(weight, grad), "CPU")
torch.library.register_fake("aten::step_of_mine", lambda weight, grad: torch.empty_like(weight))
ALLOWED = torch.ones(64, 64, dtype=torch.bool).tril()


def clipped_step(weight, grad):
    return torch.ops.aten.step_of_mine(weight, grad)


def running_mean(x):
    padded = torch.zeros(320, x.shape[1], device=x.device)
    padded[: x.shape[0]] = x
    total, means = torch.zeros_like(x[0]), []
    for i in range(320):
        total = total + padded[i]
        means.append(total / (i + 1))
    return torch.stack(means)[: x.shape[0]]


def causal_softmax(scores):
    allowed = ALLOWED.to(scores.device)[: len(scores), : len(scores)]
    return torch.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1)
"""


@pytest.mark.slow
def test_what_hides_or_has_a_fixed_size_is_found(tmp_path: Path) -> None:
    """An operator in PyTorch's own namespace, a loop over padded rows, a mask of 64 positions."""
    given = (FOLDER / "wrong" / "as_they_were.py").read_text()

    got = verdicts(
        given + HIDDEN_LOOPS, tmp_path, "clip-long", "rows-size", "rows-large", "lengths-device"
    )

    assert "calls aten::step_of_mine (made here), which is not PyTorch's" in got["clip-long"][1]
    assert "operations for 10 rows, want at most 40" in got["rows-size"][1]
    assert got["rows-large"][0] is Verdict.WRONG_VALUE
    assert got["lengths-device"][0] is Verdict.CRASHED
    assert "1500" in got["lengths-device"][1], got


CALLS_OF_TORCH = """
import torch
from torch.nn.functional import scaled_dot_product_attention


def clipped_step(weight, grad):
    return torch.ops.aten.sub.Tensor(weight, 0.1 * grad / torch.ops.aten.clamp(grad.norm(), min=1))


def running_mean(x):
    counts = torch.ops.aten.arange.start(1, x.shape[0] + 1, device=x.device)
    return torch.ops.aten.cumsum(x, 0) / counts[:, None]


def causal_softmax(scores):
    q, eye = torch.zeros_like(scores), torch.eye(len(scores), device=scores.device)
    hidden = torch.full_like(scores, -torch.inf).triu(1)
    return scaled_dot_product_attention(q, q, eye, attn_mask=scores + hidden)
"""


@pytest.mark.slow
def test_operators_of_pytorch_may_be_called_by_name(tmp_path: Path) -> None:
    """torch.ops.aten with and without an overload: what PyTorch registered is its own."""
    got = verdicts(CALLS_OF_TORCH, tmp_path)

    assert {case: cause for case, (verdict, cause) in got.items() if verdict != "passed"} == {}


BESIDE_THE_SIMULATOR = """
import sys
from pathlib import Path
import torch
from grader.simulator import load_module, pretend_gpu, recording
from tests.problems.test_compile_friendly import CASES, FOLDER, judged, log_of, module

kernels = load_module(Path(sys.argv[1]), name="kernels")
with recording(), pretend_gpu():
    x = torch.ones(100, device="cuda")
    assert kernels.vector_add(x, x).tolist() == [2.0] * 100
scenario, solution = module(FOLDER / "scenario.py"), module(FOLDER / "solution.py")
for case in CASES:
    mistake = judged(case, log_of(scenario, solution, case))
    assert mistake is None, mistake
"""


@pytest.mark.slow
def test_counts_are_right_beside_the_simulator() -> None:
    """In a process where simulated kernels have run, Dynamo counts as elsewhere."""
    ended = subprocess.run(
        [sys.executable, "-c", BESIDE_THE_SIMULATOR, REFERENCE / "vector_add" / "solution.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stderr


def module(path: Path) -> ModuleType:
    """One file, loaded by itself."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def arguments_of(case: str) -> Inputs:
    """What a case is run with."""
    return inputs.draw(PROBLEM, CASES[case], SEED)


def log_of(scenario: ModuleType, submission: ModuleType, case: str) -> Log:
    """What a scenario says of a submission, as it arrives."""
    log: Log = plain(scenario.run(submission, case, dict(arguments_of(case))))
    return log


def judged(case: str, log: Log) -> Mistake | None:
    """What the judge says."""
    assert PROBLEM.judge is not None
    return PROBLEM.judge(CASES[case], arguments_of(case), log)


def drawn(case: str, i: int) -> tuple[torch.Tensor, ...]:
    """The arguments of one call, drawn as the docstring of the scenario says."""
    seed, size = int(arguments_of(case)["seed"]) + i, float(arguments_of(case)[f"size{i}"])
    rng = torch.Generator().manual_seed(seed)
    if case.startswith("clip"):
        weight, grad = torch.randn(2, 24, generator=rng)
        return weight, grad * size
    return (torch.randn(int(size), 3 if case.startswith("rows") else int(size), generator=rng),)


def ideal(case: str) -> Log:
    """A log with the values of the plain functions, and one graph for all calls."""
    solution = module(FOLDER / "solution.py")
    what = case.partition("-")[0]
    function = {
        "clip": solution.clipped_step_plain,
        "rows": solution.running_mean_plain,
        "lengths": solution.causal_softmax_plain,
    }[what]
    n_calls = sum(name.startswith("size") for name in arguments_of(case))
    calls: list[dict[str, Any]] = []
    for i in range(n_calls):
        result = function(*drawn(case, i))
        graphs = [{"n_operations": 3, "names": ["Tensor.sum", "torch.where"]}] if i == 0 else []
        told = {
            "shape": list(result.shape),
            "dtype": "float32",
            "values": result.flatten().tolist(),
        }
        calls.append(
            {"graphs": graphs, "n_graphs": 1, "modified": False, "tensor": told, "other": None}
        )
    far = [1500, 3 if what == "rows" else 1500]
    return {"plain_device": "meta", "plain_shape": far, "calls": calls, "breaks": [], "error": ""}


@pytest.mark.parametrize("case", CASES)
def test_the_given_functions_are_what_the_judge_wants(case: str) -> None:
    """Its loops in float64 agree with those that students are given, and one graph is enough."""
    assert judged(case, ideal(case)) is None


def test_a_value_off_by_little_is_wrong() -> None:
    """An error of 1e-4 in the last of five results is found, and told by its index."""
    log = ideal("lengths-return")
    log["calls"][4]["tensor"]["values"][3 * 9 + 2] += 1e-4

    mistake = judged("lengths-return", log)

    assert mistake is not None
    assert mistake.what == "causal_softmax, length 9: 1 of 81 values are wrong"
    assert "first at index (3, 2)" in mistake.details[0]


def test_nan_is_told_as_such() -> None:
    """It arrives as text, for JSON has no NaN."""
    log = ideal("clip-zero")
    log["calls"][0]["tensor"]["values"][0] = plain(float("nan"))

    mistake = judged("clip-zero", log)

    assert mistake is not None
    assert mistake.verdict == "non_finite"
    assert "got nan" in mistake.details[0]


GRAPH = {"n_operations": 3, "names": ["torch.where"]}


@pytest.mark.parametrize(
    ("case", "at", "value", "said"),
    [
        ("clip-long", ("calls", 0, "graphs"), [], "Dynamo made no graph of clipped_step"),
        ("clip-long", ("calls", 0, "graphs"), [GRAPH, GRAPH], "2 graphs and 1 break"),
        (
            "clip-long",
            ("breaks",),
            [{"reason": "generic_jump TensorVariable()", "line": 7, "code": "if n > 1:"}],
            "1 graph and 1 break",
        ),
        ("clip-both", ("calls", 3, "n_graphs"), 2, "4 calls of clipped_step took 2 graphs"),
        ("rows-five", ("calls", 4, "n_graphs"), 3, "took 3 graphs, want at most 2"),
        (
            "rows-size",
            ("calls", 1, "graphs"),
            [{"n_operations": 4, "names": []}],
            "the graph grows with the rows: 3 operations for 10 rows, 4 for 40",
        ),
        (
            "lengths-one",
            ("calls", 1, "graphs"),
            [{"n_operations": 1, "names": ["mine::mask"]}],
            "calls mine::mask, which is not PyTorch's",
        ),
        ("lengths-device", ("plain_device",), "cpu", "the device meta, result on cpu"),
        ("lengths-device", ("plain_shape",), [12, 12], "the shape is (12, 12), want (1500, 1500)"),
        ("rows-device", ("plain_shape",), [1500, 1500], "is (1500, 1500), want (1500, 3)"),
        (
            "lengths-one",
            ("calls", 1, "graphs"),
            [{"n_operations": 1, "names": ["aten::mask (made here)"]}],
            "calls aten::mask (made here), which is not PyTorch's",
        ),
        (
            "lengths-one",
            ("calls", 1, "graphs"),
            [{"n_operations": 1, "names": ["torch_mine.mask"]}],
            "calls torch_mine.mask, which is not PyTorch's",
        ),
        ("clip-long", ("calls", 0, "modified"), True, "it wrote into its argument"),
        ("clip-long", ("calls", 0, "tensor", "dtype"), "float64", "the dtype is float64"),
        ("clip-long", ("calls", 0, "tensor", "values"), [], "the log tells 0 values, want 24"),
        ("clip-long", ("calls", 0, "n_graphs"), "1", "not of its form"),
        ("clip-long", ("calls",), [], "the log tells of 0 calls, there were 1"),
    ],
)
def test_each_count_is_judged(case: str, at: tuple[Any, ...], value: object, said: str) -> None:
    """One thing that is not as in an ideal log is found and named."""
    log = ideal(case)
    place = log
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = copy.deepcopy(value)

    mistake = judged(case, log)

    assert mistake is not None
    assert said in mistake.what


def test_a_break_is_told_by_its_line_and_in_words() -> None:
    """Dynamo's own word for an if on a tensor is translated."""
    log = ideal("clip-long")
    log["breaks"] = [{"reason": "generic_jump TensorVariable()", "line": 7, "code": "if n > 1:"}]

    mistake = judged("clip-long", log)

    assert mistake is not None
    assert mistake.details[0] == "line 7: if n > 1:"
    assert "Python has to know its value" in mistake.details[1]
