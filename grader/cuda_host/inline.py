"""Stands in for ``torch.utils.cpp_extension.load_inline`` in the student's process.

Without a GPU it compiles for the host. With one it lets the real function work and watches: a stub is
known before it is compiled, a compiler's words are kept, calls are counted.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch.utils import cpp_extension

from grader.cuda_host import build, native, source
from grader.cuda_host.build import Refusal, Sources

MAX_RUNS = 4  # told of in a log

_real_load_inline: Callable[..., Any] = cpp_extension.load_inline


class StoppedError(Exception):
    """Nothing can be run; what stands in ``seen`` says why."""


@dataclass
class Seen:
    """What happened while a case ran.

    Attributes:
        todo: What a stub says is still to be written.
        refusal: Why a source was not compiled.
        unsupported: What the host run lacks.
        n_calls: Calls of functions of a compiled module.
        runs: Those on the host, in full.
    """

    todo: str = ""
    refusal: Refusal | None = None
    unsupported: str = ""
    n_calls: int = 0
    runs: list[native.Run] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether there is more to tell than an exception of Python's."""
        run_ended = any(run.ended for run in self.runs)
        return bool(self.todo or self.refusal or self.unsupported or run_ended)

    def told(self) -> dict[str, Any]:
        """What goes into a log."""
        return {
            "todo": self.todo,
            "refusal": asdict(self.refusal) if self.refusal else None,
            "unsupported": self.unsupported,
            "n_calls": self.n_calls,
            "runs": [run.told() for run in self.runs[:MAX_RUNS]],
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
        self._built: dict[Sources, Path | Refusal] = {}
        self._named: dict[Sources, dict[str, str]] = {}

    def load_inline(
        self,
        name: str,
        cpp_sources: str | list[str],
        cuda_sources: str | list[str] | None = None,
        *args: Any,
        functions: str | list[str] | dict[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """As the real one is called, and a module like the one it returns."""
        wanted = _sources(cpp_sources, cuda_sources, functions)
        for text in (wanted.cuda, wanted.cpp):
            self.seen.todo = self.seen.todo or source.todo(text)
        if self.seen.todo:
            raise StoppedError(self.seen.todo)
        self._named.setdefault(wanted, _names(wanted, sys._getframe(1).f_globals))  # noqa: SLF001  the caller's file
        if not self.on_host:
            return self._real(name, cpp_sources, cuda_sources, args, functions, options)
        # what is lacking shows when a function is called: a file may load its module when imported
        return Module(wanted.functions, lambda function, given: self._call(wanted, function, given))

    def _real(
        self, name: str, cpp: Any, cuda: Any, args: Any, functions: Any, options: dict[str, Any]
    ) -> Any:
        _find_tools()
        try:
            module = _real_load_inline(name, cpp, cuda, *args, functions=functions, **options)
        except RuntimeError as error:
            wanted = _sources(cpp, cuda, functions)
            texts = {"main.cpp": wanted.main, "cuda.cu": wanted.cuda}
            self.seen.refusal = build.refusal(_short(str(error)), texts, self._named[wanted])
            raise
        names = [known for known in dir(module) if not known.startswith("__")]

        def call(function: str, given: tuple[Any, ...]) -> Any:
            self.seen.n_calls += 1
            return getattr(module, function)(*given)

        return Module(tuple(names), call)

    def _call(self, wanted: Sources, function: str, given: tuple[Any, ...]) -> Any:
        if self.only_compile:
            self.seen.n_calls += 1
            self.seen.refusal = build.nvcc_refusal(wanted, self._named[wanted])
            raise StoppedError("nothing is run")
        if wanted not in self._built:
            self._built[wanted] = build.for_host(wanted, self._named[wanted])
        program = self._built[wanted]
        if isinstance(program, Refusal):
            self.seen.refusal = program
            raise StoppedError("\n".join(program.lines))
        self.seen.n_calls += 1
        try:
            run = native.call(program, function, given)
        except native.UnsupportedError as error:
            self.seen.unsupported = str(error)
            raise StoppedError(str(error)) from None
        self.seen.runs.append(run)
        if run.ended:
            raise StoppedError(run.ended)
        if run.misfit:
            raise TypeError(f"{function}(): incompatible function arguments")
        if run.error is not None:
            raise RuntimeError(run.error)
        return run.result


class Module:
    """A compiled module: its functions are attributes."""

    def __init__(
        self, functions: tuple[str, ...], call: Callable[[str, tuple[Any, ...]], Any]
    ) -> None:
        for function in functions:
            setattr(self, function, _bound(function, call))


def _bound(name: str, call: Callable[[str, tuple[Any, ...]], Any]) -> Callable[..., Any]:
    def function(*given: Any) -> Any:
        return call(name, given)

    function.__name__ = name
    return function


def install(watch: Watch) -> None:
    """Have whatever is imported from now on find the watched load_inline."""
    cpp_extension.load_inline = watch.load_inline


def _sources(cpp: Any, cuda: Any, functions: Any) -> Sources:
    def joined(texts: Any) -> str:
        return texts if isinstance(texts, str) else "\n".join(texts or ())

    names = (functions,) if isinstance(functions, str) else tuple(functions or ())
    return Sources(joined(cpp), joined(cuda), names)


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
        if " error" in line or "undefined reference" in line:
            place, _, what = line.partition(" error")
            lines.append(f"{place.rpartition('/')[2]} error{what}" if what else line)
    return "\n".join(lines)
