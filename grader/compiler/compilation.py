"""Compiles one kernel for one GPU: what came out, or why the compiler refuses it."""

from __future__ import annotations

import ast
import gc
import linecache
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grader.compiler import machine_code
from grader.compiler.driver import CompileOnlyDriver
from grader.compiler.occupancy import LIMITS, MAX_THREADS, WARP_SIZE, Limits, occupancy

RefusalKind = Literal["error", "assertion", "assembler", "resources"]
_TOOL_TIMEOUT_S = 20
# how Triton quotes an exception of its own: AssertionError('Input shapes ...')
_QUOTED = re.compile(r"^\w+\((?P<text>['\"].*['\"]),?\)$", re.DOTALL)


@dataclass(frozen=True)
class Compiled:
    """What came out, as ``grader.scorecard.CompiledKernel`` explains it."""

    kernel: str
    target: str
    num_warps: int
    shared_bytes: int
    registers: int | None
    spill_bytes: int | None
    blocks_per_sm: int | None
    occupancy_pct: float | None
    limited_by: str
    load_bits: int | None
    narrowest_load_bits: int | None
    bulk_loads: bool
    tensor_cores: bool


@dataclass(frozen=True)
class Refusal:
    """Why a kernel does not compile, or does not fit on the GPU.

    Attributes:
        kind: Of an "error" autotune says so; any other it takes for a config that is too slow.
        line: 0 where the compiler does not say.
    """

    kind: RefusalKind
    file: str
    line: int
    source_line: str
    reason: str


def install(arch: int) -> CompileOnlyDriver:
    """Let Triton, imported here for the first time, compile for a GPU of this architecture.

    Raises:
        ImportError: If this Triton is not built as the versions that are known.
    """
    from triton.runtime import driver  # noqa: PLC0415  not everywhere installed

    ours = CompileOnlyDriver(arch)
    driver.set_active(ours)
    return ours


def compiled(
    kernel: Any, arguments: Mapping[str, Any], options: Mapping[str, Any], folder: Path
) -> Compiled | Refusal:
    """Compile for the GPU that the installed driver names.

    Args:
        kernel: A JITFunction.
        arguments: By name, as a launch would give them.
        options: num_warps, num_stages, ...
        folder: Of the submission; a refusal names a line in it.

    Raises:
        Exception: Whatever Triton raises beside its refusals: the compiler's fault, or ours.
    """
    from triton.compiler import CompilationError  # noqa: PLC0415  not everywhere installed
    from triton.compiler.errors import CompileTimeAssertionFailure  # noqa: PLC0415
    from triton.runtime.errors import OutOfResources, PTXASError  # noqa: PLC0415

    num_warps = options.get("num_warps", 1)
    if num_warps < 1 or num_warps & (num_warps - 1):
        return _at_definition(kernel, "error", f"num_warps={num_warps} is no power of two")
    try:
        made = kernel.warmup(grid=(1,), **arguments, **options)
    except CompilationError as error:
        deepest = _chain(error)[-1]
        is_assertion = isinstance(deepest, CompileTimeAssertionFailure)
        return _refused("assertion" if is_assertion else "error", kernel, error, folder)
    except (OutOfResources, PTXASError) as error:
        kind: RefusalKind = "resources" if isinstance(error, OutOfResources) else "assembler"
        return _at_definition(kernel, kind, _shortened(str(error)))
    return _described(kernel, made)


def _described(kernel: Any, made: Any) -> Compiled | Refusal:
    """What a compiled kernel needs; a refusal if no block of it fits on an SM."""
    metadata, ptx = made.metadata, made.asm["ptx"]
    target = metadata.target
    name = f"sm_{target.arch}"
    if not machine_code.target(ptx).startswith(name):
        raise RuntimeError(f"asked for {name}, got PTX for {machine_code.target(ptx)}")
    limits = LIMITS[target.arch]
    n_threads = metadata.num_warps * WARP_SIZE
    usage = _usage(made)
    reason = _too_much(metadata, limits, n_threads, usage, name)
    if reason:
        return _at_definition(kernel, "resources", reason)
    widths = machine_code.load_bits(ptx)
    resident = usage and occupancy(
        limits, n_threads=n_threads, registers=usage.registers, shared_bytes=metadata.shared
    )
    return Compiled(
        kernel=metadata.name,
        target=name,
        num_warps=metadata.num_warps,
        shared_bytes=metadata.shared,
        registers=usage.registers if usage else None,
        spill_bytes=max(0, usage.local_bytes - machine_code.declared_local_bytes(ptx))
        if usage
        else None,
        blocks_per_sm=resident.blocks if resident else None,
        occupancy_pct=round(resident.pct, 1) if resident else None,
        limited_by=resident.limited_by if resident else "",
        load_bits=max(widths, default=None),
        narrowest_load_bits=min(widths, default=None),
        bulk_loads=machine_code.has_bulk_loads(ptx),
        tensor_cores=machine_code.uses_tensor_cores(ptx),
    )


