"""Stubs: what is cut, what stays, and what must be refused rather than guessed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.release.markers import StubError
from grader.release.stubs import stale_stubs, strip, write_stubs

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "reference").glob("*/solution.py"))

SOLUTION = '''"""Doubling."""

import triton
import triton.language as tl


@triton.jit
def double_kernel(
    x_ptr,  # pointer to x
    BLOCK_SIZE: tl.constexpr,
):
    # one program a block
    # BEGIN SOLUTION
    offsets = tl.arange(0, BLOCK_SIZE)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets))
    # END SOLUTION


class Double:
    def forward(self, x):
        """Twice x."""
        # BEGIN SOLUTION
        # a secret remark
        return helper_of_staff(x)
        # END SOLUTION


def double(x):
    """Twice x, with a BEGIN and an end."""
    return Double().forward(x)
'''


def plain(body: str) -> str:
    """A module of one function with this body."""
    lines = "\n".join(f"    {line}" if line else "" for line in body.splitlines())
    return f"def f(x):\n{lines}\n"


def test_region_in_a_function_raises() -> None:
    """Outside kernels a region becomes NotImplementedError that names the function."""
    stub = strip(SOLUTION, "solution.py")

    assert '        raise NotImplementedError("TODO: implement Double.forward")\n' in stub


def test_region_in_a_kernel_is_a_static_assert() -> None:
    """Inside @triton.jit raise would not compile, so the region fails while compiling."""
    stub = strip(SOLUTION, "solution.py")

    assert '    tl.static_assert(False, "TODO: implement double_kernel")\n' in stub
    assert stub.count("raise") == 1


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param('"""Doubling."""', id="module-docstring"),
        pytest.param("    x_ptr,  # pointer to x\n", id="argument-comment"),
        pytest.param("    # one program a block\n", id="hint-before-the-region"),
        pytest.param('        """Twice x."""\n', id="docstring"),
        pytest.param("    return Double().forward(x)\n", id="code-outside-regions"),
    ],
)
def test_everything_outside_stays(kept: str) -> None:
    """Signatures, docstrings, comments and code outside the regions survive unchanged."""
    assert kept in strip(SOLUTION, "solution.py")


@pytest.mark.parametrize("gone", ["SOLUTION", "tl.load", "helper_of_staff", "secret"])
def test_nothing_inside_stays(gone: str) -> None:
    """Neither statements nor comments of a region survive, nor the markers."""
    assert gone not in strip(SOLUTION, "solution.py")


def test_explicit_message() -> None:
    """A STUB comment becomes the message of the failure."""
    source = plain("# BEGIN SOLUTION\n# STUB: count the waves\nreturn 1\n# END SOLUTION")

    assert 'raise NotImplementedError("TODO: count the waves")' in strip(source, "f.py")


def test_message_with_quotes() -> None:
    """The message may hold any characters; the failure still raises it as written."""
    source = plain("# BEGIN SOLUTION\n# STUB: say \"\\u2014\" or 'x'\nreturn 1\n# END SOLUTION")
    scope: dict[str, Any] = {}

    exec(strip(source, "f.py"), scope)  # written four lines above

    with pytest.raises(NotImplementedError) as caught:
        scope["f"](1)
    assert str(caught.value) == "TODO: say \"\\u2014\" or 'x'"


def test_unusual_line_breaks() -> None:
    """A form feed or U+2028 in a string is no line break to the parser, nor to the stub."""
    given = 'x = "a\u2028b"\n\f\n'
    source = given + plain("# BEGIN SOLUTION\nreturn 1\n# END SOLUTION")

    stub = strip(source, "f.py")

    assert stub.startswith(given)
    assert "return 1" not in stub


@pytest.mark.parametrize(
    "decorator",
    ["@triton.jit", "@triton.jit(debug=True)", "@jit", "@triton.autotune([], key=[])\n@triton.jit"],
)
def test_every_form_of_jit_is_a_kernel(decorator: str) -> None:
    """Called, imported by name or below another decorator, jit makes a kernel."""
    source = decorator + "\n" + plain("# BEGIN SOLUTION\npass\n# END SOLUTION")

    assert "tl.static_assert(False" in strip(source, "f.py")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("# BEGIN SOLUTION\nreturn 1\n# END SOLUTION", id="whole-body"),
        pytest.param(
            "if x:\n    # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\nreturn 2", id="branch"
        ),
        pytest.param(
            "# BEGIN SOLUTION\ny = 1\n# END SOLUTION\n# BEGIN SOLUTION\nreturn y\n# END SOLUTION",
            id="two-regions",
        ),
        pytest.param(
            "# BEGIN SOLUTION\nif x:\n    return 1\nelse:\n    return 2\n# END SOLUTION",
            id="compound-statement",
        ),
        pytest.param(
            '# BEGIN SOLUTION\nreturn f"""\nodd\n"""\n# END SOLUTION', id="multi-line-string"
        ),
        pytest.param(
            "# the best solution begins small and ends fast\n# BEGIN SOLUTION\nreturn 1\n"
            "# END SOLUTION",
            id="word-in-a-comment",
        ),
        pytest.param(
            "# begin with the smallest block\n# BEGIN SOLUTION\nreturn 1\n# END SOLUTION",
            id="begin-in-a-comment",
        ),
    ],
)
def test_accepted(body: str) -> None:
    """Regions of whole statements become stubs that compile and fail."""
    stub = strip(plain(body), "f.py")

    ast.parse(stub)
    assert "NotImplementedError" in stub


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        pytest.param("x = 1\n", 1, "whole solution would be handed out", id="no-marker"),
        pytest.param(plain("# BEGIN SOLUTION\nreturn 1"), 2, "BEGIN without END", id="open"),
        pytest.param(plain("return 1\n# END SOLUTION"), 3, "END without BEGIN", id="orphan"),
        pytest.param(
            plain("# BEGIN SOLUTION\n# BEGIN SOLUTION\nreturn 1\n# END SOLUTION"),
            3,
            "inside the region of line 2",
            id="nested",
        ),
        pytest.param(
            plain("# BEGIN SOLUTION\nif x:\n    return 1\n    # END SOLUTION"),
            5,
            "indented unlike",
            id="indentation-of-the-pair",
        ),
        pytest.param(
            plain("if x:\n# BEGIN SOLUTION\n    return 1\n# END SOLUTION"),
            2,
            "crosses",
            id="shallower-than-its-statements",
        ),
        pytest.param(
            plain("    # BEGIN SOLUTION\nreturn 1\n    # END SOLUTION"),
            2,
            "indented like the statements",
            id="deeper-than-its-statements",
        ),
        pytest.param(
            plain("return 1  # BEGIN SOLUTION\n# END SOLUTION"), 2, "alone", id="after-code"
        ),
        pytest.param(
            plain("y = (\n# BEGIN SOLUTION\n1\n# END SOLUTION\n)"), 3, "brackets", id="brackets"
        ),
        pytest.param(plain("# begin solution\nreturn 1"), 2, "only resembles", id="lower-case"),
        pytest.param(plain("#BEGIN SOLUTION\nreturn 1"), 2, "only resembles", id="no-space"),
        pytest.param(plain("### BEGIN SOLUTION\nreturn 1"), 2, "only resembles", id="nbgrader"),
        pytest.param(plain("# BEGIN SOLUTON\nreturn 1"), 2, "only resembles", id="misspelt"),
        pytest.param(plain("# BEGN SOLUTON\nreturn 1"), 2, "only resembles", id="misspelt-twice"),
        pytest.param(plain("# BEGIN_SOLUTION\nreturn 1"), 2, "only resembles", id="underscore"),
        pytest.param(plain("# BEGIN SOLUTION (a)\nreturn 1"), 2, "only resembles", id="more-text"),
        pytest.param(plain("# END OF SOLUTION\nreturn 1"), 2, "only resembles", id="end-of"),
        pytest.param(plain("return 1  # SOLUTION"), 2, "only resembles", id="suffix"),
        pytest.param(
            plain('"""\n# BEGIN SOLUTION\n"""\nreturn 1'), 2, "inside a string", id="string"
        ),
        pytest.param(
            plain("# BEGIN SOLUTION\n# nothing yet\n# END SOLUTION\nreturn 1"),
            2,
            "no statement",
            id="empty",
        ),
        pytest.param(
            plain("if x:\n    y = 1\n# BEGIN SOLUTION\nelse:\n    y = 2\n# END SOLUTION\nreturn y"),
            2,
            "crosses",
            id="else-cut-off",
        ),
        pytest.param(
            plain(
                "if x:\n    # BEGIN SOLUTION\n    y = 1\nelse:\n    # END SOLUTION\n    y = 2\n"
                "return y"
            ),
            5,
            "outside the region",
            id="else-swallowed",
        ),
        pytest.param(
            plain("# BEGIN SOLUTION\nfor y in x:\n    pass\n# END SOLUTION\n    print(y)"),
            3,
            "crosses",
            id="loop-runs-out",
        ),
        pytest.param(
            "# BEGIN SOLUTION\nsecret = 1\n# END SOLUTION\n", 1, "body of a function", id="module"
        ),
        pytest.param(
            "@triton.jit\ndef k():\n    pass\n" + plain("# BEGIN SOLUTION\npass\n# END SOLUTION"),
            2,
            "kernel k has no region",
            id="forgotten-kernel",
        ),
        pytest.param("def f(:\n", 1, "does not parse", id="syntax"),
        pytest.param(
            plain("# BEGIN SOLUTION\nreturn x * 0.5 * (1 + x)\n# END SOLUTION")
            + "# hint: return x*0.5 * (1 + x)\n",
            3,
            "survives",
            id="leak-in-a-comment",
        ),
        pytest.param(
            plain(
                '"""Like total = sum(x) / len(x)."""\n'
                "# BEGIN SOLUTION\ntotal = sum(x) / len(x)\nreturn total\n# END SOLUTION"
            ),
            4,
            "survives",
            id="leak-in-a-docstring",
        ),
    ],
)
def test_refused(source: str, line: int, message: str) -> None:
    """Whatever could publish a solution is an error with file and line."""
    with pytest.raises(StubError, match=re.escape(message)) as caught:
        strip(source, "reference/f/solution.py")

    assert str(caught.value).startswith(f"reference/f/solution.py:{line}: ")


