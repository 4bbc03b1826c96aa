"""What performance_model wants: the figures of the course notes, and what other code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grader import inputs
from grader.compiler.occupancy import LIMITS, occupancy
from grader.discover import REFERENCE, load_problem
from grader.scenarios import Log, Mistake, plain
from grader.spec import Case, Inputs

FOLDER = REFERENCE / "performance_model"
PROBLEM = load_problem("performance_model")
CASES = {case.id: case for case in PROBLEM.cases}
MATRIX = 300 * 781


def module(path: Path) -> ModuleType:
    """One file, loaded by itself."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def given(case_id: str, seed: int = 1) -> tuple[Case, Inputs]:
    """A case and its arguments."""
    return CASES[case_id], inputs.draw(PROBLEM, CASES[case_id], seed)


def judged(case_id: str, *returned: object) -> Mistake | None:
    """What the judge says of these answers, one per call."""
    assert PROBLEM.judge is not None
    log: Log = plain({"returned": list(returned)})
    return PROBLEM.judge(*given(case_id), log)


def run(path: Path, case_id: str, seed: int = 1) -> Mistake | None:
    """What the judge says of a submission."""
    assert PROBLEM.judge is not None
    case, arguments = given(case_id, seed)
    log = module(FOLDER / "scenario.py").run(module(path), case_id, dict(arguments))
    return PROBLEM.judge(case, arguments, plain(log))


@pytest.mark.parametrize(
    ("case", "returned"),
    [
        ("occupancy-registers", [(3, 12 / 64, "registers")]),
        ("occupancy-exercise", [(2, 16 / 64, "registers")]),
        (
            "tile_traffic-table",
            [
                (16, 16, 8, 2_097_152, 65_536),
                (8, 8, 8, 1_048_576, 65_536),
                (4, 4, 8, 524_288, 65_536),
                (2, 2, 8, 262_144, 65_536),
            ],
        ),
        # 16 rows and 11 columns of programs: A eleven times, B sixteen times
        (
            "tile_traffic-grid",
            [(16, 11, 16, 11 * 1000 * 512 + 16 * 512 * 700, 1000 * 700)],
        ),
        ("softmax_traffic-naive", [(5 * MATRIX + 2 * 300, 3 * MATRIX + 2 * 300)]),
        ("softmax_traffic-fused", [(MATRIX, MATRIX)]),
        ("waves-full", [(1, 1.0), (2, 1.0)]),
        ("waves-one-more", [(2, 149 / 296), (2, 661 / 1320)]),
        # 5 operations for 8 bytes at 4.8 TB/s
        ("intensity-memory", [(0.625, 3.0, "memory")]),
        ("bank_conflicts-row", [1, 1]),
        ("bank_conflicts-column", [32]),
        ("bank_conflicts-padded", [1]),
        ("bank_conflicts-broadcast", [1, 1]),
        ("sectors-aligned", [4]),
        ("sectors-offset", [5]),
        ("sectors-strided", [32]),
        ("sectors-shared", [1]),
    ],
)
def test_the_notes_figures_are_wanted(case: str, returned: list[object]) -> None:
    """What the course notes say, or a line of arithmetic, is right."""
    assert judged(case, *returned) is None


