"""What is seen of load_inline on a GPU machine, where the real one does the work; stubs on both."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.cuda_host import build, inline, native, refusals
from grader.cuda_host.inline import StoppedError, Watch

CUDA = "__global__ void k() {\n  int b = blokIdx.x;\n}\nint f(int a) { k<<<1, 1>>>(); }\n"
STUB = '__global__ void k() {\n#error "TODO: implement k"\n}\n'
# as ninja prints it
FAILED = """Error building extension 'f': [1/2] /usr/local/cuda/bin/nvcc -c /tmp/x/cuda.cu -o cuda.o
FAILED: cuda.cuda.o
/tmp/x/cuda.cu(2): error: identifier "blokIdx" is undefined

1 error detected in the compilation of "/tmp/x/cuda.cu".
ninja: build stopped: subcommand failed.
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the real load_inline is called with; it returns a module that adds one."""
    calls: list[dict[str, Any]] = []

    def real(*_args: Any, **options: Any) -> SimpleNamespace:
        calls.append(options)
        return SimpleNamespace(f=lambda x: x + 1)

    monkeypatch.setattr(inline, "_real_load_inline", real)
    monkeypatch.setattr(inline, "_find_tools", lambda: None)
    return calls


def load(watch: Watch, cuda: str) -> Any:
    """As a submission does."""
    return watch.load_inline(
        name="f", cpp_sources="int f(int);", cuda_sources=cuda, functions=["f"]
    )


def test_the_real_module_is_called_and_counted(asked: list[dict[str, Any]]) -> None:
    """Arguments reach the real load_inline, results come back."""
    watch = Watch(on_host=False)

    module = load(watch, CUDA)

    assert module.f(2) == 3
    assert watch.seen.n_calls == 1
    assert asked[0]["functions"] == ["f"]
    assert not watch.seen.has_ended


@pytest.mark.parametrize("on_host", [True, False])
def test_a_stub_is_known_before_it_is_compiled(asked: list[dict[str, Any]], on_host: bool) -> None:
    """With and without a GPU alike; it may be loaded, while the file is imported, but not called."""
    watch = Watch(on_host=on_host)
    module = load(watch, STUB)

    with pytest.raises(StoppedError, match="implement k"):
        module.f(1)

    assert watch.seen.todo == "TODO: implement k"
    assert not asked


def test_words_of_the_real_compiler_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of the source and its text, without the folder it was compiled in."""

    def real(*_args: Any, **_options: Any) -> None:
        raise RuntimeError(FAILED)

    monkeypatch.setattr(inline, "_real_load_inline", real)
    monkeypatch.setattr(inline, "_find_tools", lambda: None)
    watch = Watch(on_host=False)

    with pytest.raises(RuntimeError):
        load(watch, CUDA)

    refusal = watch.seen.refusal
    assert refusal is not None
    assert refusal.kind == "compile_error"
    assert refusal.lines[:2] == (
        'cuda_sources:2: identifier "blokIdx" is undefined',
        "  int b = blokIdx.x;",
    )


def test_a_build_that_failed_fails_again_in_the_same_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Asked a second time, torch looks for the file that never came; other sources are built."""
    asked_for: set[str] = set()

    def real(*_args: Any, cuda_sources: str, **_options: Any) -> SimpleNamespace:
        if "good" in cuda_sources:
            return SimpleNamespace(f=lambda x: x)
        if cuda_sources in asked_for:
            raise ImportError("f.so: cannot open shared object file")
        asked_for.add(cuda_sources)
        raise RuntimeError(FAILED)

    monkeypatch.setattr(inline, "_real_load_inline", real)
    monkeypatch.setattr(inline, "_find_tools", lambda: None)
    watch = Watch(on_host=False)
    refusals = []
    for _ in range(2):
        watch.seen = inline.Seen()
        with pytest.raises(RuntimeError, match="blokIdx"):
            load(watch, CUDA)
        refusals.append(watch.seen.refusal)

    assert refusals[0] is not None
    assert refusals[0] == refusals[1]
    assert load(watch, f"// good\n{CUDA}").f(1) == 1


def test_a_build_that_fails_without_a_word_of_the_source_blames_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as ninja missing: the exception itself is told."""

    def real(*_args: Any, **_options: Any) -> None:
        raise RuntimeError("Ninja is required to load C++ extensions")

    monkeypatch.setattr(inline, "_real_load_inline", real)
    monkeypatch.setattr(inline, "_find_tools", lambda: None)
    watch = Watch(on_host=False)

    with pytest.raises(RuntimeError, match="Ninja is required"):
        load(watch, CUDA)

    assert watch.seen.refusal is None


def test_the_students_own_mistake_in_the_call_is_theirs() -> None:
    """An argument that load_inline does not have."""
    with pytest.raises(TypeError, match="unexpected keyword"):
        Watch(on_host=True).load_inline(name="f", cpp_sources="", cuda_source=CUDA)


