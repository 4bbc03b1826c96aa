"""The compile worker with the real Triton: what it refuses, what it counts, and when it stays out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.sandbox import compile_cache, compiling
from grader.sandbox.compiling import Compiler
from grader.sandbox.launcher import Launcher
from grader.sandbox.line import workers
from grader.seen import CompiledKernel, Encoded, SpecialisationSeen

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def helper(x):
    return x + tl.arange(0, 100)  # here: calls_a_helper


@triton.jit
def breaks(x_ptr, n):
    for i in range(n):
        if i > 3:
            break  # here: breaks
        tl.store(x_ptr + i, 1.0)


@triton.jit
def changes_type(x_ptr, n):
    total = 0
    for i in range(n):  # here: changes_type
        total = total + tl.load(x_ptr + i)
    tl.store(x_ptr, total)


@triton.jit
def branches_on_a_block(x_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 64))
    if x > 0:  # here: branches_on_a_block
        tl.store(x_ptr + tl.arange(0, 64), x)


@triton.jit
def dots_too_little(x_ptr, n):
    r = tl.arange(0, 8)
    a = tl.load(x_ptr + r[:, None] * 8 + r[None, :])
    a = tl.dot(a, a)  # here: dots_too_little
    tl.store(x_ptr + r[:, None] * 8 + r[None, :], a)


@triton.jit
def calls_a_helper(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, 64), helper(n))


@triton.jit
def asserts(x_ptr, n):
    tl.static_assert(False, "not for you")  # here: asserts
    tl.store(x_ptr, n)


@triton.jit
def product(x_ptr, n, BLOCK: tl.constexpr):  # here: product
    r, k = tl.arange(0, BLOCK), tl.arange(0, 64)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i in range(0, n, 64):
        a = tl.load(x_ptr + r[:, None] * n + (k + i)[None, :])
        b = tl.load(x_ptr + (k + i)[:, None] * BLOCK + r[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(x_ptr + r[:, None] * BLOCK + r[None, :], acc)


@triton.jit
def normalises(x_ptr, n, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r)
    tl.store(x_ptr + r, x / tl.sum(x))


@triton.jit
def copies_tiles(x_ptr, n, BLOCK: tl.constexpr):
    x_ptr.store([0, BLOCK], x_ptr.load([n, 0]))


@triton.jit
def copy(x_ptr, n, BLOCK: tl.constexpr):
    r = tl.arange(0, BLOCK)
    tl.store(x_ptr + r, 2 * tl.load(x_ptr + r, mask=r < n), mask=r < n)
"""


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """One launcher for all of these tests."""
    launcher = Launcher()
    yield launcher
    launcher.close()


