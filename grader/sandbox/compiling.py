"""The verifier's end of the compile worker: every kernel that was launched, compiled once.

A kernel that the compiler refuses is the submission's fault. That the check itself cannot run (no
Triton, a compiler that crashes, a launch that cannot be made again) is a note, never a verdict.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from grader.sandbox import compile_cache
from grader.sandbox.launcher import LaunchError
from grader.sandbox.line import Connect, Connection
from grader.sandbox.protocol import PeerClosedError, ProtocolError
from grader.sandbox.replies import CompiledReply, Raised
from grader.seen import CompiledKernel, ConfigSeen, Encoded, RefusedSeen, SpecialisationSeen

# the largest reference kernel takes 1 s, and an unrolled loop of a student's may take many times it
KERNEL_LIMIT_S: Final = 60.0
PROBLEM_COMPILE_LIMIT_S: Final = 300.0
LOAD_LIMIT_S: Final = 60.0
MAX_NOTES: Final = 20

Result = CompiledKernel | RefusedSeen | None
"""None: not compiled, which a note explains."""


def is_available() -> bool:
    """Whether there is a real Triton that could compile here."""
    return sys.platform == "linux" and importlib.util.find_spec("triton") is not None


class Compiler:
    """Compiles the kernels of one problem of one submission. Its process starts with the first.

    Args:
        connect: Starts the process.
        file: The submission's file of this problem.
        arch: What is compiled for where nothing else is said: compute capability times ten.

    Attributes:
        notes: What is worth knowing and no verdict.
    """

    def __init__(self, connect: Connect, file: Path, arch: int) -> None:
        self.arch = arch
        self.notes: list[str] = []
        self._connect = connect
        self._file = file
        self._line: Connection | None = None
        self._why_off = ""
        self._spent_s = 0.0
        self._results: dict[str, Result] = {}
        self._tuned: set[tuple[str, int, str]] = set()

    def kernels(self) -> tuple[CompiledKernel, ...]:
        """What was compiled so far, each kernel once; equal ones count as one."""
        made = (result for result in self._results.values() if isinstance(result, CompiledKernel))
        return tuple(dict.fromkeys(made))

    def refusal(self, launched: Sequence[SpecialisationSeen]) -> RefusedSeen | None:
        """Compile what was launched; why the first of it would not run on the GPU, or None."""
        for kernel in launched:
            refused = self._tuned_refusal(kernel) if kernel.config else self._refusal(kernel)
            if refused:
                return refused
        return None

    def result(
        self, kernel: SpecialisationSeen, arch: int, config: ConfigSeen | None = None
    ) -> Result:
        """What one kernel compiles to, in the config that ran or another one. Asked once each."""
        wanted = {
            "kernel": kernel.kernel,
            "file": kernel.file,
            "line": kernel.line,
            "arguments": {**kernel.arguments, **(config.arguments if config else {})},
            "options": config.options if config else kernel.options,
        }
        key = json.dumps([wanted, arch], sort_keys=True)
        if key not in self._results:
            self._results[key] = self._compile(wanted, arch)
        return self._results[key]

    def note(self, text: str) -> None:
        """Keep a note, once."""
        if text not in self.notes and len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    def close(self) -> None:
        """End the process; the results stay."""
        if self._line is not None:
            self._line.end(0.0)
            self._line = None

    def _refusal(self, kernel: SpecialisationSeen) -> RefusedSeen | None:
        result = self.result(kernel, self.arch)
        return result if isinstance(result, RefusedSeen) else None

    def _tuned_refusal(self, kernel: SpecialisationSeen) -> RefusedSeen | None:
        """Autotune passes over configs that do not fit, so only all of them are a refusal.

        All configs are compiled once for each choice of dtypes; else until one compiles.
        """
        about = (kernel.file, kernel.line, _dtypes(kernel.arguments))
        is_known = about in self._tuned
        self._tuned.add(about)
        first: RefusedSeen | None = None
        n_usable = 0
        for config in (None, *kernel.others):
            result = self.result(kernel, self.arch, config)
            if isinstance(result, RefusedSeen):
                if result.kind == "error":
                    return result
                first = first or result
                text = config.text if config else kernel.config
                self.note(
                    f"{result.file}:{result.line}: {kernel.kernel} with {text} cannot run on"
                    f" sm_{self.arch}: {result.reason}"
                )
            else:
                n_usable += 1
                if is_known:
                    break
        # the log has no room for the other configs of every launch
        return first if not n_usable and kernel.others else None

    def _compile(self, wanted: dict[str, object], arch: int) -> Result:
        started = time.monotonic()
        where = f"{wanted['file']}: {wanted['kernel']}"
        try:
            if self._why_off or not self._is_loaded():
                return None
            assert self._line is not None
            header = {"kernel": wanted, "arch": arch}
            reply, _ = self._line.ask("compile", header, (), KERNEL_LIMIT_S)
        except TimeoutError:
            self._turn_off(f"{where} took over {KERNEL_LIMIT_S:g} s to compile")
        except (ProtocolError, PeerClosedError) as error:
            self._turn_off(f"compiling {where} ended the compiler ({type(error).__name__} {error})")
        else:
            if isinstance(reply, CompiledReply):
                return _named(reply.compiled, wanted["arguments"]) or reply.refused
            assert isinstance(reply, Raised)
            self.note(f"{where} was not compiled: {_said(reply)}")
        finally:
            self._spent_s += time.monotonic() - started
            if self._spent_s > PROBLEM_COMPILE_LIMIT_S:
                self._turn_off(f"compiling took over {PROBLEM_COMPILE_LIMIT_S:g} s in all")
        return None

    def _is_loaded(self) -> bool:
        """Whether the submission is imported with the real Triton; tried once."""
        if self._line is not None:
            return True
        cache = compile_cache.folder(self._file)
        header = {
            "file": str(self._file),
            "backend": "compile_only",
            "arch": self.arch,
            "cache": str(cache) if cache else "",
        }
        try:
            self._line = self._connect("compile_only")
            reply, _ = self._line.ask("load", header, (), LOAD_LIMIT_S)
        except LaunchError as error:
            self._turn_off(str(error))
            return False
        except (ProtocolError, PeerClosedError, TimeoutError) as error:
            self._turn_off(
                f"importing {self._file.name} with Triton: {type(error).__name__} {error}"
            )
            return False
        if isinstance(reply, Raised):
            self._turn_off(f"importing {self._file.name} with Triton raised {_said(reply)}")
            return False
        return True

    def _turn_off(self, why: str) -> None:
        """Compile no more: the simulator's verdicts stand alone."""
        if self._why_off:
            return
        self._why_off = why
        printed = self._line.printed() if self._line else ""
        said = f"; it printed: {printed[-300:]}" if printed else ""
        self.note(f"kernels were not (all) checked by the compiler: {why}{said}")
        self.close()


def _said(raised: Raised) -> str:
    return f"{raised.type}: {raised.message}"[:500]


def _dtypes(arguments: dict[str, Encoded]) -> str:
    return " ".join(str(v) for kind, v in arguments.values() if kind in {"aligned", "pointer"})


def _named(made: CompiledKernel | None, arguments: object) -> CompiledKernel | None:
    """With what it was compiled for: ``x_ptr float16, n 16, BLOCK=128``."""
    if made is None or not isinstance(arguments, dict):
        return None
    parts = []
    for name, (kind, value) in arguments.items():
        if kind in {"aligned", "pointer"}:
            parts.append(f"{name} {value}{'' if kind == 'aligned' else ' unaligned'}")
        elif kind in {"constant", "constant_float", "dtype"}:
            parts.append(f"{name}={value}")
    return made.model_copy(update={"signature": ", ".join(parts)[:1024]})
