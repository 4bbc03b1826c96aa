"""Stubs of CUDA C++: what is cut, what stays, and what must be refused rather than guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.cuda_host import source
from grader.release.cuda_stubs import strip
from grader.release.markers import StubError
from grader.release.stubs import stale_stubs, write_stubs

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = sorted((ROOT / "reference").glob("*/solution.cu"))

SOLUTION = """// Doubling.
#include <torch/types.h>

__global__ void double_kernel(const float* x, float* y, int n) {
  // one thread, one element
  // BEGIN SOLUTION
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = 2 * x[i];  // a secret remark
  }
  // END SOLUTION
}

torch::Tensor twice(torch::Tensor x) {
  // BEGIN SOLUTION
  // STUB: launch double_kernel
  return helper_of_staff(x);
  // END SOLUTION
}
"""


def function(body: str) -> str:
    """A function with this body."""
    return f"void f(int n) {{\n{body}\n}}\n"


REGION = "  // BEGIN SOLUTION\n  work_of_the_solution(n);\n  // END SOLUTION"


def test_a_region_becomes_an_error_of_the_preprocessor() -> None:
    """Named for the function around it, or in the solution's own words; known as a stub."""
    stub = strip(SOLUTION, "solution.cu")

    assert '\n#error "TODO: implement double_kernel"\n' in stub
    assert '\n#error "TODO: launch double_kernel"\n' in stub
    assert source.todo(stub) == "TODO: implement double_kernel"
    assert not source.todo(SOLUTION)


def test_everything_outside_stays_and_nothing_inside() -> None:
    """Signatures, includes and hints survive; statements, remarks and markers do not."""
    stub = strip(SOLUTION, "solution.cu")

    for kept in ("// Doubling.\n", "#include <torch/types.h>\n", "  // one thread, one element\n"):
        assert kept in stub
    assert stub.count("{") == stub.count("}") == 2
    for gone in ("SOLUTION", "blockIdx", "helper_of_staff", "secret", "STUB"):
        assert gone not in stub


@pytest.mark.parametrize(
    "marker",
    [
        pytest.param("//BEGIN SOLUTION", id="no-space"),
        pytest.param("// Begin solution", id="small-letters"),
        pytest.param("// BEGN SOLUTON", id="misspelt"),
        pytest.param("/* BEGIN SOLUTION */", id="other-comment"),
        pytest.param("// BEGIN SOLUTION:", id="colon"),
        pytest.param("# BEGIN SOLUTION", id="of-python"),
        pytest.param('f("// BEGIN SOLUTION");', id="in-a-string"),
        pytest.param("int a;  // BEGIN SOLUTION", id="behind-code"),
    ],
)
def test_a_near_miss_is_an_error(marker: str) -> None:
    """A marker that only looks like one would publish the solution."""
    text = function(REGION) + function(REGION.replace("// BEGIN SOLUTION", marker))

    with pytest.raises(StubError):
        strip(text, "solution.cu")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (function("  work();"), "the whole solution would be handed out"),
        (function("  // BEGIN SOLUTION\n  work();"), "BEGIN without END"),
        (function("  work();\n  // END SOLUTION"), "END without BEGIN"),
        (function(f"  // BEGIN SOLUTION\n{REGION}\n  // END SOLUTION"), "BEGIN inside"),
        (function("  // BEGIN SOLUTION\n  work();\n    // END SOLUTION"), "indented unlike"),
        (function("  // BEGIN SOLUTION\n  // nothing\n  // END SOLUTION"), "no statement"),
        (function("  // BEGIN SOLUTION\n  if (n) {\n  // END SOLUTION\n  }"), "does not close"),
        (function("  if (n) {\n  // BEGIN SOLUTION\n  }\n  // END SOLUTION"), "did not open"),
        (function("  // BEGIN SOLUTION\n  g(1,\n  // END SOLUTION\n  2);"), "does not close"),
        (function("  // BEGIN SOLUTION\n  int a =\n  // END SOLUTION\n  2;"), "within a statement"),
        (function("  int a =\n  // BEGIN SOLUTION\n  2;\n  // END SOLUTION"), "within a statement"),
        ("// BEGIN SOLUTION\nint work_of_staff;\n// END SOLUTION\n", "within a statement"),
        ("int a;\n// BEGIN SOLUTION\nint work;\n// END SOLUTION\n", "body of a function"),
        (function(REGION) + "__global__ void k() {\n  work();\n}\n", "a kernel has no region"),
        (
            function(REGION) + "// such as work_of_the_solution(n)\n",
            "survives in the stub",
        ),
        (
            function('  // BEGIN SOLUTION\n  // STUB: say "hello"\n  work();\n  // END SOLUTION'),
            "neither quotes",
        ),
    ],
)
def test_what_cannot_be_meant_is_an_error(text: str, said: str) -> None:
    """Half a region, half a statement, a kernel forgotten, a solution in a hint."""
    with pytest.raises(StubError, match=said):
        strip(text, "solution.cu")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            function(REGION) + "__global__ void k() {\n  // GIVEN\n  work();\n}\n", id="given"
        ),
        pytest.param("__global__ void k(int n);\n" + function(REGION), id="declared"),
        pytest.param(function(f"  if (n) {{\n{REGION}\n  }}"), id="in-a-block"),
        pytest.param(function("  g(1);\n" + REGION + "\n  g(2);"), id="amid-statements"),
        pytest.param("namespace a {\n" + function(REGION) + "}\n", id="in-a-namespace"),
    ],
)
def test_what_is_meant_is_no_error(text: str) -> None:
    """A kernel that is given, a declaration, a region in the middle."""
    assert "#error" in strip(text, "solution.cu")


def test_both_files_of_a_problem_are_kept_current(tmp_path: Path) -> None:
    """A stale .cu stub is told and written like a Python one; nothing else is touched."""
    reference, assignment = tmp_path / "reference" / "twice", tmp_path / "assignment"
    reference.mkdir(parents=True)
    (reference / "solution.cu").write_text(SOLUTION)
    (reference / "solution.py").write_text(
        "def twice(x):\n    # BEGIN SOLUTION\n    return x\n    # END SOLUTION\n"
    )

    written = write_stubs(reference.parent, assignment)
    (assignment / "twice.cu").write_text("changed")

    assert sorted(path.name for path in written) == ["twice.cu", "twice.py"]
    assert stale_stubs(reference.parent, assignment) == [assignment / "twice.cu"]


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda path: path.parent.name)
def test_every_kernel_of_a_stub_is_to_be_done(solution: Path) -> None:
    """No kernel or launcher of a committed stub has a working body."""
    stub = source.without_comments(strip(solution.read_text(), solution))

    assert stub.count('#error "TODO: ') == 2
    assert "<<<" not in stub
    assert "threadIdx" not in stub


def test_there_are_solutions() -> None:
    """The rule above was applied to something."""
    assert len(SOLUTIONS) >= 2
