"""What the doctor makes of a machine."""

from __future__ import annotations

import io
import platform
from pathlib import Path

import pytest
from rich.console import Console

from grader import doctor
from grader.doctor import Finding, Gpu

H200 = Gpu("NVIDIA H200", 139 << 30, "580.95", "Default")


@pytest.mark.parametrize(
    ("running", "level"),
    [
        pytest.param((3, 10), "problem", id="too-old"),
        pytest.param((3, 11), "ok", id="oldest-supported"),
        pytest.param((3, 14), "ok", id="newer"),
    ],
)
def test_python_must_be_new_enough(running: tuple[int, int], level: str) -> None:
    """3.11 is the oldest; an older one is told what to install."""
    finding = doctor.python_finding(running)

    assert finding.level == level
    assert bool(finding.advice) == (level != "ok")


@pytest.mark.parametrize(
    ("installed", "level"),
    [
        pytest.param(None, "problem", id="missing"),
        pytest.param("2.9.1", "warn", id="older-by-number-not-by-text"),
        pytest.param("2.11.0", "ok", id="at-the-floor"),
        pytest.param("2.13.0+cpu", "ok", id="local-part"),
        pytest.param("3.0", "ok", id="newer"),
    ],
)
def test_packages_are_compared_with_their_floor(installed: str | None, level: str) -> None:
    """Versions compare as numbers; what is wrong comes with the command."""
    finding = doctor.package_finding("torch", installed, "2.11")

    assert finding.level == level
    assert finding.advice.endswith("" if level == "ok" else "pip install 'torch>=2.11'")


def test_floors_are_those_of_pyproject() -> None:
    """Every run-time dependency is looked at."""
    floors = doctor.floors(doctor.ROOT / "pyproject.toml")

    assert floors["torch"] == "2.11"
    assert {"numpy", "pydantic", "rich", "typer", "ml_dtypes"} <= floors.keys()


def test_no_gpu_is_fine() -> None:
    """Grading works on any computer."""
    assert doctor.gpu_finding(None).level == "ok"
    assert "simulator" in doctor.backend_finding(None, "3.7.1").what


def test_a_gpu_that_torch_cannot_use_is_a_warning() -> None:
    """A driver without a CUDA build of torch is most likely a mistake."""
    finding = doctor.gpu_finding(None, "580.95")

    assert finding.level == "warn"
    assert "make PYTHON=python3" in finding.advice


def test_a_gpu_is_named_with_its_driver_and_mode() -> None:
    """What a report of a fault needs."""
    finding = doctor.gpu_finding(H200)

    assert (finding.level, finding.what) == (
        "ok",
        "NVIDIA H200, 139 GiB, driver 580.95, compute mode default",
    )
    assert doctor.backend_finding(H200, "3.6.0").what == "Triton on the NVIDIA H200"


@pytest.mark.parametrize("mode", ["Exclusive_Process", "EXCLUSIVE_PROCESS"])
def test_an_exclusive_gpu_makes_grading_impossible(mode: str) -> None:
    """Three processes cannot share it; the command that changes it is given."""
    finding = doctor.gpu_finding(Gpu("NVIDIA H200", 1 << 30, None, mode))

    assert finding.level == "problem"
    assert "nvidia-smi -c DEFAULT" in finding.advice
    assert doctor.exit_code([finding]) == 1


def test_without_triton_the_compiler_is_off_and_it_says_how_to_get_it() -> None:
    """No problem and no warning: the simulator needs none of it."""
    absent, present = doctor.triton_finding(None), doctor.triton_finding("3.7.1")

    assert absent.level == present.level == "ok"
    assert "nothing compiles them" in absent.what
    assert "pip install triton" in absent.advice
    assert "3.7.1, compiles" in present.what
    assert not present.advice


