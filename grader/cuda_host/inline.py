"""Stands in for ``torch.utils.cpp_extension.load_inline`` in the student's process.

Without a GPU it compiles for the host. With one it lets the real function work and watches: a stub is
known before it is compiled, a compiler's words are kept, calls are counted.
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from torch.utils import cpp_extension

from grader.cuda_host import build, native, refusals, source
from grader.cuda_host.build import Sources
from grader.cuda_host.refusals import Refusal

MAX_RUNS = 4  # told of in a log
MAX_TIMEOUTS = 2

NO_KERNEL = Refusal("foreign", ("the sources hold no kernel that is launched with <<<...>>>",))

_real_load_inline: Callable[..., Any] = cpp_extension.load_inline
_real_load: Callable[..., Any] = cpp_extension.load
_LOAD_INLINE = inspect.signature(_real_load_inline)
_LOAD = inspect.signature(_real_load)


class StoppedError(Exception):
    """Nothing can be run; what stands in ``seen`` says why."""


@dataclass
class Seen:
    """What happened while a case ran.

    Attributes:
        todo: What a stub says is still to be written.
        refusal: Why a source was not compiled.
        dtype: Of a tensor that a module was called with and that the host does not know.
        n_calls: Calls of functions of a compiled module.
        runs: Those on the host, in full.
    """

    todo: str = ""
    refusal: Refusal | None = None
    dtype: str = ""
    n_calls: int = 0
    runs: list[native.Run] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether there is more to tell than an exception of Python's."""
        run_ended = any(run.ended for run in self.runs)
        return bool(self.todo or self.refusal or self.dtype or run_ended)

    def told(self) -> dict[str, Any]:
        """What goes into a log: of many runs those with something wrong, and the last."""
        latest_first = self.runs[::-1]
        told = sorted(latest_first, key=lambda run: not run.is_troubled)
        return {
            "todo": self.todo,
            "refusal": asdict(self.refusal) if self.refusal else None,
            "dtype": self.dtype,
            "n_calls": self.n_calls,
            "n_runs": len(self.runs),
            "n_launches": sum(len(run.launches) for run in self.runs),
            "runs": [run.told() for run in told[:MAX_RUNS]],
        }


