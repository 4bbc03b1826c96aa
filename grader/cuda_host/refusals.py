"""Tells what a compiler says of the student's sources apart from what our header lacks. Runs nothing."""

from __future__ import annotations

import errno
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from grader.cuda_host import source

MAX_LINES = 12
_ERROR = re.compile(
    r"^(?P<file>[^\s:(]+)[:(](?P<line>\d+)\)?:(?:\d+:)? (?:fatal )?error:? ?(?P<what>.*)"
)
_UNDEFINED = re.compile(r"undefined reference to [`'](?P<name>[^']+)'")

# names that a compiler reports missing; their groups, in g++'s words and clang's
_MISSING = re.compile(
    r"'(?:const )?(?:class |struct )?(?P<owner>[\w:]+)' has no member named '(?P<member>\w+)'"
    r"|no member named '(?P<clang_member>\w+)' in (?:namespace )?'(?:const )?(?P<clang_owner>[\w:]+)'"
    r"|'(?P<in_space>\w+)' is not a member of '(?P<space>[\w:]+)'"
    r"|'(?P<in_space2>\w+)' in namespace '(?P<space2>[\w:]+)' does not name"
    r"|'(?P<name>[\w:]+)' (?:was not declared|has not been declared|does not name a type)"
    r"|(?:undeclared identifier|unknown type name) '(?P<clang_name>\w+)'"
    r'|"(?:const )?(?:class )?(?P<nvcc_owner>[\w:]+)" has no member "(?P<nvcc_member>\w+)"'
    r'|identifier "(?P<nvcc_name>[\w:]+)" is undefined'
)
_NO_HEADER = re.compile(
    r"(?P<gcc>[\w./]+): No such file|'(?P<clang>[\w./]+)' file not found|cannot open source file"
    r" \"(?P<nvcc>[\w./]+)\""
)
# a function or class of PyTorch's that ours has in fewer forms
_OTHER_FORM = re.compile(
    r"no matching function for call to '(?P<call>(?:at|torch|c10)::[\w:~]+)"
    r"|too (?:many|few) arguments to function '(?:[\w:&* ]+ )?(?P<arity>(?:at|torch|c10)::[\w:]+)\("
    r"|to (?:non-scalar type )?'(?:const )?(?P<wanted>c10::\w+|IntArrayRef)\b"
    r'|to "(?P<nvcc_wanted>c10::\w+)'
    r'|no instance of [\w ]+ "(?P<nvcc_call>(?:at|torch|c10)::[\w:~]+)'
)
_CLASSES = ("Tensor", "TensorOptions")
_SPACES = ("torch", "at", "c10")
_HEADERS = ("ATen", "ATen/core", "c10/core", "c10/cuda", "c10/util", "torch/csrc/api/include/torch")
_KNOWN_ELSEWHERE = re.compile(
    r"cuda[A-Z]\w*|cu[A-Z]\w*|__\w+|(AT|C10|TORCH)_\w+|k[A-Z]\w*|atomic[A-Z]\w*|tex\w*|surf\w*"
    r"|at|c10|torch|cub|thrust|cooperative_groups|cg|nvcuda|wmma|cuda|cute|cutlass|pybind11|py"
    r"|half2?|(__)?nv_\w+|u?(char|short|int|long|longlong)[1-4]|make_\w+"
    r"|(packed_|generic_packed_)?accessor(32|64)?|(Packed|Generic)?\w*Accessor\w*|RestrictPtrTraits"
    r"|optional|Half|BFloat16|NoGradGuard|indexing|from_blob|autograd|nn|ArrayRef|TensorBase"
)
# no fault of the sources: a disk that is full, no memory, too many processes or files
_EXHAUSTED = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files"
    r"|Cannot allocate memory|virtual memory exhausted|out of memory allocating"
    r"|Resource temporarily unavailable|error writing to |Killed signal terminated"
)
# words of the sources that a compiler repeats
_REPEATED = re.compile(r"#error|static assertion|static_assert|^ *\d* \| ")
_EXHAUSTED_CODES = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE),
        *(errno.ENOMEM, errno.EAGAIN, errno.EIO),
    }
)
_LACKING = "not known here: "
# what computes, and would leave a kernel nothing to do
_OPERATOR = re.compile(
    r"(no match for 'operator|invalid operands (to binary expression|of types)"
    r"|no operator \"[-+*/^]=?\" matches)[^\n]*\n?[^\n]*Tensor"
)
_WORK = frozenset(
    {
        *("abs", "add", "addcmul", "div", "elu", "erf", "exp", "gelu", "linear", "mul", "multiply"),
        *("pow", "relu", "sigmoid", "silu", "softmax", "sqrt", "square", "sub", "tanh"),
    }
)


FULL = (
    "room left on the disk, or in memory, to compile and run it",
    "this is no fault of the .cu file: make room where TMPDIR is, then grade again",
)