@pytest.mark.parametrize("on_host", [True, False])
def test_a_module_without_a_kernel_is_none(asked: list[dict[str, Any]], on_host: bool) -> None:
    """On a GPU as without one: PyTorch's work is not the submission's."""
    watch = Watch(on_host=on_host)

    with pytest.raises(StoppedError, match="no kernel"):
        load(watch, "int f(int a) { return a + 1; }").f(1)

    assert watch.seen.refusal is not None
    assert watch.seen.refusal.kind == "foreign"
    assert not asked


@pytest.mark.parametrize("at", [0, 4, 9])
def test_of_many_runs_the_troubled_one_is_told(at: int) -> None:
    """Wherever it was among them; all are counted."""
    launch = native.Launch("k", (1, 1, 1), (1, 1, 1), refused=False)
    seen = inline.Seen(runs=[native.Run(launches=[launch]) for _ in range(10)])
    seen.runs[at].ended = "signal 11 (SIGSEGV)"

    told = seen.told()

    assert told["runs"][0]["ended"] == "signal 11 (SIGSEGV)"
    assert len(told["runs"]) == inline.MAX_RUNS
    assert (told["n_runs"], told["n_launches"]) == (10, 10)


@pytest.mark.parametrize(
    ("code", "is_machine"), [(errno.ENOSPC, True), (errno.EMFILE, True), (errno.ENOENT, False)]
)
@pytest.mark.parametrize("where", ["for_host", "call"])
def test_a_full_disk_is_told_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, is_machine: bool, where: str
) -> None:
    """While compiling or running; other errors of the system stay what they are."""
    disk = {"is_full": True}

    def work(*_args: Any) -> Any:
        if disk["is_full"]:
            raise OSError(code, os.strerror(code))
        return native.Run(result=3)

    monkeypatch.setattr(build, "for_host", lambda *_args: tmp_path / "program")
    monkeypatch.setattr(native, "call", lambda *_args: native.Run(result=3))
    monkeypatch.setattr(build if where == "for_host" else native, where, work)
    watch = Watch(on_host=True)
    module = load(watch, CUDA)

    with pytest.raises(StoppedError if is_machine else OSError):
        module.f(1)
    refusal, watch.seen = watch.seen.refusal, inline.Seen()
    disk["is_full"] = False
    monkeypatch.setattr(build, "for_host", lambda *_args: tmp_path / "program")

    assert (refusal is not None) == is_machine
    assert refusal is None or refusal.kind == "unsupported"
    assert module.f(1) == 3


def test_a_compiler_without_room_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A mistake is remembered, a full disk is not."""
    made: list[Any] = [refusals.refusal("ld: No space left on device", {}, {}), tmp_path]
    monkeypatch.setattr(build, "for_host", lambda *_args: made.pop(0))
    monkeypatch.setattr(native, "call", lambda *_args: native.Run(result=3))
    module = load(Watch(on_host=True), CUDA)

    with pytest.raises(StoppedError):
        module.f(1)

    assert module.f(1) == 3
    assert not made


def test_no_room_for_the_real_build_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch writes main.cpp itself, and says so with an error of the system."""

    def real(*_args: Any, **_options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(inline, "_real_load_inline", real)
    monkeypatch.setattr(inline, "_find_tools", lambda: None)
    watch = Watch(on_host=False)

    with pytest.raises(OSError, match="No space"):
        load(watch, CUDA)

    assert watch.seen.refusal is not None
    assert watch.seen.refusal.kind == "unsupported"


def test_an_answer_on_a_full_disk_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the program could not write looks as if it had ended early, so the disk is asked first."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o700)
    real = Path.write_bytes

    def write_bytes(path: Path, data: bytes) -> int:
        if path.name == "probe":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    assert native.call(program, "f", ()).ended == "exit 3"
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(OSError, match="No space"):
        native.call(program, "f", ())


@pytest.mark.parametrize("on_host", [True, False])
def test_a_byte_order_mark_is_told(asked: list[dict[str, Any]], on_host: bool) -> None:
    """load_inline puts lines before it; in a comment it does no harm."""
    watch = Watch(on_host=on_host)

    with pytest.raises(StoppedError):
        load(watch, "\ufeff" + CUDA).f(1)

    assert watch.seen.refusal is not None
    assert watch.seen.refusal.kind == "compile_error"
    assert watch.seen.refusal.lines[0].startswith("cuda_sources:1: a byte-order mark")
    assert "without BOM" in watch.seen.refusal.lines[1]
    assert refusals.marked(CUDA + "// \ufeff", "cuda_sources") is None
    assert not asked


def test_a_file_for_load_may_begin_with_a_byte_order_mark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There the compiler reads the file itself, and skips the mark."""
    path = tmp_path / "f.cu"
    path.write_bytes(b"\xef\xbb\xbf" + CUDA.encode() + b"// caf\xe9\n")
    monkeypatch.setattr(inline, "_real_load", lambda **_options: SimpleNamespace(f=lambda x: x))
    monkeypatch.setattr(inline, "_find_tools", lambda: None)
    watch = Watch(on_host=False)

    assert watch.load(name="f", sources=[str(path)]).f(2) == 2
    assert watch.seen.refusal is None
