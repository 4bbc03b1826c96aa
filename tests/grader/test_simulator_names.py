"""Every public name of Triton is there, or is refused with a message that says what to use."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from grader.simulator import UnsupportedError
from grader.simulator.language import modules
from grader.simulator.unsupported import INSTEAD

NAMES: dict[str, str] = json.loads(
    (Path(__file__).resolve().parents[1] / "data/triton_names.json").read_text()
)
RELEASE = NAMES.pop("release")
PUBLIC = [(module, name) for module, names in NAMES.items() for name in names.split()]


def has(module: str, name: str) -> bool:
    """Whether the simulator has it."""
    return name in vars(modules()[module])


@pytest.mark.parametrize("module", NAMES)
def test_every_name_is_there_or_refused_with_advice(module: str) -> None:
    """And with its own name in the message."""
    missing = [name for m, name in PUBLIC if m == module and not has(module, name)]

    for name in missing:
        with pytest.raises(UnsupportedError) as caught:
            getattr(modules()[module], name)
        what, _, advice = str(caught.value).partition(": ")
        assert what == f"{module}.{name} is not in the simulator"
        assert len(advice) >= len("use tl.fma")


def test_no_advice_for_what_is_there() -> None:
    """Nor for names that no release of Triton had."""
    elsewhere = {("triton.language", "libdevice")}
    stale = [
        f"{module}.{name}"
        for module, names in INSTEAD.items()
        for name in names
        if has(module, name)
        or ((module, name) not in {*PUBLIC, *elsewhere} and module != "triton.language.math")
    ]

    assert not stale


def test_most_names_are_there() -> None:
    """All but a few of the language; what is missing is seldom met in a course."""
    language = NAMES["triton.language"].split()
    missing = [name for name in language if not has("triton.language", name)]

    assert len(missing) < 20
    assert {"dot_scaled", "inline_asm_elementwise"} < set(missing)


def test_nothing_else_is_there() -> None:
    """A name that the real one lacks would fail on a GPU only."""
    also = {
        "triton": {"JITFunction"},
        "triton.language": {"core", "standard", "extra", "math"},
    }
    for module, names in NAMES.items():
        ours = {n for n in vars(modules()[module]) if not n.startswith("_")}
        assert ours <= {*names.split(), *also.get(module, set())}


def test_a_name_that_no_triton_has() -> None:
    """An ordinary AttributeError with a near name: hasattr and getattr work as ever."""
    language = modules()["triton.language"]

    with pytest.raises(AttributeError, match="did you mean maximum"):
        _ = language.maximun
    assert not hasattr(language, "maximun")
    # what the simulator lacks is missing for hasattr, too
    assert not hasattr(language, "dot_scaled")
    assert getattr(language, "float8e4b8", None) is None
    assert hasattr(language, "maximum")


@pytest.mark.parametrize("name", ["do_bench", "do_bench_cudagraph"])
def test_timing_is_refused_with_the_reason(name: str) -> None:
    """A simulator has no time, so a number would be a lie."""
    measure: Any = getattr(modules()["triton.testing"], name)

    with pytest.raises(UnsupportedError, match=r"measures time.*run it on a GPU"):
        measure(lambda: None)


@pytest.mark.triton
def test_the_list_is_that_of_triton() -> None:
    """The data is current for the release whose rules the simulator follows."""
    triton = importlib.import_module("triton")
    language = importlib.import_module("triton.language")
    if triton.__version__ != RELEASE:
        pytest.skip(f"the list is of {RELEASE}, installed is {triton.__version__}")

    assert sorted(language.__all__) == NAMES["triton.language"].split()
    assert sorted(triton.__all__) == NAMES["triton"].split()
