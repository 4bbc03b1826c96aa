"""Compiles what load_inline is given for the host, or only asks nvcc whether it compiles.

Runs in the student's process. What a compiler says is told in ``refusals``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.cuda_host import native, source
from grader.cuda_host.refusals import Refusal, exhausted, refusal

HERE = Path(__file__).resolve().parent
HOST_COMPILERS = ("g++", "clang++")
CPU_LIMIT_S = 60  # of one compiler; the reference takes 1, with nvcc 3
# a machine that is busy with other things is no fault of the sources
WALL_LIMIT_S = 120.0
NVCC_ARCH = "sm_90"
BUSY = Refusal("unsupported", (f"machine that compiles it within {WALL_LIMIT_S:g} s",))

_HOST_FLAGS = ("-std=c++17", "-w", "-fPIE", "-fdiagnostics-color=never")
# each access calls __tsan_read4 or its like; runtime.cpp holds these functions
_CHECKED = ("-O0", "-g", "-fsanitize=thread")
# clang skips a read before a write to the same place; before version 15 it checks no copy of a struct
_CHECKED_BY_CLANG = (*_CHECKED, "-mllvm", "-tsan-instrument-read-before-write")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/[\w./]+")
_CUDA_HEADERS = (
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"),
    *("driver_types.h", "math_constants.h", "vector_types.h"),
)
_CPU_LIMIT_REACHED = "CPU time limit exceeded"

# the compiled runtime.cpp, by compiler and folder: the same for every source
_runtimes: dict[tuple[str, Path], Path] = {}


@dataclass(frozen=True)
class Sources:
    """What load_inline is given."""

    cpp: str
    cuda: str
    functions: tuple[str, ...]

    @property
    def main(self) -> str:
        """main.cpp with the module's definition, as load_inline writes it."""
        if not self.functions:  # it is defined in the sources
            return self.cpp
        bound = "".join(f'm.def("{name}", {name}, "{name}");\n' for name in self.functions)
        return f"{self.cpp}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{bound}}}\n"


def host_compiler() -> str | None:
    """The first C++ compiler found."""
    return next((path for name in HOST_COMPILERS if (path := shutil.which(name))), None)


def for_host(sources: Sources, names: Mapping[str, str], scratch: Path) -> Path | Refusal:
    """Compile for the host; the program that runs one call.

    Args:
        sources: As load_inline is given them.
        names: What to call "main.cpp" and "cuda.cu" in messages.
        scratch: Where a folder is made for what is compiled.
    """
    compiler = host_compiler()
    if compiler is None:
        return Refusal("unsupported", ("C++ compiler",))
    folder = Path(tempfile.mkdtemp(prefix="host-", dir=scratch))
    _forward(folder, sources, cuda=True)
    include = ("-I", str(HERE), "-I", str(folder))
    head = '#include "torch.h"\n#line 1 '
    (folder / "main.cpp").write_text(f'{head}"main.cpp"\n{sources.main}')
    (folder / "cuda.cpp").write_text(f'{head}"cuda.cu"\n{source.for_host(sources.cuda)}')
    start = (compiler, *_HOST_FLAGS, *include)
    checked = _CHECKED_BY_CLANG if "clang" in Path(compiler).name else _CHECKED
    runtime = _runtimes.get((compiler, scratch), folder / "runtime.o")
    steps = {
        "runtime": (*start, "-O1", "-c", str(HERE / "runtime.cpp"), "-o", str(runtime)),
        "main.cpp": (*start, "-O0", "-c", "main.cpp", "-o", "main.o"),
        "cuda.cu": (*start, *checked, "-c", "cuda.cpp", "-o", "cuda.o"),
    }
    if runtime.exists():
        del steps["runtime"]
    said = _run(steps, folder)
    if said is None:
        return BUSY
    if why := said.get("runtime"):
        return exhausted(why) or Refusal("unsupported", ("C++ compiler that works", why[:1000]))
    _runtimes[compiler, scratch] = runtime
    texts = {"main.cpp": sources.main, "cuda.cu": sources.cuda}
    if errors := said["cuda.cu"] + said["main.cpp"]:
        return _refused(errors, texts, names)
    # the runtime first: of functions in several files the linker takes that of the first
    link = (compiler, "-pie", str(runtime), "main.o", "cuda.o", "-o", "program")
    said = _run({"link": link}, folder)
    if said is None:
        return BUSY
    return _refused(said["link"], texts, names) if said["link"] else folder / "program"


def nvcc_refusal(sources: Sources, names: Mapping[str, str], scratch: Path) -> Refusal | None:
    """What nvcc says of the CUDA source, compiled against our header for the course's kind of GPU."""
    folder = Path(tempfile.mkdtemp(prefix="nvcc-", dir=scratch))
    _forward(folder, sources, cuda=False)
    text = f'#include "torch.h"\n#line 1 "cuda.cu"\n{sources.cuda}'
    (folder / "checked.cu").write_text(text)
    flags = ("-std=c++17", f"-arch={NVCC_ARCH}", "-I", str(HERE), "-I", str(folder), "-w")
    said = _run({"nvcc": ("nvcc", *flags, "-c", "checked.cu", "-o", "checked.o")}, folder)
    if said is None:
        return BUSY
    return _refused(said["nvcc"], {"cuda.cu": sources.cuda}, names) if said["nvcc"] else None


def _forward(folder: Path, sources: Sources, *, cuda: bool) -> None:
    """Stand in for the headers that the sources include."""
    wanted = {name for text in (sources.cpp, sources.cuda) for name in _INCLUDE.findall(text)}
    forwarded = {name: "torch.h" for name in wanted if _TORCH_HEADER.fullmatch(name)}
    if cuda:
        forwarded |= dict.fromkeys(_CUDA_HEADERS, "device.h")
    for name, header in forwarded.items():
        if ".." not in Path(name).parts:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f'#include "{HERE / header}"\n')


def _run(commands: Mapping[str, Sequence[str]], folder: Path) -> dict[str, str] | None:
    """What each command that fails says, "" for the others; None if this machine is too slow."""
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    limited = ("/bin/sh", "-c", f'ulimit -t {CPU_LIMIT_S}; exec "$@"', "sh")
    running = {
        name: subprocess.Popen(
            (*limited, *command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        for name, command in commands.items()
    }
    said = {}
    try:
        for name, process in running.items():
            text, _ = process.communicate(timeout=WALL_LIMIT_S)
            said[name] = "" if process.returncode == 0 else text or "the compiler gave up silently"
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in running.values():
            native.end_group(process)
            if process.stdout is not None:
                process.stdout.close()
    return said


def _refused(said: str, texts: Mapping[str, str], names: Mapping[str, str]) -> Refusal:
    if _CPU_LIMIT_REACHED in said:
        return Refusal("timeout", (f"compiling took over {CPU_LIMIT_S} s",))
    return refusal(said, texts, names)