def _too_much(
    metadata: Any, limits: Limits, n_threads: int, usage: machine_code.Usage | None, target: str
) -> str:
    """What a launch would refuse for lack of resources, or ""."""
    advice = "smaller blocks or fewer num_stages need less"
    if metadata.shared > limits.block_shared_bytes:
        return (
            f"needs {metadata.shared} bytes of shared memory for a block, {target} has"
            f" {limits.block_shared_bytes}; {advice}"
        )
    if n_threads > MAX_THREADS:
        return (
            f"num_warps={metadata.num_warps} makes {n_threads} threads for a block, {target} has"
            f" {MAX_THREADS}; at most num_warps={MAX_THREADS // WARP_SIZE}"
        )
    if usage:
        resident = occupancy(
            limits, n_threads=n_threads, registers=usage.registers, shared_bytes=metadata.shared
        )
        if not resident.blocks:
            return (
                f"needs {usage.registers} registers for each of {n_threads} threads, more than"
                f" {target} has; smaller blocks or fewer num_warps need less"
            )
    return ""


def _usage(made: Any) -> machine_code.Usage | None:
    """Registers and local memory by cuobjdump, which lies in Triton's wheel; None without it."""
    from triton.backends import nvidia  # noqa: PLC0415  not everywhere installed

    tool = Path(str(nvidia.__file__)).parent / "bin" / "cuobjdump"
    cubin = next((str(p) for n, p in made.metadata_group.items() if n.endswith(".cubin")), "")
    try:
        done = subprocess.run(
            [str(tool), "-res-usage", cubin],
            capture_output=True,
            text=True,
            timeout=_TOOL_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return machine_code.usage(done.stdout, made.metadata.name)


def _chain(error: BaseException) -> list[Any]:
    """An error of the compiler and those it wraps: the call of a helper, the helper's own line."""
    from triton.compiler import CompilationError  # noqa: PLC0415  not everywhere installed

    chain = [error]
    while isinstance(chain[-1].__cause__, CompilationError):
        chain.append(chain[-1].__cause__)
    return chain


def _refused(kind: RefusalKind, kernel: Any, error: Any, folder: Path) -> Refusal:
    """The deepest line of the submission, with the deepest reason."""
    chain = _chain(error)
    reason = _reason(chain[-1])
    for level in reversed(chain):
        file, line = _place(level)
        if line and Path(file).is_relative_to(folder):
            return Refusal(kind, Path(file).name, line, _source_line(file, line), reason)
    return _at_definition(kernel, kind, reason)


def _reason(error: Any) -> str:
    said = error.error_message or str(error.__cause__ or "") or str(error)
    quoted = _QUOTED.match(said)
    if quoted:
        try:
            return str(ast.literal_eval(quoted["text"]))
        except (ValueError, SyntaxError):
            return str(said)
    return str(said)


def _place(error: Any) -> tuple[str, int]:
    """File and line; the error has the source of a function, and counts lines from its ``def``."""
    from triton.runtime.jit import JITFunction, get_jit_fn_file_line  # noqa: PLC0415

    line = getattr(error.node, "lineno", 0)
    if line:
        for function in gc.get_objects():
            if type(function) is JITFunction and function.src == error.src:
                file, first = get_jit_fn_file_line(function)
                return file, first + line - 1
    return "", 0


def _at_definition(kernel: Any, kind: RefusalKind, reason: str) -> Refusal:
    code = kernel.fn.__code__
    file, line = code.co_filename, code.co_firstlineno
    while linecache.getline(file, line).lstrip().startswith(("@", ")")):
        line += 1
    return Refusal(kind, Path(file).name, line, _source_line(file, line), reason)


def _source_line(file: str, line: int) -> str:
    return linecache.getline(file, line).strip()


def _shortened(said: str) -> str:
    """Of the assembler's output the lines that name an error."""
    lines = [line for line in said.splitlines() if "error" in line.lower()]
    return "\n".join(lines[:4]) or said[:500]
