"""The files of a course whose verdicts are known beforehand. Reads them, runs none.

Of every problem the solution, which earns all points, the stub, which earns none, and known mistakes,
each of which says at its top what must catch it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from grader.scorecard import Verdict
from grader.spec import GROUPS, Group, Problem

Part = Literal["solution", "stub", "wrong"]

_CONSTANTS: Final = ("EXPECTED_VERDICT", "EXPECTED_GROUP", "EXPECTED_CASES")


@dataclass(frozen=True)
class Expectation:
    """What a wrong file says at its top: EXPECTED_VERDICT, EXPECTED_GROUP, EXPECTED_CASES.

    Attributes:
        cases: Ids of all cases of the group that catch it; None where any may.
    """

    verdict: Verdict
    group: Group
    cases: tuple[str, ...] | None


@dataclass(frozen=True)
class Specimen:
    """One file of one problem.

    Attributes:
        name: Such as "softmax/wrong/no_maximum".
        groups: The groups that are run on it.
        expected: Of a wrong file.
    """

    problem: str
    part: Part
    path: Path
    groups: tuple[Group, ...] = GROUPS
    expected: Expectation | None = None

    @property
    def name(self) -> str:
        """Where it belongs, without the place on this machine."""
        inner = f"wrong/{self.path.stem}" if self.part == "wrong" else self.part
        return f"{self.problem}/{inner}"


def specimens(problem: Problem, reference: Path, assignment: Path) -> tuple[Specimen, ...]:
    """All files of a problem whose verdicts are known: the solution, the stub, those in wrong/.

    Raises:
        ValueError: If there is no stub, or a wrong file does not say what must catch it.
    """
    folder = reference / problem.name
    stub = assignment / f"{problem.name}.py"
    if not stub.is_file():
        raise ValueError(f"{assignment.name}/{stub.name} is missing: run `make stubs`")
    wrong = [
        Specimen(
            problem.name,
            "wrong",
            path,
            tuple(group for group in GROUPS if group in {"forward", expected.group}),
            expected,
        )
        for path in sorted((folder / "wrong").glob("*.py"))
        for expected in [read_expectation(path, problem)]
    ]
    return (
        Specimen(problem.name, "solution", folder / "solution.py"),
        Specimen(problem.name, "stub", stub),
        *wrong,
    )


def read_expectation(path: Path, problem: Problem) -> Expectation:
    """What a wrong file says must catch it. The file is read, not run.

    Raises:
        ValueError: If it does not say so, or names what the problem does not have.
    """
    where = f"{path.parent.parent.name}/wrong/{path.name}"
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            node.targets[0].id: ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in _CONSTANTS
        }
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{where} cannot be read: {error}") from error
    missing = [name for name in _CONSTANTS if name not in constants]
    if missing:
        raise ValueError(f"{where} must say at its top: {', '.join(missing)}")
    verdict, group, cases = (constants[name] for name in _CONSTANTS)
    if verdict not in set(Verdict):
        raise ValueError(f"{where}: EXPECTED_VERDICT {verdict!r} is no verdict")
    if group not in GROUPS:
        raise ValueError(
            f"{where}: EXPECTED_GROUP is {group!r}, must be one of {', '.join(GROUPS)}"
        )
    known = {case.id for case in problem.cases_in(group)}
    if not known:
        raise ValueError(f"{where}: EXPECTED_GROUP is {group!r}, which has no cases here")
    strangers = sorted(set(cases or ()) - known)
    if strangers:
        raise ValueError(
            f"{where}: EXPECTED_CASES names {', '.join(strangers)}; the cases of {group} are"
            f" {', '.join(sorted(known))}"
        )
    return Expectation(Verdict(verdict), group, None if cases is None else tuple(cases))
