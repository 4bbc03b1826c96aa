"""Compiles what load_inline is given for the host, or only asks nvcc whether it compiles.

Runs in the student's process. Tells what a compiler refuses, and apart from it what our small header
lacks: that is no mistake of the student's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from grader.cuda_host import source

HERE = Path(__file__).resolve().parent
HOST_COMPILERS = ("g++", "clang++")
COMPILE_LIMIT_S = 60.0
NVCC_ARCH = "sm_90"
MAX_LINES = 12

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
_ERROR = re.compile(
    r"^(?P<file>[^\s:(]+)[:(](?P<line>\d+)\)?:(?:\d+:)? (?:fatal )?error:? ?(?P<what>.*)"
)
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<name>[^']+)'")

# names that a compiler reports missing; their groups, in g++'s words and clang's
_MISSING = re.compile(
    r"'(?:class |struct )?(?:at::)?(?P<owner>\w+)' has no member named '(?P<member>\w+)'"
    r"|no member named '(?P<clang_member>\w+)' in '(?:namespace )?(?:\w+::)*(?P<clang_owner>\w+)'"
    r"|'(?P<in_space>\w+)' is not a member of '(?P<space>[\w:]+)'"
    r"|'(?P<in_space2>\w+)' in namespace '(?P<space2>[\w:]+)' does not name"
    r"|'(?P<name>[\w:]+)' (?:was not declared|has not been declared|does not name a type)"
    r"|(?:undeclared identifier|unknown type name) '(?P<clang_name>\w+)'"
    r'|"(?:class )?(?:\w+::)*(?P<nvcc_owner>\w+)" has no member "(?P<nvcc_member>\w+)"'
    r'|identifier "(?P<nvcc_name>[\w:]+)" is undefined'
)
_NO_HEADER = re.compile(
    r"(?P<gcc>[\w./]+): No such file|'(?P<clang>[\w./]+)' file not found|cannot open source file"
    r" \"(?P<nvcc>[\w./]+)\""
)
_KNOWN_ELSEWHERE = re.compile(
    r"cuda[A-Z]\w*|cu[A-Z]\w*|__\w+|(AT|C10|TORCH)_\w+|k[A-Z]\w*|atomic[A-Z]\w*|tex\w*|surf\w*"
    r"|at|c10|torch|cub|thrust|cooperative_groups|cg|nvcuda|wmma|cuda|cute|cutlass|pybind11|py"
    r"|half2?|(__)?nv_\w+|u?(char|short|int|long|longlong)[1-4]|make_\w+"
    r"|(packed_|generic_packed_)?accessor(32|64)?|(Packed|Generic)?\w*Accessor\w*|RestrictPtrTraits"
    r"|optional|Half|BFloat16|NoGradGuard|indexing|from_blob|autograd|nn|ArrayRef|TensorBase"
)
_LACKING = "not known here: "

# the compiled runtime.cpp, by compiler: the same for every source
_runtimes: dict[str, Path] = {}


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


@dataclass(frozen=True)
class Refusal:
    """Why there is no program. "unsupported": the sources may be right, but not for our header."""

    kind: Literal["compile_error", "unsupported", "timeout"]
    lines: tuple[str, ...]


def host_compiler() -> str | None:
    """The first C++ compiler found."""
    return next((path for name in HOST_COMPILERS if (path := shutil.which(name))), None)


def for_host(sources: Sources, names: Mapping[str, str]) -> Path | Refusal:
    """Compile for the host; the program that runs one call.

    Args:
        sources: As load_inline is given them.
        names: What to call "main.cpp" and "cuda.cu" in messages.
    """
    compiler = host_compiler()
    if compiler is None:
        return Refusal("unsupported", ("C++ compiler",))
    folder = Path(tempfile.mkdtemp(prefix="cuda-host-"))
    _forward(folder, sources, cuda=True)
    include = ("-I", str(HERE), "-I", str(folder))
    head = '#include "torch.h"\n#line 1 '
    (folder / "main.cpp").write_text(f'{head}"main.cpp"\n{sources.main}')
    (folder / "cuda.cpp").write_text(f'{head}"cuda.cu"\n{source.for_host(sources.cuda)}')
    start = (compiler, *_HOST_FLAGS, *include)
    checked = _CHECKED_BY_CLANG if "clang" in Path(compiler).name else _CHECKED
    runtime = _runtimes.get(compiler, folder / "runtime.o")
    steps = {
        "runtime": (*start, "-O1", "-c", str(HERE / "runtime.cpp"), "-o", str(runtime)),
        "main.cpp": (*start, "-O0", "-c", "main.cpp", "-o", "main.o"),
        "cuda.cu": (*start, *checked, "-c", "cuda.cpp", "-o", "cuda.o"),
    }
    if runtime.exists():
        del steps["runtime"]
    said = _run(steps, folder)
    if said is None:
        return _took_too_long()
    if why := said.get("runtime"):
        return Refusal("unsupported", ("C++ compiler that works", why[:1000]))
    _runtimes[compiler] = runtime
    texts = {"main.cpp": sources.main, "cuda.cu": sources.cuda}
    if errors := said["cuda.cu"] + said["main.cpp"]:
        return refusal(errors, texts, names)
    # the runtime first: of functions in several files the linker takes that of the first
    link = (compiler, "-pie", str(runtime), "main.o", "cuda.o", "-o", "program")
    said = _run({"link": link}, folder)
    if said is None:
        return _took_too_long()
    return refusal(said["link"], texts, names) if said["link"] else folder / "program"


def nvcc_refusal(sources: Sources, names: Mapping[str, str]) -> Refusal | None:
    """What nvcc says of the CUDA source, compiled against our header for the course's kind of GPU."""
    folder = Path(tempfile.mkdtemp(prefix="cuda-nvcc-"))
    _forward(folder, sources, cuda=False)
    text = f'#include "torch.h"\n#line 1 "cuda.cu"\n{sources.cuda}'
    (folder / "checked.cu").write_text(text)
    flags = ("-std=c++17", f"-arch={NVCC_ARCH}", "-I", str(HERE), "-I", str(folder), "-w")
    said = _run({"nvcc": ("nvcc", *flags, "-c", "checked.cu", "-o", "checked.o")}, folder)
    if said is None:
        return _took_too_long()
    return refusal(said["nvcc"], {"cuda.cu": sources.cuda}, names) if said["nvcc"] else None


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
    """What each command that fails says, "" for the others; None if one takes too long."""
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    running = {
        name: subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        for name, command in commands.items()
    }
    said = {}
    try:
        for name, process in running.items():
            text, _ = process.communicate(timeout=COMPILE_LIMIT_S)
            said[name] = "" if process.returncode == 0 else text or "the compiler gave up silently"
    except subprocess.TimeoutExpired:
        return None
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return said


