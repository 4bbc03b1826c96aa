"""What this machine can grade: versions, GPU, confinement, room. Changes nothing, starts no worker.

Every line is ok, a warning, or a problem that makes grading impossible, and says what to do.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grader.scorecard import Environment

ROOT = Path(__file__).resolve().parent.parent
MIN_PYTHON = (3, 11)
# a card, an HTML report and the exchange files of one grading stay well below a tenth of it
MIN_DISK_BYTES = 1 << 30
# two workers with torch loaded and the simulator's arrays
MIN_MEMORY_BYTES = 3 << 30
NVIDIA_SMI_TIMEOUT_S = 20

_SYS_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_ASK_VERSION = 1

Level = Literal["ok", "warn", "problem"]


@dataclass(frozen=True)
class Finding:
    """One line of the report; ``advice`` is empty when there is nothing to do."""

    name: str
    level: Level
    what: str
    advice: str = ""


@dataclass(frozen=True)
class Gpu:
    """The first GPU; what the driver does not tell is None. ``compute_mode`` as nvidia-smi says."""

    name: str
    memory_bytes: int
    driver: str | None
    compute_mode: str | None


def report() -> list[Finding]:
    """Look at the machine."""
    gpu = find_gpu()
    triton = version("triton")
    return [
        python_finding(sys.version_info[:2]),
        *(
            package_finding(name, version(name), floor)
            for name, floor in floors(ROOT / "pyproject.toml").items()
        ),
        triton_finding(triton),
        gpu_finding(gpu, _ask_driver()[0]),
        backend_finding(gpu, triton),
        *cuda_findings(shutil.which),
        *confinement_findings(landlock_abi(), has_user_namespaces(), shutil.which("bwrap")),
        *room_findings(shutil.disk_usage(ROOT).free, _available_bytes(), _n_cores()),
    ]


def exit_code(findings: Sequence[Finding]) -> int:
    """0, or 1 when something makes grading impossible."""
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def print_report(findings: Sequence[Finding], console: Console) -> None:
    """One line each, with what to do below it."""
    styles: dict[Level, str] = {"ok": "green", "warn": "yellow", "problem": "bold red"}
    grid = Table.grid(padding=(0, 2))
    for finding in findings:
        level = Text(finding.level, style=styles[finding.level])
        grid.add_row(level, finding.name, Text(finding.what))
        if finding.advice:
            grid.add_row("", "", Text(f"-> {finding.advice}"))
    console.print(grid)


def environment(device: Literal["cpu", "cuda"]) -> Environment:
    """The card's account of this machine, without host, user or path."""
    gpu = find_gpu() if device == "cuda" else None
    return Environment(
        python=platform.python_version(),
        torch=torch.__version__,
        triton=version("triton"),
        numpy=importlib.metadata.version("numpy"),
        platform=f"{platform.system()} {platform.machine()}",
        device=device,
        gpu=gpu.name if gpu else None,
        gpu_driver=gpu.driver if gpu else None,
        cuda=torch.version.cuda if gpu else None,
        backend="triton" if device == "cuda" else "simulator",
    )