def test_a_gpu_without_triton_is_a_warning() -> None:
    """The simulator still runs everything but timing."""
    assert doctor.backend_finding(H200, None).level == "warn"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("580.95, Default\n580.95, Default\n", ("580.95", "Default"), id="two-gpus"),
        pytest.param("580.95, Exclusive_Process\n", ("580.95", "Exclusive_Process"), id="one"),
        pytest.param("", (None, None), id="nothing"),
    ],
)
def test_nvidia_smi_is_parsed(text: str, want: tuple[str | None, str | None]) -> None:
    """Driver and mode of the first GPU."""
    assert doctor.parse_nvidia_smi(text) == want


def test_missing_confinement_is_a_warning_not_a_problem() -> None:
    """Practice grading works without; one grades one's own code."""
    with_all = doctor.confinement_findings(7, True, "/usr/bin/bwrap")
    without = doctor.confinement_findings(None, False, None)

    assert [f.level for f in with_all if f.name == "Landlock"] == ["ok"]
    assert [f.level for f in without if f.name in {"Landlock", "user namespaces"}] == ["warn"] * 2
    assert doctor.exit_code(without) == 0


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param({}, False, id="no-such-setting"),
        pytest.param({"user/max_user_namespaces": "0"}, False, id="none-allowed"),
        pytest.param({"user/max_user_namespaces": "100"}, True, id="allowed"),
        pytest.param(
            {"user/max_user_namespaces": "100", "kernel/unprivileged_userns_clone": "0"},
            False,
            id="debian-switch",
        ),
        pytest.param(
            {
                "user/max_user_namespaces": "100",
                "kernel/apparmor_restrict_unprivileged_userns": "1",
            },
            False,
            id="ubuntu-switch",
        ),
    ],
)
def test_user_namespaces_are_read_from_the_kernels_settings(
    tmp_path: Path, files: dict[str, str], want: bool
) -> None:
    """Any one of three switches turns them off."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")

    assert doctor.has_user_namespaces(tmp_path) is want


def test_little_room_is_a_warning() -> None:
    """Too little disk or memory is said with what is needed."""
    plenty = doctor.room_findings(50 << 30, 16 << 30, 8)
    little = doctor.room_findings(1 << 20, 1 << 30, 8)

    assert {f.level for f in plenty} == {"ok"}
    assert [f.name for f in little if f.level == "warn"] == ["disk", "memory"]


def test_this_machine_is_reported() -> None:
    """The probes run anywhere, each finding has a name and words."""
    findings = doctor.report()

    assert {"Python", "torch", "triton", "GPU", "Landlock", "disk"} <= {f.name for f in findings}
    assert all(f.what for f in findings)


def test_a_report_prints_level_name_and_advice() -> None:
    """Advice stands below its line."""
    out = io.StringIO()
    findings = [Finding("a", "ok", "fine"), Finding("bcd", "problem", "broken", "mend it")]

    doctor.print_report(findings, Console(file=out, width=60))

    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines == [
        ["ok", "a", "fine"],
        ["problem", "bcd", "broken"],
        ["->", "mend", "it"],
    ]


def test_the_environment_names_no_host_user_or_path() -> None:
    """A scorecard can be handed on."""
    env = doctor.environment("cpu")

    assert (env.device, env.backend, env.gpu) == ("cpu", "simulator", None)
    text = env.model_dump_json()
    assert "/" not in text
    assert platform.node() not in text.split('"')


@pytest.mark.parametrize(
    ("has", "levels"),
    [
        ({"g++", "nvcc", "ninja"}, ["ok", "ok", "ok"]),
        ({"clang++"}, ["ok", "ok", "ok"]),
        (set(), ["warn", "ok", "ok"]),
    ],
)
def test_compilers_of_cuda_are_told(has: set[str], levels: list[str]) -> None:
    """Without a C++ compiler .cu files are not checked at all; nvcc is for GPU machines."""
    found = doctor.cuda_findings(lambda name: name if name in has else None)

    assert [finding.level for finding in found] == levels
    assert [finding.name for finding in found] == ["C++ compiler", "nvcc", "ninja"]
    assert ("not installed" in found[1].what) is ("nvcc" not in has)
    assert bool(found[0].advice) is (levels[0] == "warn")