def _took_too_long() -> Refusal:
    return Refusal("timeout", (f"compiling took over {COMPILE_LIMIT_S:g} s",))


def refusal(
    said: str, texts: Mapping[str, str], names: Mapping[str, str], *, ours: bool = True
) -> Refusal:
    """A compiler's errors with the source lines they are about; told apart from what we lack.

    Args:
        said: Its output.
        texts: The text of "main.cpp" and "cuda.cu".
        names: What to call them.
        ours: Whether it compiled against our header, which lacks much, or PyTorch's own.
    """
    lines: list[str] = []
    for line in said.splitlines():
        if found := _ERROR.match(line):
            file = found["file"].rpartition("/")[2]
            lines.append(f"{names.get(file, file)}:{found['line']}: {found['what']}")
            source_lines = texts.get(file, "").splitlines()
            number = int(found["line"])
            if 0 < number <= len(source_lines):
                lines.append(f"  {source_lines[number - 1].strip()}"[:200])
        elif found := _UNDEFINED.search(line):
            lines.append(f"declared and bound, but defined nowhere: {found['name']}")
    if ours and (lacking := list(_lacking(said))):
        return Refusal("unsupported", tuple(lacking[:MAX_LINES]))
    if not lines:
        # no word of the sources: the compiler itself is at its end
        return Refusal("unsupported", ("compiler that works", said[:1000]))
    return Refusal("compile_error", tuple(lines[:MAX_LINES]))


def _lacking(said: str) -> Iterator[str]:
    """What CUDA or PyTorch have and our header does not, in the errors of a compiler."""
    for found in _MISSING.finditer(said):
        groups = found.groupdict()
        member = groups["member"] or groups["clang_member"] or groups["nvcc_member"]
        owner = groups["owner"] or groups["clang_owner"] or groups["nvcc_owner"]
        in_space = groups["in_space"] or groups["in_space2"]
        name = groups["name"] or groups["clang_name"] or groups["nvcc_name"]
        if member and (_KNOWN_ELSEWHERE.fullmatch(member) or _has(owner, member)):
            yield f"{owner}.{member}"
        elif in_space:
            space = groups["space"] or groups["space2"]
            # PyTorch's headers include much of the standard library
            if space == "std" or _KNOWN_ELSEWHERE.fullmatch(in_space) or hasattr(torch, in_space):
                yield f"{space}::{in_space}"
        elif name and _KNOWN_ELSEWHERE.fullmatch(name.partition("::")[0]):
            yield name
    for found in _NO_HEADER.finditer(said):
        header = found["gcc"] or found["clang"] or found["nvcc"]
        if re.match(
            r"(torch|ATen|c10|cub|thrust|cuda|cooperative|mma|pybind11|cute|curand)", header
        ):
            yield f"#include <{header}>"
    for line in said.splitlines():
        if _LACKING in line:
            yield line.partition(_LACKING)[2]


def _has(owner: str | None, member: str) -> bool:
    """Whether PyTorch's own class has such a member."""
    if owner in {"torch", "at", "c10"}:
        return hasattr(torch, member)
    return owner in {"Tensor", "TensorOptions"} and hasattr(torch.Tensor, member)