def version(package: str) -> str | None:
    """Installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def floors(pyproject: Path) -> dict[str, str]:
    """Lowest version of each run-time dependency, from pyproject.toml."""
    dependencies = tomllib.loads(pyproject.read_text())["project"]["dependencies"]
    return dict(dependency.split(">=") for dependency in dependencies)


def python_finding(running: Sequence[int]) -> Finding:
    """Is Python new enough?"""
    text = ".".join(map(str, running))
    if tuple(running) >= MIN_PYTHON:
        return Finding("Python", "ok", text)
    need = ".".join(map(str, MIN_PYTHON))
    return Finding("Python", "problem", text, f"install {need} or newer; make PYTHON3=python{need}")


def package_finding(name: str, installed: str | None, floor: str) -> Finding:
    """Is a package there, and new enough?"""
    if installed is None:
        return Finding(name, "problem", "not installed", f"pip install '{name}>={floor}'")
    if _numbers(installed) < _numbers(floor):
        what = f"{installed}, older than {floor}"
        return Finding(name, "warn", what, f"not tested; pip install '{name}>={floor}'")
    return Finding(name, "ok", installed)


def triton_finding(installed: str | None) -> Finding:
    """Is Triton there, to run kernels on a GPU and to compile them where there is none?"""
    if installed is None:
        what = "not installed: the simulator runs the kernels, nothing compiles them"
        if sys.platform != "linux":
            return Finding("triton", "ok", f"{what}; it exists for Linux only")
        advice = "to see what its compiler refuses, registers and spills: pip install triton"
        return Finding("triton", "ok", what, advice)
    return Finding("triton", "ok", f"{installed}, compiles what the simulator runs")


def gpu_finding(gpu: Gpu | None, driver: str | None = None) -> Finding:
    """Which GPU, and can three processes share it?

    Args:
        gpu: The one torch would use.
        driver: What the driver says of itself, also where torch cannot use it.
    """
    if gpu is None and driver is not None:
        what = f"driver {driver} is here, but torch cannot use it"
        advice = "name a Python whose torch was built for CUDA: make PYTHON=python3 ..."
        return Finding("GPU", "warn", what, advice)
    if gpu is None:
        return Finding("GPU", "ok", "none", "grading works without; nothing is timed")
    what = f"{gpu.name}, {gpu.memory_bytes / 2**30:.0f} GiB, driver {gpu.driver or 'unknown'}"
    mode = (gpu.compute_mode or "unknown").lower().replace("_", " ")
    if mode == "exclusive process":
        advice = "verifier, student and baseline each hold a context: nvidia-smi -c DEFAULT"
        return Finding("GPU", "problem", f"{what}, compute mode exclusive", advice)
    return Finding("GPU", "ok", f"{what}, compute mode {mode}")


def backend_finding(gpu: Gpu | None, triton: str | None) -> Finding:
    """What will run the kernels, and why."""
    if gpu is None:
        return Finding("kernels run in", "ok", "the simulator, as torch has no GPU")
    if triton is None:
        what = "the simulator, as Triton is not installed"
        return Finding("kernels run in", "warn", what, "pip install triton, to use the GPU")
    return Finding("kernels run in", "ok", f"Triton on the {gpu.name}")


def cuda_findings(which: Callable[[str], str | None]) -> list[Finding]:
    """What compiles the .cu files of the cuda_ problems: for the processor, and for a GPU."""
    host = next((name for name in ("g++", "clang++") if which(name)), None)
    without = "not installed: .cu files cannot be"
    found = [
        Finding("C++ compiler", "ok", f"{host}, checks .cu files on the processor")
        if host
        else Finding("C++ compiler", "warn", f"{without} checked", "install g++")
    ]
    beside = Path(sys.executable).with_name("ninja").exists()
    for name, is_there in (("nvcc", which("nvcc")), ("ninja", which("ninja") or beside)):
        what = "installed" if is_there else f"{without} compiled for a GPU"
        advice = "" if is_there else "grading works without; on a GPU machine install it"
        found.append(Finding(name, "ok", what, advice))
    return found


def confinement_findings(
    landlock: int | None, has_namespaces: bool, bubblewrap: str | None
) -> list[Finding]:
    """What could confine student code here. Says nothing of what a grading uses: its card does."""
    own = "grade only code that you trust with your files"
    return [
        Finding("no_new_privs", "ok", "available")
        if sys.platform == "linux"
        else Finding("no_new_privs", "warn", "not on this system", own),
        Finding("Landlock", "ok", f"available, ABI {landlock}")
        if landlock
        else Finding("Landlock", "warn", "not in this kernel", own),
        Finding("user namespaces", "ok", "allowed")
        if has_namespaces
        else Finding("user namespaces", "warn", "not allowed here", own),
        Finding("bubblewrap", "ok", "installed" if bubblewrap else "not installed"),
    ]


def room_findings(disk_bytes: int, memory_bytes: int | None, n_cores: int) -> list[Finding]:
    """Disk for out/, memory, cores, and the memory files that carry tensors."""
    findings = [Finding("cores", "ok", str(n_cores))]
    disk = f"{disk_bytes / 2**30:.1f} GiB free"
    if disk_bytes < MIN_DISK_BYTES:
        findings.append(Finding("disk", "warn", disk, "free 1 GiB for out/, or name another --out"))
    else:
        findings.append(Finding("disk", "ok", disk))
    if memory_bytes is not None:
        memory = f"{memory_bytes / 2**30:.1f} GiB available"
        low = memory_bytes < MIN_MEMORY_BYTES
        advice = "close other programs; 3 GiB are needed" if low else ""
        findings.append(Finding("memory", "warn" if low else "ok", memory, advice))
    if hasattr(os, "memfd_create"):
        findings.append(Finding("memfd", "ok", "available"))
    else:
        findings.append(Finding("memfd", "ok", "not on this system; temporary files carry tensors"))
    return findings


@functools.cache  # a card is written after each problem, and nvidia-smi takes up to seconds
def find_gpu() -> Gpu | None:
    """The GPU that torch would use, or None."""
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    uuid = getattr(properties, "uuid", None)
    driver, mode = _ask_driver(*([f"--id=GPU-{uuid}"] if uuid else []))
    return Gpu(properties.name, properties.total_memory, driver, mode)


def _ask_driver(*which: str) -> tuple[str | None, str | None]:
    columns = "--query-gpu=driver_version,compute_mode"
    query = ["nvidia-smi", *which, columns, "--format=csv,noheader"]
    try:
        done = subprocess.run(
            query, capture_output=True, text=True, timeout=NVIDIA_SMI_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None, None
    return parse_nvidia_smi(done.stdout)


def parse_nvidia_smi(text: str) -> tuple[str | None, str | None]:
    """Driver version and compute mode of the first GPU, from ``580.1, Default``."""
    driver, _, mode = text.partition("\n")[0].partition(",")
    return driver.strip() or None, mode.strip() or None


def landlock_abi() -> int | None:
    """Version of Landlock's interface, asked of the kernel; None without it."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    size = ctypes.c_size_t(0)
    abi = int(libc.syscall(_SYS_LANDLOCK_CREATE_RULESET, None, size, _LANDLOCK_ASK_VERSION))
    return abi if abi > 0 else None


def has_user_namespaces(proc: Path = Path("/proc/sys")) -> bool:
    """Whether the kernel's settings let a user without privileges make a user namespace."""

    def setting(name: str, default: int) -> int:
        try:
            return int((proc / name).read_text())
        except (OSError, ValueError):
            return default

    return (
        setting("user/max_user_namespaces", 0) > 0
        and setting("kernel/unprivileged_userns_clone", 1) == 1
        and setting("kernel/apparmor_restrict_unprivileged_userns", 0) == 0
    )


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text.partition("+")[0])]


def _available_bytes() -> int | None:
    try:
        meminfo = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo)
    return int(found[1]) * 1024 if found else None


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
