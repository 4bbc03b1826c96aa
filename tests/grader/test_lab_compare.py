"""`lab compare`: what is timed, what is refused, and what the tables say."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from grader.commands.lab import _command
from grader.lab import compare_tables
from grader.lab.compare import (
    Comparison,
    Function,
    Timed,
    Way,
    copy_bytes_per_s,
    copy_ms,
    load,
    times,
)
from grader.lab.compare_tables import Circumstances
from grader.lab.comparisons import COMPARISONS, KERNELS
from grader.measure.statistics import Interval
from grader.measure.stopwatch import ScriptedStopwatch
from grader.scorecard import Environment
from grader.simulator import load_module, recording
from grader.spec import Tolerance
from tests.grader.course import ROOT

NO_GPU = not torch.cuda.is_available()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a process of its own."""
    command = [sys.executable, "-m", "grader", "lab", "compare", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)


def way(name: str, function: Function, notes_ms: float | None = None) -> Way:
    """A way that needs no loading."""
    return Way(name, f"what {name} runs", lambda: function, notes_ms)


def doubled(*ways: Way) -> Comparison:
    """Ways to double a matrix, within a thousandth."""
    return Comparison(
        "double", "Double", lambda x: 2 * x, lambda _n: Tolerance(atol=0, rtol=1e-3), ways
    )


def timed(comparison: Comparison, new_stopwatch: Callable[[], ScriptedStopwatch]) -> list[Timed]:
    """Five made-up times of each way, on small matrices."""
    loaded = load([comparison], lambda _what: None)
    return times(comparison, loaded, 8, 5, new_stopwatch, random.Random(1), lambda _what: None)


def test_the_median_of_the_timed_calls() -> None:
    """The n-th way has a stopwatch of its own, of n ms; warm-up calls do not count."""
    made: list[ScriptedStopwatch] = []

    def new_stopwatch() -> ScriptedStopwatch:
        made.append(ScriptedStopwatch(len(made) + 1.0))
        return made[-1]

    ways = way("sum", lambda x: x + x), way("product", lambda x: 2 * x)
    first, second = timed(doubled(*ways), new_stopwatch)

    assert first.ms == Interval(1.0, 1.0, 1.0, 5)
    assert second.ms == Interval(2.0, 2.0, 2.0, 5)
    assert (first.reason, second.reason) == ("", "")


def test_a_wrong_result_has_no_time() -> None:
    """Values, shape and dtype count; the ways beside it are timed."""
    ways = (
        way("right", lambda x: x + x),
        way("wrong", lambda x: 2.01 * x),
        way("short", lambda x: 2 * x[1:]),
        way("double", lambda x: 2 * x.double()),
    )
    right, wrong, short, double = timed(doubled(*ways), lambda: ScriptedStopwatch(1.0))

    assert right.ms is not None
    assert wrong.ms is None
    assert "64 of 64 values of y are wrong" in wrong.reason
    assert short.reason == "returned torch.float32 (7, 8), want torch.float32 (8, 8)"
    assert double.reason == "returned torch.float64 (8, 8), want torch.float32 (8, 8)"


def test_what_cannot_be_loaded_has_no_time() -> None:
    """The first line says what is missing; the ways beside it are timed."""

    def missing(*_: object) -> NoReturn:
        raise RuntimeError("nvcc is missing\nand more of it")

    ways = (
        Way("CUDA", "C++", missing, runs_nvcc=True),
        way("compiled at its first call", missing),
        way("right", lambda x: x + x),
    )
    first, second, third = timed(doubled(*ways), lambda: ScriptedStopwatch(1.0))

    assert (first.ms, first.reason) == (None, "RuntimeError: nvcc is missing")
    assert (second.ms, second.reason) == (None, "RuntimeError: nvcc is missing")
    assert third.ms is not None


def test_it_tells_what_goes_on() -> None:
    """How long loading took, whose turn it is, and the times as soon as they are known."""
    told: list[str] = []
    comparison = doubled(way("sum", lambda x: x + x))
    times(
        comparison,
        load([comparison], told.append),
        8,
        5,
        lambda: ScriptedStopwatch(3.0),
        random.Random(1),
        told.append,
    )

    assert re.fullmatch(r"sum, what sum runs: loaded in \d+\.\d s", told[0])
    assert told[1:] == ["double: sum warms up", "double: sum: 3.0000 ms"]


def test_bandwidth_counts_reads_and_writes() -> None:
    """4000 bytes to read and 4000 to write in 2 ms are 4 MB/s."""
    assert copy_bytes_per_s(ScriptedStopwatch(2.0), 3, n_bytes=4000) == pytest.approx(4e6)
    # 16384 x 16384 x 4 bytes, read and written, at 2.147483648 TB/s
    assert copy_ms(16384, 2.147483648e12) == pytest.approx(1.0)


