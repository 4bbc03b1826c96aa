"""What holds a worker back, applied to itself before it sees student code, and probed from outside.

Covered: a process group of its own, no new privileges, resource limits, death with its parent,
a scrubbed environment. Not covered: files of the same user stay readable and the network stays
reachable; for that the isolation level is "practice" and the scorecard says what is missing.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from grader.scorecard import Isolation

FILE_LIMIT_BYTES = 8 * 1024**3  # the exchange file counts too
MEMORY_LIMIT_BYTES = 12 * 1024**3  # over what the worker maps at its start; not on CUDA
OPEN_FILES_LIMIT = 1024
CPU_LIMIT_S = 3600  # should the verifier die and the worker survive it

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
# what native libraries need to be found and to behave; everything else of the environment goes
_ENVIRONMENT = frozenset({"PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"})
_ENVIRONMENT_PREFIXES = ("OPENBLAS_", "MKL_", "CUDA_VISIBLE", "NVIDIA_", "CUDA_DEVICE_ORDER")


def scrubbed_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment of a worker: libraries and devices, with every cache in ``scratch``."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    here = str(scratch)
    return kept | {
        "HOME": here,
        "TMPDIR": here,
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TORCH_EXTENSIONS_DIR": str(scratch / "extensions"),
        # one thread: a fork of a threaded process is not safe, and cores belong to the pool
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }


def adopt_orphans() -> None:
    """Become the parent of whatever descendants outlive their own, and die with the verifier."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def confine(*, limit_memory: bool) -> None:
    """Give up what a worker does not need. Call once, single-threaded, before student code.

    Args:
        limit_memory: Cap the address space. CUDA reserves far more than it uses, so not there.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, FILE_LIMIT_BYTES)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES_LIMIT)
    _limit(resource.RLIMIT_CPU, CPU_LIMIT_S)
    # a write beyond the file limit is an error of that write, not the end of the process
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if limit_memory and sys.platform == "linux":
        _limit(resource.RLIMIT_AS, _mapped_bytes() + MEMORY_LIMIT_BYTES)


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def probe(pid: int) -> Isolation:
    """What is really in force for a running worker, read from the kernel's account of it."""
    in_force = ["own process", "own process group", "scrubbed environment"]
    missing: list[str] = []
    status = _read(f"/proc/{pid}/status")
    (in_force if "NoNewPrivs:\t1" in status else missing).append("no new privileges")
    limits = _read(f"/proc/{pid}/limits")
    limited = any(
        line.startswith("Max core file size") and line.split()[4] == "0"
        for line in limits.splitlines()
    )
    (in_force if limited else missing).append("resource limits")
    missing += ["Landlock", "seccomp", "no network"]
    return Isolation(level="practice", in_force=tuple(in_force), missing=tuple(missing))


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # no /proc here, or the process is gone: then nothing is shown to be in force
        return ""