@pytest.fixture
def start(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path, str], Compiler]]:
    """Starts compilers of files, with a cache of their own, ended after the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made: list[Compiler] = []

    def started(file: Path, source: str) -> Compiler:
        file.write_text(source)
        made.append(Compiler(workers(launcher), file, 90))
        return made[-1]

    yield started
    for compiler in made:
        compiler.close()


@pytest.fixture
def compiler(start: Callable[[Path, str], Compiler], tmp_path: Path) -> Compiler:
    """A compiler of the kernels above."""
    return start(tmp_path / "kernels.py", KERNELS)


def launch(
    kernel: str, x: Encoded = ("aligned", "float32"), n: int = 16, **constants_and_options: int
) -> SpecialisationSeen:
    """A launch of one of the kernels above."""
    lines = KERNELS.splitlines()
    constants = {k: v for k, v in constants_and_options.items() if k.isupper()}
    options = {k: v for k, v in constants_and_options.items() if not k.isupper()}
    arguments: dict[str, Encoded] = {"x_ptr": x, "n": ("int", n)}
    return SpecialisationSeen(
        kernel=kernel,
        file="kernels.py",
        line=next(i for i, line in enumerate(lines) if line.startswith(f"def {kernel}(")),
        arguments=arguments | {k: ("constant", v) for k, v in constants.items()},
        options=dict(options),
    )


@pytest.mark.triton
@pytest.mark.parametrize(
    ("launched", "reason"),
    [
        pytest.param(launch("breaks"), "Break", id="break"),
        pytest.param(
            launch("changes_type"),
            "total has initial type int32 but is re-assigned to fp32",
            id="loop-variable-changes-type",
        ),
        pytest.param(launch("branches_on_a_block"), "more than one value", id="if-on-a-block"),
        pytest.param(launch("dots_too_little"), "K >= 16", id="dot-too-small"),
        pytest.param(launch("calls_a_helper"), "power of 2", id="in-a-helper"),
        pytest.param(launch("asserts"), "not for you", id="static-assert"),
        # at the least two tiles of 256 x 64 float32 each, two of the four stages at a time
        pytest.param(
            launch("product", BLOCK=256, num_stages=4, num_warps=8),
            "bytes of shared memory for a block, sm_90 has 232448",
            id="shared-memory",
        ),
        pytest.param(
            launch("product", BLOCK=64, num_warps=64), "2048 threads", id="too-many-threads"
        ),
        pytest.param(launch("product", BLOCK=64, num_warps=3), "power of two", id="three-warps"),
    ],
)
def test_refused_with_the_reason_and_the_line(
    compiler: Compiler, launched: SpecialisationSeen, reason: str
) -> None:
    """The compiler's own words, at the line where it stopped, not at the call above it."""
    refused = compiler.refusal([launched])

    assert refused is not None
    assert reason in refused.reason
    assert "\n" not in refused.reason
    line = KERNELS.splitlines()[refused.line - 1]
    assert f"# here: {launched.kernel}" in line
    assert refused.source_line == line.strip()
    assert refused.file == "kernels.py"
    assert not compiler.notes


@pytest.mark.triton
def test_a_tensor_descriptor_is_made_again(compiler: Compiler) -> None:
    """Hopper loads through it in bulk; an A100 as through pointers."""
    described = launch("copies_tiles", ("descriptor", "float16 zero 64 64"), BLOCK=64)

    made = [compiler.result(described, arch) for arch in (80, 90)]

    assert [k.bulk_loads for k in made if isinstance(k, CompiledKernel)] == [False, True]
    assert not compiler.notes


@pytest.mark.triton
def test_each_architecture_gets_its_own_binary(compiler: Compiler) -> None:
    """The targets are those of the compiled kernels, and no result is another's."""
    launched = launch("product", ("aligned", "float16"), BLOCK=128, num_warps=4)

    made = [compiler.result(launched, arch) for arch in (80, 90, 120)]

    assert all(isinstance(kernel, CompiledKernel) for kernel in made)
    assert [kernel.target for kernel in made if isinstance(kernel, CompiledKernel)] == [
        "sm_80",
        "sm_90",
        "sm_120",
    ]
    assert all(k.tensor_cores for k in made if isinstance(k, CompiledKernel))
    assert made[0] != made[1]


@pytest.mark.triton
@pytest.mark.parametrize(
    ("x", "n", "bits"),
    [
        pytest.param(("aligned", "float32"), 16, 128, id="aligned"),
        pytest.param(("pointer", "float32"), 16, 32, id="unaligned"),
        # a mask that may end anywhere allows no wide load
        pytest.param(("aligned", "float32"), 3, 32, id="n-not-divisible"),
        pytest.param(("pointer", "float16"), 16, 16, id="unaligned-half"),
    ],
)
def test_alignment_decides_the_width_of_loads(
    compiler: Compiler, x: Encoded, n: int, bits: int
) -> None:
    """What a launch specialises on arrives at the compiler."""
    made = compiler.result(launch("copy", x, n, BLOCK=1024), 90)

    assert isinstance(made, CompiledKernel)
    assert (made.load_bits, made.narrowest_load_bits) == (bits, bits)
    assert not made.tensor_cores
    assert made.spill_bytes == 0
    assert made.num_warps == 4