def test_given_kernel_is_handed_out() -> None:
    """A kernel marked as given needs no region."""
    given = "@triton.jit\ndef k(x_ptr):\n    # GIVEN\n    pass\n"
    source = given + plain("# BEGIN SOLUTION\nreturn 1\n# END SOLUTION")

    assert strip(source, "f.py").startswith(given)


def test_statement_also_shown_on_purpose_is_no_leak() -> None:
    """A line that the module has outside its regions too may stay there."""
    line = "n_rows, n_cols = x.shape"
    source = plain(f"{line}\n# BEGIN SOLUTION\n{line}\nreturn n_rows\n# END SOLUTION")

    assert line in strip(source, "f.py")


@pytest.fixture
def course(tmp_path: Path) -> tuple[Path, Path]:
    """A reference folder with one problem, and an empty assignment folder."""
    reference, assignment = tmp_path / "reference", tmp_path / "assignment"
    (reference / "double").mkdir(parents=True)
    (reference / "double" / "solution.py").write_text(SOLUTION)
    assignment.mkdir()
    return reference, assignment


def test_stubs_are_written_once(course: tuple[Path, Path]) -> None:
    """A second run changes nothing, and what it wrote is current."""
    written = write_stubs(*course)

    assert written == [course[1] / "double.py"]
    assert write_stubs(*course) == []
    assert stale_stubs(*course) == []


