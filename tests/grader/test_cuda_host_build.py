"""What compilers say, told apart: a mistake of the student's, or something our header lacks."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from grader.cuda_host import build, refusals
from grader.cuda_host.build import Sources
from grader.cuda_host.refusals import Refusal

CUDA = "__global__ void k() {\n  int i = blokIdx.x;\n}\n"
TEXTS = {"main.cpp": "void k();\n", "cuda.cu": CUDA}
NAMES = {"main.cpp": "cpp_sources", "cuda.cu": "cuda_gelu.cu"}


def refused(said: str, *, ours: bool = True) -> Refusal:
    """Of the sources above."""
    return refusals.refusal(said, TEXTS, NAMES, ours=ours)


@pytest.mark.parametrize(
    "said",
    [
        "cuda.cu:2:11: error: 'blokIdx' was not declared in this scope; did you mean 'blockIdx'?",
        "cuda.cu:2:11: error: use of undeclared identifier 'blokIdx'",
        'cuda.cu(2): error: identifier "blokIdx" is undefined',
    ],
    ids=["g++", "clang++", "nvcc"],
)
def test_a_mistake_is_told_with_its_line(said: str) -> None:
    """The file's own name, the line's number and text, and what the compiler says."""
    got = refused(f"cuda.cu: In function 'void k()':\n{said}\n")

    assert got.kind == "compile_error"
    assert got.lines[0].startswith("cuda_gelu.cu:2: ")
    assert "blokIdx" in got.lines[0]
    assert got.lines[1] == "  int i = blokIdx.x;"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("'__syncthreads' was not declared in this scope", "__syncthreads"),
        ("'__shared__' does not name a type", "__shared__"),
        ("'cudaMallocAsync' was not declared in this scope", "cudaMallocAsync"),
        ("use of undeclared identifier 'cudaMallocAsync'", "cudaMallocAsync"),
        ('identifier "AT_DISPATCH_ALL_TYPES" is undefined', "AT_DISPATCH_ALL_TYPES"),
        ("'kHalf' is not a member of 'torch'", "torch::kHalf"),
        ("'cumsum' is not a member of 'torch'", "torch::cumsum"),
        ("'class at::Tensor' has no member named 'cumsum'", "Tensor.cumsum"),
        ("no member named 'cumsum' in 'at::Tensor'", "Tensor.cumsum"),
        ('class "at::Tensor" has no member "cumsum"', "Tensor.cumsum"),
        ("'class at::Tensor' has no member named 'packed_accessor32'", "packed_accessor32"),
        ("'class at::Tensor' has no member named 'sym_numel'", "Tensor.sym_numel"),
        ("no member named 'expect_contiguous' in 'at::Tensor'", "Tensor.expect_contiguous"),
        ("'class at::Tensor' has no member named 'suggest_memory_format'", "suggest_memory_format"),
        ("'getCurrentDeviceHandle' is not a member of 'at::cuda'", "at::cuda::getCurrentDeviceHan"),
        ("'warp_size' is not a member of 'c10::cuda'", "c10::cuda::warp_size"),
        ("no member named 'warp_size' in namespace 'at::cuda'", "at::cuda.warp_size"),
        ("'struct c10::Device' has no member named 'str'", "c10::Device.str"),
        ("'const class at::Tensor' has no member named 'sym_sizes'", "at::Tensor.sym_sizes"),
        ("'MemoryFormat' is not a member of 'at'", "at::MemoryFormat"),
        ("'MemoryFormat' is not a member of 'torch'", "torch::MemoryFormat"),
        ("cannot convert 'int' to 'c10::IntArrayRef'", "c10::IntArrayRef"),
        (
            "no viable conversion from 'int' to 'IntArrayRef' (aka 'c10::IntArrayRef')",
            "IntArrayRef",
        ),
        ("no matching function for call to 'at::Tensor::flatten(int, int)'", "at::Tensor::flatten"),
        ("too many arguments to function 'at::Tensor at::zeros(c10::IntArrayRef)'", "at::zeros"),
        ('no instance of overloaded function "at::empty_like" matches', "at::empty_like"),
    ],
)
def test_what_our_header_lacks_is_no_mistake(said: str, name: str) -> None:
    """A name that CUDA or PyTorch has may be right: that cannot be checked here."""
    got = refused(f"cuda.cu:2:11: error: {said}")

    assert got.kind == "unsupported"
    assert name in got.lines[0]


@pytest.mark.parametrize(
    "said",
    [
        "'class at::Tensor' has no member named 'numels'",
        "no member named 'numels' in 'at::Tensor'",
        'class "at::Tensor" has no member "numels"',
        "'Tensr' is not a member of 'torch'",
        "'Tensr' is not a member of 'at'",
        "'struct Mine' has no member named 'numel'",
        "'idx' was not declared in this scope",
        "expected ';' before '}' token",
        "'const struct uint3' has no member named 'w'",
        "no matching function for call to 'square(at::Tensor&)'",
        "too many arguments to function 'at::Tensor launch(at::Tensor)'",
        "cannot convert 'at::Tensor' to 'const float*'",
    ],
)
def test_a_name_that_nobody_has_is_a_mistake(said: str) -> None:
    """Misspelt names of PyTorch's, names of one's own, and whatever is no name."""
    assert refused(f"cuda.cu:2:11: error: {said}").kind == "compile_error"


def test_without_headers_of_pytorch_no_name_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell then what a Tensor has."""
    monkeypatch.setattr(refusals, "_header_text", lambda _files: "")

    assert refused("cuda.cu:2:11: error: 'Tensr' is not a member of 'at'").kind == "unsupported"