class Watch:
    """All that is asked of load_inline in this process.

    Attributes:
        seen: Of the case that runs; what was found while the submission was imported stays.
        on_host: Whether the host compiles, rather than nvcc for a GPU.
        only_compile: Ask nvcc whether it compiles, and go no further.
    """

    def __init__(self, *, on_host: bool) -> None:
        self.on_host = on_host
        self.only_compile = False
        self.seen = Seen()
        self._n_timeouts = 0
        self._built: dict[Sources, Path | Refusal] = {}
        self._named: dict[Sources, dict[str, str]] = {}
        self._failed: dict[Sources, RuntimeError | OSError] = {}

    @functools.cached_property
    def scratch(self) -> Path:
        """Made when it is first needed: what fails then is told of the case, not of the grader."""
        made = Path(tempfile.mkdtemp(prefix="cuda-host-"))
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        return made

    def load_inline(self, *args: Any, **options: Any) -> Any:
        """As the real one is called, and a module like the one it returns."""
        given = _LOAD_INLINE.bind(*args, **options).arguments
        functions = given.get("functions") or ()
        names = (functions,) if isinstance(functions, str) else tuple(functions)
        wanted = Sources(_joined(given["cpp_sources"]), _joined(given.get("cuda_sources")), names)
        return self._loaded(wanted, lambda: _real_load_inline(*args, **options))

    def load(self, *args: Any, **options: Any) -> Any:
        """As the real one is called: the sources are files, and define the module themselves."""
        given = _LOAD.bind(*args, **options).arguments["sources"]
        paths = [Path(path) for path in ([given] if isinstance(given, str) else given)]
        # compilers skip a byte-order mark where a file begins, and look at no bytes in comments
        texts = {path: path.read_text(encoding="utf-8-sig", errors="replace") for path in paths}
        cuda = _joined([text for path, text in texts.items() if path.suffix == ".cu"])
        cpp = _joined([text for path, text in texts.items() if path.suffix != ".cu"])
        return self._loaded(Sources(cpp, cuda, ()), lambda: _real_load(*args, **options))

    def _loaded(self, wanted: Sources, real: Callable[[], Any]) -> Any:
        if todo := source.todo(wanted.cuda) or source.todo(wanted.cpp):
            return Module(lambda *_: self._stop_at(todo=todo))
        if not (source.has_kernel(wanted.cuda) or source.has_kernel(wanted.cpp)):
            return Module(lambda *_: self._stop_at(refusal=NO_KERNEL))
        caller = sys._getframe(2).f_globals  # noqa: SLF001  the submission's file
        names = self._named.setdefault(wanted, _names(wanted, caller))
        if marked := refusals.marked(wanted.cuda, names["cuda.cu"]):
            return Module(lambda *_: self._stop_at(refusal=marked))
        if not self.on_host:
            return self._real(wanted, real)
        # what is lacking shows when a function is called: a file may load its module when imported
        return Module(lambda function, given: self._call(wanted, function, given))

    def _stop_at(self, todo: str = "", refusal: Refusal | None = None) -> NoReturn:
        self.seen.todo, self.seen.refusal = todo, refusal
        raise StoppedError(todo or (refusal.lines[0] if refusal else ""))

    def _real(self, wanted: Sources, load: Callable[[], Any]) -> Any:
        _find_tools()
        try:
            if wanted in self._failed:
                # torch, asked again, takes the build for done, and misses its file
                raise self._failed[wanted]
            module = load()
        except OSError as error:
            if full := refusals.exhausted(error):
                self._failed[wanted] = error
                self.seen.refusal = full
            raise
        except RuntimeError as error:
            self._failed[wanted] = error
            texts = {"main.cpp": wanted.main, "cuda.cu": wanted.cuda}
            said, names = _short(str(error)), self._named[wanted]
            if said:
                self.seen.refusal = refusals.refusal(said, texts, names, ours=False)
            raise

        def call(function: str, given: tuple[Any, ...]) -> Any:
            self.seen.n_calls += 1
            return getattr(module, function)(*given)

        return Module(call)

    def _call(self, wanted: Sources, function: str, given: tuple[Any, ...]) -> Any:
        try:
            return self._called(wanted, function, given)
        except OSError as error:
            full = refusals.exhausted(error)
            if full is None:
                raise
            self._stop_at(refusal=full)

    def _called(self, wanted: Sources, function: str, given: tuple[Any, ...]) -> Any:
        names = self._named[wanted]
        if self.only_compile:
            self.seen.n_calls += 1
            # what cannot be run here earns nothing for being compiled
            made = build.nvcc_refusal(wanted, names, self.scratch) or self._program(wanted)
            self.seen.refusal = made if isinstance(made, Refusal) else None
            raise StoppedError("nothing is run")
        program = self._program(wanted)
        if self._n_timeouts == MAX_TIMEOUTS:
            program = Refusal("timeout", ("not run: calls before ran out of time",))
        if isinstance(program, Refusal):
            self._stop_at(refusal=program)
        self.seen.n_calls += 1
        try:
            run = native.call(program, function, given)
        except native.UnsupportedError as error:
            self.seen.dtype = str(error)
            raise StoppedError(str(error)) from None
        self.seen.runs.append(run)
        self._n_timeouts += run.timed_out
        if run.ended:
            raise StoppedError(run.ended)
        if run.misfit == "unknown":
            raise AttributeError(f"the compiled module has no function {function}")
        if run.misfit:
            raise TypeError(f"{function}(): incompatible function arguments")
        if run.error is not None:
            raise RuntimeError(run.error)
        return run.result

    def _program(self, wanted: Sources) -> Path | Refusal:
        """Compiled once; what did not come about because this machine is busy or full is tried again."""
        if wanted not in self._built:
            made = build.for_host(wanted, self._named[wanted], self.scratch)
            if isinstance(made, Refusal) and (
                made is build.BUSY or made.lines[0] == refusals.FULL[0]
            ):
                return made
            self._built[wanted] = made
        return self._built[wanted]


class Module:
    """A compiled module: its functions are attributes."""

    def __init__(self, call: Callable[[str, tuple[Any, ...]], Any]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A function of the module; whether there is one shows when it is called."""
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given: self._call(name, given)


def install(watch: Watch) -> None:
    """Have whatever is imported from now on find the watched functions."""
    cpp_extension.load_inline = watch.load_inline
    cpp_extension.load = watch.load


def _joined(texts: Any) -> str:
    return texts if isinstance(texts, str) else "\n".join(texts or ())


def _names(wanted: Sources, caller: dict[str, Any]) -> dict[str, str]:
    """What to call the sources: a file beside the caller's that holds just this text has a name."""
    names = {"main.cpp": "cpp_sources", "cuda.cu": "cuda_sources"}
    folder = Path(str(caller.get("__file__", "."))).parent
    for path in sorted(folder.glob("*.cu")):
        if path.is_file() and path.read_text(errors="replace") == wanted.cuda:
            names["cuda.cu"] = path.name
    return names


def _find_tools() -> None:
    """Let the real load_inline find ninja beside Python, and CUDA where nvcc is but a script."""
    beside = str(Path(sys.executable).parent)
    if shutil.which("ninja") is None:
        os.environ["PATH"] = f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"
    home = cpp_extension.CUDA_HOME
    usual = Path("/usr/local/cuda")
    if (home is None or not Path(home, "include", "cuda.h").exists()) and usual.exists():
        cpp_extension.CUDA_HOME = str(usual)


def _short(said: str) -> str:
    """The errors of a build's output, with each path cut to the file's own name."""
    lines = []
    for line in said.splitlines():
        if refusals.exhausted(line):
            lines.append(line)
        elif " error" in line or "undefined reference" in line:
            place, _, what = line.partition(" error")
            lines.append(f"{place.rpartition('/')[2]} error{what}" if what else line)
    return "\n".join(lines)