@pytest.mark.triton
def test_spilled_registers_are_counted(compiler: Compiler) -> None:
    """A row of 16384 float32 in the 32 threads of one warp is 512 registers each, and 255 there are.

    In 16 warps it is 32 each.
    """
    much = compiler.result(launch("normalises", BLOCK=16384, num_warps=1), 90)
    little = compiler.result(launch("normalises", BLOCK=16384, num_warps=16), 90)

    assert isinstance(much, CompiledKernel)
    assert isinstance(little, CompiledKernel)
    assert much.spill_bytes is not None
    assert much.spill_bytes >= 4 * (512 - 255)
    assert little.spill_bytes == 0


@pytest.mark.triton
def test_the_second_run_takes_it_from_the_cache(
    start: Callable[[Path, str], Compiler], compiler: Compiler, tmp_path: Path
) -> None:
    """The same content, in another place, finds what was compiled; other content does not."""
    first = compiler.result(launch("copy", BLOCK=64), 90)
    folder = compile_cache.folder(tmp_path / "kernels.py")
    assert folder is not None
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*.cubin")}
    (tmp_path / "elsewhere").mkdir()

    again = start(tmp_path / "elsewhere" / "kernels.py", KERNELS)

    assert made
    assert again.result(launch("copy", BLOCK=64), 90) == first
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.cubin")} == made
    assert compile_cache.folder(tmp_path / "elsewhere" / "kernels.py") == folder
    (tmp_path / "kernels.py").write_text(KERNELS + "\n")
    assert compile_cache.folder(tmp_path / "kernels.py") != folder


@pytest.mark.triton
@pytest.mark.parametrize(
    ("source", "why"),
    [
        pytest.param("raise OSError('no such table')", "OSError: no such table", id="raises"),
        pytest.param("import os\nos._exit(7)", "PeerClosedError", id="exits"),
        pytest.param("import os\nos.kill(os.getpid(), 11)", "PeerClosedError", id="crashes"),
        pytest.param("while True:\n    pass", "TimeoutError", id="hangs"),
    ],
)
def test_a_check_that_cannot_run_is_a_note(
    start: Callable[[Path, str], Compiler],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    why: str,
) -> None:
    """Nobody is refused for it, and it is not tried again for every launch."""
    monkeypatch.setattr(compiling, "LOAD_LIMIT_S", 5.0)
    broken = start(tmp_path / "kernels.py", KERNELS + source)

    assert broken.refusal([launch("breaks"), launch("copy", BLOCK=64)]) is None

    (note,) = broken.notes
    assert why in note
    assert not broken.kernels()


@pytest.mark.triton
def test_a_kernel_that_is_not_there_is_a_note(compiler: Compiler) -> None:
    """One that is made while the entry point runs; the others are still compiled."""
    elsewhere = launch("copy", BLOCK=64).model_copy(update={"line": 1})

    assert compiler.refusal([elsewhere]) is None
    assert isinstance(compiler.result(launch("copy", BLOCK=64), 90), CompiledKernel)
    assert len(compiler.notes) == 1
    assert "copy is not there" in compiler.notes[0]


def test_only_so_many_caches_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ones used last; the content names them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compile_cache, "KEPT_FOLDERS", 2)
    file = tmp_path / "kernels.py"

    made = []
    for number in range(3):
        file.write_text(f"n = {number}\n")
        made.append(compile_cache.folder(file))

    assert [folder is not None and folder.is_dir() for folder in made] == [False, True, True]


def test_a_home_that_cannot_be_written_costs_only_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a user without a home; a file in the way stands for it here."""
    (tmp_path / "cache").write_text("")
    (tmp_path / "kernels.py").write_text("n = 0\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    assert compile_cache.folder(tmp_path / "kernels.py") is None
