"""Which part of the grader may know which; which parts run without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# a part imports from layers above its own line only, and itself; a new part needs its place here
LAYERS: tuple[tuple[str, ...], ...] = (
    ("exits", "scenarios"),
    ("spec",),
    ("seen",),
    ("scorecard",),
    (
        "card_file",
        "compiler",
        "debugger",
        "inputs",
        "simulator",
        "submission",
        "thresholds",
        "verify",
    ),
    ("cuda_host", "doctor", "measure", "report", "score", "settings"),
    ("discover", "sandbox", "specimens"),
    ("checks", "lab", "release", "simulate"),
    ("grading",),
    ("benchmark", "calibrate", "card", "trace"),
    ("runner", "soundness"),
    ("commands",),
    ("__main__",),
)
LAYER_OF = {part: i for i, parts in enumerate(LAYERS) for part in parts}

# of the verifier alone: whoever holds these can see what is asked for and what it pays
SECRETS = {
    "benchmark",
    "card",
    "checks",
    "discover",
    "grading",
    "runner",
    "score",
    "soundness",
    "thresholds",
    "verify",
}
TORCH_FREE = (
    "grader.scenarios",
    "grader.scorecard",
    "grader.seen",
    "grader.score",
    "grader.report.terminal",
    "grader.report.progress",
    "grader.report.trace",
)
PROBLEMS = sorted(path.parent for path in ROOT.glob("reference/*/problem.py"))


def files() -> dict[str, Path]:
    """Module name to file, of the whole grader."""
    found = {}
    for path in sorted((ROOT / "grader").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


FILES = files()


def imported(path: Path) -> set[str]:
    """Modules that a file imports when it runs; not those under ``if TYPE_CHECKING``."""
    names: set[str] = set()
    for node in at_run_time(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            submodules = {f"{module}.{alias.name}" for alias in node.names} & FILES.keys()
            names |= submodules or {module}
    return names


def at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but the bodies of ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield from at_run_time(child)


def part_of(module: str) -> str:
    """``grader.report.terminal`` is of the part report."""
    return module.split(".")[1] if "." in module else ""


def reached(module: str) -> set[str]:
    """All modules of the grader, and others by first name, that importing ``module`` loads."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in FILES:
            # importing a module runs the packages around it
            todo += [name.rpartition(".")[0]] if "." in name else []
            todo += imported(FILES[name])
    return {name if name in FILES else name.partition(".")[0] for name in seen}


def wrong_way(module: str, target: str) -> bool:
    """Does ``module`` import from its own layer or a later one?"""
    source, other = part_of(module), part_of(target)
    return other not in {"", source} and LAYER_OF.get(other, -1) >= LAYER_OF.get(
        source, len(LAYERS)
    )


def test_every_part_has_its_layer() -> None:
    """A new module or package is placed on purpose."""
    unplaced = {part_of(module) for module in FILES} - LAYER_OF.keys() - {""}

    assert not unplaced, f"add to LAYERS in {Path(__file__).name}: {', '.join(sorted(unplaced))}"


@pytest.mark.parametrize("module", sorted(module for module in FILES if "." in module))
def test_dependencies_point_one_way(module: str) -> None:
    """Spec and scorecard below, then what judges and measures, sandbox, runner, command line."""
    targets = {name for name in imported(FILES[module]) if name.startswith("grader.")}

    assert not {target for target in targets if wrong_way(module, target)}


@pytest.mark.parametrize(
    ("module", "target", "want"),
    [
        pytest.param("grader.spec", "grader.runner", True, id="data-imports-runner"),
        pytest.param("grader.verify", "grader.simulator", True, id="neighbours"),
        pytest.param("grader.runner", "grader.spec", False, id="runner-imports-data"),
        pytest.param("grader.report.terminal", "grader.report.wording", False, id="one-package"),
    ],
)
def test_a_wrong_direction_would_be_seen(module: str, target: str, want: bool) -> None:
    """The rule tells allowed from forbidden."""
    assert wrong_way(module, target) is want


def test_the_students_process_reaches_nothing_secret() -> None:
    """The worker loads no oracle, tolerance, threshold or verdict on its way."""
    loaded = {part_of(module) for module in reached("grader.sandbox.worker")}

    assert {"sandbox", "simulator"} <= loaded
    assert not loaded & SECRETS


@pytest.mark.parametrize("module", TORCH_FREE)
def test_data_scores_and_reports_import_no_torch(module: str) -> None:
    """A leaderboard or a report needs neither torch nor a GPU."""
    assert not reached(module) & {"torch", "triton", "numpy"}
    assert "torch" in reached("grader.verify")


def test_data_scores_and_reports_load_where_torch_is_missing() -> None:
    """The same, asked of Python itself."""
    code = "import sys; sys.modules['torch'] = None; import " + ", ".join(TORCH_FREE)

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def from_outside(path: Path) -> set[str]:
    """First names of what a file imports, without the standard library; grader in full."""
    full = {name for name in imported(path) if name.startswith("grader")}
    first = {name.partition(".")[0] for name in imported(path)} - sys.stdlib_module_names
    return full | (first - {"grader"})


@pytest.mark.parametrize("folder", PROBLEMS, ids=lambda folder: folder.name)
def test_a_problem_knows_torch_and_the_spec(folder: Path) -> None:
    """A problem holds no loop over cases, no timing, no comparison of its own."""
    allowed = {"torch", "grader.spec", "grader.scenarios", "grader.cuda_host.judging"}
    for path in (folder / "problem.py", folder / "hidden.py"):
        if path.exists():
            assert from_outside(path) <= allowed


@pytest.mark.parametrize("folder", PROBLEMS, ids=lambda folder: folder.name)
def test_a_solution_knows_torch_and_triton(folder: Path) -> None:
    """As a student's file: it runs without the grader."""
    assert from_outside(folder / "solution.py") <= {"torch", "triton"}


def test_there_are_problems() -> None:
    """The rules above were applied to something."""
    assert PROBLEMS