@dataclass(frozen=True)
class Refusal:
    """Why there is no program.

    "unsupported": the sources may be right, but not for our header, or this machine is at its end;
    "foreign": they leave the work to PyTorch.
    """

    kind: Literal["compile_error", "unsupported", "foreign", "timeout"]
    lines: tuple[str, ...]


def exhausted(trouble: str | OSError) -> Refusal | None:
    """That this machine has no room left, by what a compiler or the system says; None if it has."""
    if isinstance(trouble, OSError):
        words = f"{trouble}" if trouble.errno in _EXHAUSTED_CODES else ""
    else:
        lines = (line for line in trouble.splitlines() if not _REPEATED.search(line))
        words = next((line for line in lines if _EXHAUSTED.search(line)), "")
    if not words:
        return None
    return Refusal("unsupported", (FULL[0], words, *FULL[1:]))


def marked(cuda: str, name: str) -> Refusal | None:
    """That the text has a byte-order mark, which load_inline leaves between other lines."""
    before, mark, _ = source.without_literals(cuda).partition("\ufeff")
    if not mark:
        return None
    line = before.count("\n") + 1
    what = f"{name}:{line}: a byte-order mark, which no compiler takes there"
    return Refusal("compile_error", (what, "save the file as UTF-8 without BOM"))


def unreadable(error: Exception) -> Refusal | None:
    """That the .cu file is not there or is no text; None if an exception is about something else."""
    if isinstance(error, OSError) and str(error.filename).endswith(".cu"):
        name = Path(str(error.filename)).name
        what = f"the submission has no file {name} that can be read"
        return Refusal("compile_error", (what, "links, and files over 1 MiB, are not taken"))
    if isinstance(error, UnicodeDecodeError) and b"__global__" in error.object:
        line = error.object.count(b"\n", 0, error.start) + 1
        what = f"line {line} of the .cu file is not UTF-8"
        return Refusal("compile_error", (what, "save the file as UTF-8"))
    return None


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
    if full := exhausted(said):
        return full
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
    if ours and (work := _work_of_pytorch(said)):
        return Refusal("foreign", (f"PyTorch's own {work} is to do the work", *lines[:MAX_LINES]))
    if ours and (lacking := list(_lacking(said))):
        return Refusal("unsupported", tuple(lacking[:MAX_LINES]))
    if not lines:
        # no word of the sources: the compiler itself is at its end
        return Refusal("unsupported", ("compiler that works", said[:1000]))
    return Refusal("compile_error", tuple(lines[:MAX_LINES]))


def _work_of_pytorch(said: str) -> str:
    """An operator on tensors among what is lacking, or ""."""
    if _OPERATOR.search(said):
        return "arithmetic on tensors"
    names = (name for name in _lacking(said) if re.split(r"\W+", name)[-1].rstrip("_") in _WORK)
    return next(names, "")


def _lacking(said: str) -> Iterator[str]:
    """What CUDA or PyTorch have and our header does not, in the errors of a compiler."""
    yield from _missing(said)
    for found in _OTHER_FORM.finditer(said):
        yield f"{next(filter(None, found.groups()))} of this form"
    for line in said.splitlines():
        if _LACKING in line:
            yield line.partition(_LACKING)[2]


def _missing(said: str) -> Iterator[str]:
    """Names and headers."""
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
            if space == "std" or _KNOWN_ELSEWHERE.fullmatch(in_space) or _has(space, in_space):
                yield f"{space}::{in_space}"
        elif name and _KNOWN_ELSEWHERE.fullmatch(name.partition("::")[0]):
            yield name
    for found in _NO_HEADER.finditer(said):
        header = found["gcc"] or found["clang"] or found["nvcc"]
        if re.match(
            r"(torch|ATen|c10|cub|thrust|cuda|cooperative|mma|pybind11|cute|curand)", header
        ):
            yield f"#include <{header}>"


def _has(owner: str | None, member: str) -> bool:
    """Whether PyTorch's own namespace or class has such a member; if nobody can tell, it has."""
    if owner is None:
        return False
    space, _, inner = owner.partition("::")
    if space in _SPACES and inner not in {"", *_CLASSES}:
        # such as at::cuda, of which a PyTorch for the CPU has no headers
        return True
    if space in _SPACES and not inner:
        return hasattr(torch, member) or _is_declared(member, "*.h")
    if (inner or owner) in _CLASSES:
        return hasattr(torch.Tensor, member) or _is_declared(member, "Tensor*.h")
    return False


def _is_declared(name: str, files: str) -> bool:
    """Whether such headers of the PyTorch that is installed have this word, or there are none."""
    text = _header_text(files)
    return not text or re.search(rf"\b{name}\b", text) is not None


@functools.cache
def _header_text(files: str) -> str:
    include = Path(torch.__file__).parent / "include"
    found = [path for folder in _HEADERS for path in (include / folder).glob(files)]
    return "\n".join(path.read_text(errors="replace") for path in found)
