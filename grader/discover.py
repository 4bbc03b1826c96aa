"""Finds the problems of a course: one folder of ``reference/`` is one problem, nothing is registered.

Imports ``problem.py`` and ``hidden.py``, which are staff files; never a solution or a submission.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from grader.measure import threshold_file
from grader.spec import Case, Problem

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "reference"


def problem_names(reference: Path = REFERENCE) -> tuple[str, ...]:
    """Folders of ``reference`` that hold a problem.py, by name."""
    return tuple(sorted(path.parent.name for path in reference.glob("*/problem.py")))


def load_problem(name: str, reference: Path = REFERENCE) -> Problem:
    """One problem with its hidden cases, where there are any, and its calibrated thresholds.

    Raises:
        ValueError: If there is no such problem, or its files do not fit each other.
    """
    folder = reference / name
    if not (folder / "problem.py").is_file():
        known = ", ".join(problem_names(reference)) or "none"
        raise ValueError(f"there is no problem {name!r} in {reference.name}/; problems: {known}")
    problem = getattr(_import(folder / "problem.py"), "PROBLEM", None)
    if not isinstance(problem, Problem):
        raise ValueError(f"{name}/problem.py: PROBLEM is not a grader.spec.Problem")  # noqa: TRY004  one error type for all a course author can get wrong
    if problem.name != name:
        raise ValueError(f"{name}/problem.py: PROBLEM.name is {problem.name!r}, folder is {name!r}")
    problem = replace(problem, cases=problem.cases + _hidden_cases(folder))
    anchors = folder / "thresholds.json"
    return (
        threshold_file.with_thresholds(problem, threshold_file.load(anchors))
        if anchors.is_file()
        else problem
    )


def load_problems(names: Sequence[str] = (), reference: Path = REFERENCE) -> tuple[Problem, ...]:
    """The named problems, or all; smaller ones first, as students meet them."""
    problems = [
        load_problem(name, reference) for name in dict.fromkeys(names or problem_names(reference))
    ]
    if not problems:
        raise ValueError(f"{reference.name}/ holds no problem (a folder with a problem.py)")
    return tuple(sorted(problems, key=lambda problem: (problem.points, problem.name)))


def _hidden_cases(folder: Path) -> tuple[Case, ...]:
    path = folder / "hidden.py"
    if not path.is_file():
        return ()
    cases = getattr(_import(path), "CASES", None)
    if not isinstance(cases, tuple):
        raise ValueError(f"{folder.name}/hidden.py: CASES is not a tuple of cases")  # noqa: TRY004  as above
    shown = [case.id for case in cases if case.visibility != "hidden"]
    if shown:
        raise ValueError(f"{folder.name}/hidden.py: not marked hidden: {', '.join(shown)}")
    return cases


def _import(path: Path) -> ModuleType:
    name = f"reference.{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        where = f"{path.parent.name}/{path.name}"
        raise ValueError(f"{where} does not load: {type(error).__name__}: {error}") from error
    return module