@pytest.mark.parametrize("seed", range(40))
def test_wanted_occupancy_is_that_of_the_scorecard(seed: int) -> None:
    """The rule asked for here is the one by which the grader reports a kernel's occupancy."""
    _, arguments = given("occupancy-random", seed)
    answers = []
    for i in range(len(arguments) // 3):
        n_threads, registers, shared_bytes = (
            int(arguments[f"{i}.{name}"]) for name in ("n_threads", "registers", "shared_bytes")
        )
        found = occupancy(
            LIMITS[90], n_threads=n_threads, registers=registers, shared_bytes=shared_bytes
        )
        answers.append([found.blocks, found.pct / 100, found.limited_by])
    assert PROBLEM.judge is not None

    assert PROBLEM.judge(CASES["occupancy-random"], arguments, {"returned": plain(answers)}) is None


@pytest.mark.parametrize(
    ("stem", "case"),
    [
        ("occupancy_without_units", "occupancy-units"),
        ("occupancy_adds_up_parts", "occupancy-parts"),
        ("occupancy_forgets_warps", "occupancy-warps"),
        ("occupancy_forgets_reserved", "occupancy-shared"),
        ("occupancy_in_percent", "occupancy-registers"),
        ("tile_traffic_once", "tile_traffic-table"),
        ("tile_traffic_swapped", "tile_traffic-oblong"),
        ("tile_traffic_without_mask", "tile_traffic-grid"),
        ("softmax_traffic_without_columns", "softmax_traffic-naive"),
        ("waves_rounds_down", "waves-one-more"),
        ("intensity_without_roof", "intensity-compute"),
        ("bank_conflicts_without_broadcast", "bank_conflicts-broadcast"),
        ("sectors_assumes_alignment", "sectors-offset"),
        ("sectors_of_first_byte", "sectors-straddling"),
    ],
)
def test_the_case_that_names_a_mistake_catches_it(stem: str, case: str) -> None:
    """Each wrong solution fails the case made for it, and the one of its function that draws."""
    path = FOLDER / "wrong" / f"{stem}.py"
    function = case.partition("-")[0]

    assert run(path, case) is not None
    # one draw may miss a mistake that few arguments show
    assert any(run(path, f"{function}-random", seed) for seed in range(3))


@pytest.mark.parametrize("function", sorted({case.partition("-")[0] for case in CASES}))
def test_the_solution_passes_whatever_is_drawn(function: str) -> None:
    """Formula and count agree for thirty draws of each function."""
    for seed in range(30):
        assert run(FOLDER / "solution.py", f"{function}-random", seed) is None
        assert run(FOLDER / "solution.py", f"{function}-hidden", seed) is None


@pytest.mark.parametrize(
    ("returned", "said", "verdict"),
    [
        ((3, 18.75, "registers"), "not per cent", "wrong_value"),
        ((3, 0.19, "registers"), "not rounded", "wrong_value"),
        (
            (3, 0.1875, "warps"),
            "registers 3, shared memory 228, warps 16, blocks 32",
            "wrong_value",
        ),
        ((True, 0.1875, "registers"), "n_blocks: got (True", "wrong_value"),
        ((3, float("nan"), "registers"), "share: got (3, nan", "wrong_value"),
        ((3, 0.1875), "want a tuple (n_blocks, share, limited_by)", "wrong_type"),
        (None, "got None, want a tuple", "wrong_type"),
        ((10**400, 10**400, "registers"), "n_blocks and share: got (1000", "wrong_value"),
        ([[1]] * 1000, " ..., want a tuple", "wrong_type"),
    ],
    ids=["per-cent", "rounded", "limit", "bool", "nan", "two", "nothing", "digits", "long"],
)
def test_a_wrong_answer_is_explained(returned: Any, said: str, verdict: str) -> None:
    """The message holds the call, both values and each limit; a usual slip is named."""
    mistake = judged("occupancy-registers", returned)

    assert mistake is not None
    assert mistake.verdict == verdict
    assert said in "\n".join([mistake.what, *mistake.details])
    assert len(mistake.what) < 500
    assert "occupancy(n_threads=128, registers=160, shared_bytes=0)" in mistake.details


@pytest.mark.parametrize(
    "returned",
    [
        "(16, 11, 16, np.int64(READ), torch.tensor(700_000))",
        "[16, 11, 16, np.int64(READ), torch.tensor(700_000)]",
        "namedtuple('Traffic', 'm n k read written')(16, 11, 16, float(READ), np.float64(7e5))",
    ],
    ids=["tuple", "list", "named-tuple"],
)
@pytest.mark.parametrize("extra", [0, 1])
def test_numbers_of_other_libraries_are_numbers(returned: str, extra: int, tmp_path: Path) -> None:
    """Whatever they come in; one too many is as wrong as an int would be.

    A is 1000 x 512 and loaded by 11 columns of programs, B is 512 x 700 and by 16 rows.
    """
    read = 11 * 1000 * 512 + 16 * 512 * 700 + extra
    file = tmp_path / "performance_model.py"
    file.write_text(
        "from collections import namedtuple\nimport numpy as np\nimport torch\n"
        f"def tile_traffic(*given):\n    return {returned.replace('READ', str(read))}\n"
    )

    mistake = run(file, "tile_traffic-grid")

    assert (mistake is None) == (extra == 0)


@pytest.mark.parametrize(
    ("returned", "is_right"),
    [
        ("Fraction(12, 64), Limit.REGISTERS", True),
        ("Share(12 / 64), Limit.REGISTERS", True),
        ("Fraction(13, 64), Limit.REGISTERS", False),
        ("Share(13 / 64), Limit.REGISTERS", False),
        ("Fraction(12, 64), Limit.WARPS", False),
        ("Fraction(10**400), Limit.REGISTERS", False),
    ],
)
@pytest.mark.parametrize("enum", ["str, Enum", "StrEnum"])
def test_numbers_and_texts_of_other_classes_count(
    returned: str, is_right: bool, enum: str, tmp_path: Path
) -> None:
    """A share may be a Fraction and a limit a member of an Enum; wrong ones are as wrong.

    160 registers a thread leave an SM 3 blocks of 4 warps, 12 of 64.
    """
    file = tmp_path / "performance_model.py"
    file.write_text(
        "from enum import Enum, IntEnum, StrEnum\nfrom fractions import Fraction\n"
        "class Share(float): pass\nclass Blocks(IntEnum): THREE = 3\n"
        f"class Limit({enum}):\n    REGISTERS = 'registers'\n    WARPS = 'warps'\n"
        f"def occupancy(*given):\n    return Blocks.THREE, {returned}\n"
    )

    assert (run(file, "occupancy-registers") is None) == is_right


def test_a_log_without_the_answers_is_a_protocol_error() -> None:
    """Only a forger's process sends too few answers, or none."""
    for returned in ([], [1, 2, 3]):
        mistake = judged("sectors-offset", *returned)

        assert mistake is not None
        assert mistake.verdict == "protocol_error"