def test_with_pytorch_itself_nothing_is_lacking() -> None:
    """Where the real headers were used, an unknown name is a mistake."""
    said = "cuda.cu(2): error: 'softmaxx' is not a member of 'torch'\n"

    assert refused(said.replace("softmaxx", "kHalf"), ours=False).kind == "compile_error"


@pytest.mark.parametrize(
    "said",
    [
        "'square' is not a member of 'torch'",
        "'class at::Tensor' has no member named 'mul_'",
        "no member named 'tanh' in 'at::Tensor'",
        "no match for 'operator*' (operand types are 'at::Tensor' and 'at::Tensor')",
        "invalid operands to binary expression ('torch::Tensor' (aka 'at::Tensor') and 'double')",
        'no operator "*" matches these operands\n            operand types are: at::Tensor * at::Tensor',
    ],
)
def test_work_left_to_pytorch_is_no_gap_of_ours(said: str) -> None:
    """What computes is the kernel's to do: a gap of the header would let it go unjudged."""
    got = refused(f"cuda.cu:2:11: error: {said}")

    assert got.kind == "foreign"
    assert "PyTorch's own" in got.lines[0]


def test_who_computes_for_long_and_who_waits_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Processor time is the source's, a busy machine is nobody's fault."""
    slow = build._refused("g++: fatal error: CPU time limit exceeded signal", TEXTS, NAMES)
    monkeypatch.setattr(build, "WALL_LIMIT_S", 0.2)

    assert slow.kind == "timeout"
    assert build._run({"slow": ("sleep", "5")}, tmp_path) is None
    assert build.BUSY.kind == "unsupported"


def test_a_compiler_has_its_limit_of_processor_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that computes without end is ended by the system."""
    monkeypatch.setattr(build, "CPU_LIMIT_S", 1)

    said = build._run({"endless": ("sh", "-c", "while :; do :; done")}, tmp_path)

    assert said == {"endless": "the compiler gave up silently"}


def test_a_missing_header_of_cuda_is_lacking() -> None:
    """A header of one's own that is missing is a mistake."""
    assert refused("cuda.cu:1:10: fatal error: cub/cub.cuh: No such file").kind == "unsupported"
    assert refused("cuda.cu:1:10: fatal error: mine.cuh: No such file").kind == "compile_error"


def test_a_compiler_at_its_end_is_no_mistake() -> None:
    """Words about no line of the sources blame nobody."""
    got = refused("g++: fatal error: Killed signal terminated program cc1plus")

    assert got.kind == "unsupported"


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize(
    "said",
    [
        "cuda.cu:3:1: fatal error: error writing to /tmp/a.s: No space left on device",
        "/tmp/a.s: Fatal error: can't write 12 bytes to cuda.o: 'No space left on device'",
        "/usr/bin/ld: final link failed: Disk quota exceeded",
        "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes",
        "g++: fatal error: cannot execute 'cc1plus': vfork: Resource temporarily unavailable",
        "g++: fatal error: Killed signal terminated program cc1plus",
    ],
)
def test_a_machine_without_room_is_no_mistake(said: str, ours: bool) -> None:
    """Even where the compiler puts a line of the sources before it."""
    got = refused(f"cuda.cu: In function 'void k()':\n{said}\n", ours=ours)

    assert got.kind == "unsupported"
    assert got.lines[0] == refusals.FULL[0]
    assert got.lines[1] == said


@pytest.mark.parametrize(
    "said",
    [
        'cuda.cu:2:2: error: #error "No space left on device"',
        "cuda.cu:2:2: error: static assertion failed: No space left on device",
        "cuda.cu:2:2: error: expected ';'\n    2 | // No space left on device",
        "cuda.cu:2:2: error: 'Killed' was not declared in this scope",
    ],
)
def test_words_of_the_sources_are_not_the_machines(said: str) -> None:
    """A compiler repeats them; they say nothing of a disk."""
    assert refused(said).kind == "compile_error"


def test_which_errors_of_the_system_are_the_machines() -> None:
    """A full disk is; a file that is not there is not."""
    full = refusals.exhausted(OSError(errno.ENOSPC, "No space left on device"))

    assert full is not None
    assert full.kind == "unsupported"
    assert refusals.exhausted(FileNotFoundError(errno.ENOENT, "No such file")) is None


def test_a_function_that_is_nowhere_defined_is_named() -> None:
    """What the linker says in its own way."""
    got = refused("/usr/bin/ld: main.o: undefined reference to `cuda_gelu(at::Tensor)'")

    assert got.kind == "compile_error"
    assert got.lines == ("declared and bound, but defined nowhere: cuda_gelu(at::Tensor)",)


def test_without_a_compiler_nothing_is_blamed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not a compile error: there was nobody to say so."""
    monkeypatch.setattr("shutil.which", lambda _name: None)

    got = build.for_host(Sources("", CUDA, ()), NAMES, tmp_path)

    assert isinstance(got, Refusal)
    assert got.kind == "unsupported"


def test_headers_of_the_sources_are_stood_in_for(tmp_path: Path) -> None:
    """PyTorch's by ours, CUDA's only without nvcc; nothing is written elsewhere."""
    text = "#include <torch/types.h>\n#include <c10/../../../x.h>\n#include <cuda_runtime.h>\n"

    build._forward(tmp_path, Sources("", text, ()), cuda=False)

    made = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.h")]
    assert made == ["torch/types.h"]
