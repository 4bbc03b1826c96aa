"""CUDA C++ read as text: launches become calls, comments and literals are no code."""

from __future__ import annotations

import pytest

from grader.cuda_host import source


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "k<<<1, 2>>>(x, n);",
            '::cuda_host::configured(1, 2).with("k", [&](auto... cuda_host_a)'
            " { k(cuda_host_a...); })(x, n);",
            id="plain",
        ),
        pytest.param(
            "if (n) k<float, 4> <<<dim3(a, b), c>>> ();",
            'if (n) ::cuda_host::configured(dim3(a, b), c).with("k<float,4>", [&](auto... cuda_host_a)'
            " { k<float, 4>(cuda_host_a...); }) ();",
            id="template",
        ),
        pytest.param(
            "ns::k<<<(n >> 3) + f(a, b[0]), 256, 0, s>>>(x);",
            '::cuda_host::configured((n >> 3) + f(a, b[0]), 256, 0, s).with("ns::k",'
            " [&](auto... cuda_host_a) { ns::k(cuda_host_a...); })(x);",
            id="shift-inside",
        ),
    ],
)
def test_a_launch_becomes_a_call(text: str, want: str) -> None:
    """Name, configuration and arguments keep their words."""
    assert source.for_host(text) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("// k<<<1, 2>>>(x);\n", id="line-comment"),
        pytest.param("/* k<<<1, 2>>>(x); */", id="comment"),
        pytest.param('s = "k<<<1, 2>>>(x)";', id="string"),
        pytest.param('s = R"(k<<<1, 2>>>(x))";', id="raw-string"),
        pytest.param("k<<<1, 2>>(x);", id="unfinished"),
        pytest.param("<<<1, 2>>>(x);", id="no-name"),
        pytest.param("a << b >> c;", id="shifts"),
    ],
)
def test_what_is_no_launch_stays(text: str) -> None:
    """Comments and literals are no code, and what is incomplete is the compiler's to refuse."""
    assert source.for_host(text) == text


def test_lines_stay_where_they_are() -> None:
    """A launch over several lines takes as many lines afterwards: messages name the right one."""
    text = "a;\nk\n<<<\n  1,\n  2>>>(\n  x);\nb;\n"

    assert source.for_host(text).count("\n") == text.count("\n")
    assert source.for_host(text).splitlines()[-1] == "b;"


def test_two_launches_are_both_rewritten() -> None:
    """The second one, too."""
    assert "<<<" not in source.for_host("k<<<1, 2>>>(x); m<<<3, 4>>>(y);")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('#error "TODO: implement k"\n', "TODO: implement k"),
        ('void f() {\n  # error "TODO: this"\n}\n', "TODO: this"),
        ('// #error "TODO: implement k"\n', ""),
        ('/*\n#error "TODO: implement k"\n*/\n', ""),
        ('#error "too old a compiler"\n', ""),
        ("// TODO: faster\nint x;\n", ""),
    ],
)
def test_only_a_stub_says_what_is_to_be_done(text: str, want: str) -> None:
    """The marker of a stub counts where a compiler would meet it, and nothing else does."""
    assert source.todo(text) == want


def test_places_stay_where_comments_are_blanked() -> None:
    """Every character keeps its place, and digits' separators are no literals."""
    text = "int n = 1'000'000; // it's \"n\"\nchar c = '\"'; /* a\nb */ int m;\n"

    blanked = source.without_literals(text)

    assert len(blanked) == len(text)
    assert blanked.splitlines()[0].rstrip() == "int n = 1'000'000;"
    assert blanked.index("int m") == text.index("int m")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("__global__ void k(int n) { }\nvoid f() { k<<<1, 2>>>(3); }", True),
        ("template <class T> __global__ void k() { }\nvoid f() { cudaLaunchKernel(k); }", True),
        ("__global__ void k(int n);\nvoid f() { k<<<1, 2>>>(3); }", False),
        ("__global__ void k(int n) { }\n// k<<<1, 2>>>(3);", False),
        ("// __global__ void k(int n) { }\nvoid f() { k<<<1, 2>>>(3); }", False),
    ],
)
def test_a_kernel_is_defined_and_launched(text: str, want: bool) -> None:
    """In code, not in comments; a declaration alone is none."""
    assert source.has_kernel(text) is want