CIRCUMSTANCES = Circumstances(
    environment=Environment(
        python="3.12.3",
        torch="2.11.0",
        triton="3.6.0",
        numpy="2.4.6",
        platform="Linux x86_64",
        device="cuda",
        gpu="NVIDIA H200",
        gpu_driver="580.1",
        cuda="13.0",
        backend="triton",
    ),
    date="2026-11-30",
    command="python -m grader lab compare",
    # 2 x 1000 x 1000 x 4 bytes at 4 TB/s: 0.002 ms
    n=1000,
    n_calls=5,
    copy_bytes_per_s=4e12,
    notes_gpu="H100",
)
PLAIN = Timed(way("plain", torch.neg, 8.1), Interval(0.02, 0.019, 0.021, 5))
FUSED = Timed(way("fused", torch.neg, 2.7), Interval(0.004, 0.004, 0.004, 5))
ABSENT = Timed(way("CUDA", torch.neg, 1.8), reason="RuntimeError: nvcc is\nmissing")


def test_the_table() -> None:
    """Shares of a copy, ratios to the first way, ours and the notes'; a dash where there is none."""
    text = compare_tables.markdown(CIRCUMSTANCES, [(doubled(), [PLAIN, FUSED, ABSENT])])

    assert "NVIDIA H200, driver 580.1, Python 3.12.3, torch 2.11.0 (CUDA 13.0), triton" in text
    assert "    python -m grader lab compare\n" in text
    assert "| plain | what plain runs | 0.020 | 10 % | 1.00 | 8.1 | 1.00 |" in text
    assert "| fused | what fused runs | 0.004 | 50 % | 5.00 | 2.7 | 3.00 |" in text
    assert "| CUDA | what CUDA runs | - | - | - | 1.8 | 4.50 |" in text
    assert "CUDA was not timed: RuntimeError: nvcc is missing" in text
    assert "measured on an H100" in text


def test_a_table_without_notes() -> None:
    """No empty columns."""
    rows = [Timed(way("a", torch.neg), Interval(0.002, 0.002, 0.002, 5))]
    text = compare_tables.markdown(CIRCUMSTANCES, [(doubled(), rows)])

    assert "| a | what a runs | 0.002 | 100 % | 1.00 |\n" in f"{text}\n"
    assert "H100" not in text


def test_the_same_as_data() -> None:
    """Times, intervals and ratios; null where there is none."""
    told = compare_tables.as_json(CIRCUMSTANCES, [(doubled(), [PLAIN, FUSED, ABSENT])])

    (comparison,) = json.loads(json.dumps(told))["comparisons"]
    plain, fused, absent = comparison["ways"]
    assert comparison["name"] == "double"
    assert plain["ci95"] == [0.019, 0.021]
    assert (fused["median_ms"], fused["faster"]) == (0.004, pytest.approx(5.0))
    assert fused["of_copy_pct"] == pytest.approx(50.0)
    assert (absent["median_ms"], absent["faster"]) == (None, None)
    assert absent["notes_faster"] == pytest.approx(4.5)


def test_the_command_in_the_table_measures_the_same_again() -> None:
    """All that was chosen, and not where the file went."""
    command = _command(["gelu", "square"], 512, 7)

    assert command == "python -m grader lab compare gelu square --size 512 --calls 7"


@pytest.mark.parametrize("name", COMPARISONS)
def test_what_runs_without_a_gpu_is_right(name: str) -> None:
    """PyTorch's ways of each comparison; every other needs a tool of the GPU."""
    comparison = COMPARISONS[name]()
    ways = tuple(w for w in comparison.ways if w.name not in {"CUDA", "compiled"})
    ways = tuple(w for w in ways if not w.name.startswith("Triton"))
    chosen = Comparison(name, comparison.title, comparison.oracle, comparison.tolerance, ways)

    assert len(ways) >= 2
    assert all(row.ms for row in timed(chosen, lambda: ScriptedStopwatch(1.0)))


@pytest.mark.parametrize("block_size", [64, 1024])
def test_the_square_kernel(block_size: int) -> None:
    """Every element, the last block's too, and nothing beyond."""
    square = load_module(KERNELS / "square.py", name="square_kernel_under_test").square
    x = torch.arange(1.0, 2501.0)

    with recording() as log:
        y = square(x, block_size)

    assert torch.equal(y, x * x)
    assert [launch.n_programs for launch in log.launches] == [-(-2500 // block_size)]
    assert not log.findings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["tanh"], "there is no comparison 'tanh'", id="comparison"),
        pytest.param(["gelu", "--device", "cpu"], "says nothing about a GPU", id="cpu"),
        pytest.param(["gelu", "--device", "gpu"], "want cuda or cuda:1", id="device"),
        pytest.param(["gelu", "--calls", "1"], "Invalid value for '--calls'", id="calls"),
        pytest.param(
            ["gelu"],
            "there is no GPU here",
            id="no-gpu",
            marks=pytest.mark.skipif(not NO_GPU, reason="there is a GPU"),
        ),
    ],
)
def test_usage_error(arguments: list[str], words: str) -> None:
    """Exit code 2 and a line that says what is wrong."""
    asked = run(*arguments)

    assert asked.returncode == 2
    assert words in asked.stderr
    assert "Traceback" not in asked.stderr
    assert asked.stdout == ""


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU, reason="needs a GPU")
def test_on_a_gpu(tmp_path: Path) -> None:
    """Every way has a time, and the file is what was printed."""
    out = tmp_path / "new" / "table.md"
    asked = run("--size", "1024", "--calls", "5", "--out", str(out))

    assert asked.returncode == 0, asked.stderr
    assert out.read_text() == asked.stdout
    assert "was not timed" not in asked.stdout