def test_stub_is_stale_when_the_solution_changed(course: tuple[Path, Path]) -> None:
    """A changed signature shows, and nothing is written by looking."""
    write_stubs(*course)
    solution = course[0] / "double" / "solution.py"
    solution.write_text(SOLUTION.replace("def double(x)", "def double(x, n)"))

    assert stale_stubs(*course) == [course[1] / "double.py"]
    assert "def double(x):" in (course[1] / "double.py").read_text()


def test_other_files_are_left_alone(course: tuple[Path, Path]) -> None:
    """A student's own file, or a stub whose solution is elsewhere, is never touched."""
    own = course[1] / "own.py"
    own.write_text("x = 1\n")

    assert write_stubs(*course) == [course[1] / "double.py"]
    assert own.read_text() == "x = 1\n"


def test_one_bad_solution_changes_no_stub(course: tuple[Path, Path]) -> None:
    """An error is found before anything is written."""
    (course[0] / "other").mkdir()
    (course[0] / "other" / "solution.py").write_text("x = 1\n")

    with pytest.raises(StubError):
        write_stubs(*course)

    assert list(course[1].iterdir()) == []


def entries(problem: Path) -> set[str]:
    """The functions that a problem calls: of a scenario what it lists, else the one of its name."""
    scenario = problem / "scenario.py"
    for node in ast.parse(scenario.read_text()).body if scenario.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ENTRIES":
            return set(ast.literal_eval(node.value))
    return {problem.name}


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.parent.name)
def test_every_function_of_a_stub_fails_or_calls_one_that_does(solution: Path) -> None:
    """No kernel, method or entry of a committed stub has a working body; a helper may be given."""
    stub = ast.parse(strip(solution.read_text(), solution))
    called = entries(solution.parent)
    methods = [node.body for node in stub.body if isinstance(node, ast.ClassDef)]

    ends = {
        node.name: ast.unparse(node.body[-1])
        for node in [*stub.body, *(node for body in methods for node in body)]
        if isinstance(node, ast.FunctionDef)
        and (node not in stub.body or node.decorator_list or node.name in called)
    }
    working = {
        name
        for name, last in ends.items()
        if "TODO: " not in last
        and not (name in called and (".apply(" in last or "extension()." in last))
    }
    assert ends
    assert not working


def test_needs_neither_torch_nor_triton() -> None:
    """Stubs are made on a machine that has neither."""
    code = "import sys\nsys.modules.update(torch=None, triton=None)\nimport grader.release.stubs\n"

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
