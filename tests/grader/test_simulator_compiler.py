"""The simulator refuses what Triton's compiler refuses, with line and advice, and nothing else.

The tables are in `tests/corpus/compiler_tables.py` and `tests/corpus/argument_tables.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grader.simulator import CompilationError, load_module
from tests.corpus.compile_tables import ACCEPTED, REFUSED, TEMPLATE, arguments, source

ROOT = Path(__file__).resolve().parents[2]
FIRST_LINE = TEMPLATE.count("\n") + 1


def launch(folder: Path, statements: str) -> None:
    """Run the template's kernel, with these statements at its end."""
    path = folder / "row.py"
    path.write_text(source(statements))
    load_module(path, name="row_of_the_compiler").kernel[(1,)](*arguments())


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_compiler_refuses(tmp_path: Path, name: str) -> None:
    """With the reason, in the student's file."""
    statements, reason = REFUSED[name]

    with pytest.raises(CompilationError, match=reason) as caught:
        launch(tmp_path, statements)

    if name != "return value":
        assert "row.py:" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["break", "subscript int", "if block", "dot K8", "exp fp16", "load pointer float"]
)
def test_a_refusal_names_the_line(tmp_path: Path, name: str) -> None:
    """And shows it."""
    statements, _ = REFUSED[name]
    lines = statements.splitlines()

    with pytest.raises(CompilationError) as caught:
        launch(tmp_path, statements)

    named = [n for n in range(len(lines)) if f"row.py:{FIRST_LINE + n}:" in str(caught.value)]
    assert len(named) == 1
    assert lines[named[0]].strip() in str(caught.value)


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_the_compiler_accepts(tmp_path: Path, name: str) -> None:
    """The near misses: none of these may be refused."""
    launch(tmp_path, ACCEPTED[name])


BRANCHES = """\
total = tl.zeros((BLOCK,), tl.float32)
for k in range(n):
    if k > 3:
        a = tl.load(b_ptr + i)
    else:
        a = tl.load(b_ptr + i) + 1
    a = a.to(tl.float32)
    total += a
    if not (k == 5 or k > 6):
        sign = -1
    else:
        sign = 2
    total = total * sign
tl.store(x_ptr + i, total)
"""


def test_a_variable_of_a_loops_turn_may_change_its_type_after_a_branch(tmp_path: Path) -> None:
    """It is new in every turn; a branch's number is a value afterwards."""
    path = tmp_path / "row.py"
    path.write_text(source(BRANCHES))
    given = arguments()

    load_module(path, name="row_of_the_compiler").kernel[(1,)](*given)

    want = 0.0
    for k in range(8):
        want = (want + (0 if k > 3 else 1)) * (2 if k == 5 or k > 6 else -1)
    assert torch.equal(given[0][:16], torch.full((16,), want))


@pytest.mark.triton
def test_triton_gives_the_same_answers(tmp_path: Path) -> None:
    """All rows, put to the real compiler."""
    command = [sys.executable, "-m", "tests.corpus.compile_tables", str(tmp_path)]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    answers = json.loads(done.stdout.splitlines()[-1])
    assert not [name for name in REFUSED if not answers[name]]
    assert not {name: answers[name] for name in ACCEPTED if answers[name]}
