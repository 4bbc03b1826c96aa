"""Runs one call of a compiled module in a process of its own, and reads what it tells."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from grader.simulator import host_marks, is_cpu

CALL_LIMIT_S = 10.0
MAX_TOLD = 8  # launches and findings
_PROBE_BYTES = 1 << 16  # a page of any system

_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64, torch.bool)


class UnsupportedError(Exception):
    """The host run does not know this dtype."""


@dataclass(frozen=True)
class Launch:
    """One ``kernel<<<grid, block>>>``; ``refused`` as CUDA refuses an impossible one."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    refused: bool


@dataclass(frozen=True)
class Finding:
    """One wrong access, the first of ``count`` at its place in the source.

    Attributes:
        kind: "out_of_bounds", "on_cpu" (memory of the host), "on_host" (by code that runs there),
            "uninitialised" or "race".
        tensor: Number of the tensor argument, then "result" or "scratch"; "" if none is near.
        n_elements: Of that tensor's memory.
        index: In elements of the access's size, negative before the tensor.
    """

    kind: str
    is_write: bool
    tensor: str
    n_elements: int
    index: int
    count: int
    kernel: str
    block: tuple[int, ...]
    thread: tuple[int, ...]
    line: int


@dataclass
class Run:
    """What one call did.

    Attributes:
        result: A tensor, a number or None.
        error: What TORCH_CHECK or an exception said.
        ended: How the process ended before its time, or "".
        pending: The error of a launch that nobody asked for, or "".
    """

    result: Any = None
    error: str | None = None
    misfit: str = ""
    ended: str = ""
    timed_out: bool = False
    pending: str = ""
    launches: list[Launch] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_troubled(self) -> bool:
        """Whether there is something wrong to tell."""
        return bool(self.ended or self.pending or self.findings)

    def told(self) -> dict[str, Any]:
        """What goes into a log."""
        return {
            "ended": self.ended,
            "timed_out": self.timed_out,
            "pending": self.pending,
            "launches": [asdict(launch) for launch in self.launches[:MAX_TOLD]],
            "findings": [asdict(finding) for finding in self.findings[:MAX_TOLD]],
        }


def call(program: Path, function: str, arguments: Sequence[Any]) -> Run:
    """Call a function of the module; tensors are changed in place as it changes them.

    Raises:
        UnsupportedError: If an argument is of a kind that the host run does not know.
        OSError: If there is no room on the disk for what goes in and comes out.
    """
    # neither the bytes of a tensor nor the making of one are the pretended GPU's business
    with torch._C.DisableTorchFunction():  # noqa: SLF001  has no public name
        folder = Path(tempfile.mkdtemp(prefix="call-", dir=program.parent))
        try:
            return _call(program, function, arguments, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _call(program: Path, function: str, arguments: Sequence[Any], folder: Path) -> Run:
    request, reply, data = (folder / name for name in ("request", "reply", "data"))
    request.write_bytes(
        b"".join([f"{function} {len(arguments)}\n".encode(), *map(_sent, arguments)])
    )
    run = Run()
    process = subprocess.Popen(
        [program, request, reply, data], stdin=subprocess.DEVNULL, process_group=0
    )
    try:
        code = process.wait(CALL_LIMIT_S)
    except subprocess.TimeoutExpired:
        run.ended, run.timed_out = f"it took over {CALL_LIMIT_S:g} s", True
    else:
        if code < 0:
            run.ended = f"signal {-code} ({signal.Signals(-code).name})"
        elif code:
            run.ended = f"exit {code}"
    finally:
        end_group(process)
    # on a disk that is full the process may not have told all, so its answer is none: raises OSError
    (folder / "probe").write_bytes(bytes(_PROBE_BYTES))
    text = reply.read_text(errors="replace") if reply.exists() else ""
    lines = [line.split(" ") for line in text.splitlines()]
    if not run.ended and lines[-1:] != [["done"]]:
        run.ended = "it ended the process"
    tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
    _read_reply(run, lines, tensors, program, data)
    return run


def end_group(process: subprocess.Popen[Any]) -> None:
    """End a process that leads a group, and whatever it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _sent(value: Any) -> bytes:
    if isinstance(value, torch.Tensor):
        if value.dtype not in _DTYPES:
            raise UnsupportedError(f"a tensor of dtype {value.dtype}")
        flat = _bytes_of(value)
        sizes = " ".join(map(str, (*value.shape, *value.stride())))
        head = (
            f"tensor {_DTYPES.index(value.dtype)} {int(not is_cpu(value))} {value.storage_offset()}"
            f" {flat.numel()} {value.ndim} {sizes}\n"
        )
        # one space after the sizes is skipped, an empty list of them leaves two
        return head.replace(" \n", "\n").encode() + flat.numpy().tobytes()
    if isinstance(value, (bool, int)):
        return f"integer {int(value)}\n".encode()
    if isinstance(value, float):
        return f"real {value!r}\n".encode()
    raise TypeError(f"incompatible function arguments: {type(value).__name__}")


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def _read_reply(
    run: Run, lines: list[list[str]], tensors: list[torch.Tensor], program: Path, data: Path
) -> None:
    found = [rest for kind, *rest in lines if kind == "finding"]
    n_bytes = {i: tensor.untyped_storage().nbytes() for i, tensor in enumerate(tensors)}
    result_id = -1
    for kind, *rest in lines:
        if kind == "launch":
            *sizes, refused = map(int, rest[:7])
            run.launches.append(Launch(rest[7], tuple(sizes[:3]), tuple(sizes[3:]), bool(refused)))
        elif kind == "tensor":
            numbers = list(map(int, rest))
            result_id = numbers[2]
            n_bytes[result_id] = numbers[4]
            run.result = _returned(numbers, tensors, data.read_bytes())
        elif kind in {"integer", "real", "none"}:
            run.result = {"integer": int, "real": float}[kind](rest[0]) if rest else None
            _write_back(tensors, data.read_bytes())
        elif kind == "signal" and rest[1] == "1":
            block, thread = ", ".join(rest[2:5]), ", ".join(rest[5:8])
            run.ended += f" in block ({block}), thread ({thread})"
        else:
            _read_words(run, kind, " ".join(rest))
    at = _lines_of([rest[4] for rest in found], program)
    for rest, line in zip(found, at, strict=True):
        run.findings.append(_finding(rest, line, len(tensors), result_id, n_bytes))


def _read_words(run: Run, kind: str, words: str) -> None:
    if kind == "error":
        run.error = words
    elif kind == "pending":
        run.pending = words
    elif kind in {"misfit", "unknown"}:
        run.misfit = kind


def _finding(
    rest: list[str], line: int, n_arguments: int, result_id: int, n_bytes: dict[int, int]
) -> Finding:
    kind, access, region, size, _, count, offset, *places, kernel = rest
    number, width = int(region), int(size)
    tensor = "" if number < 0 else "scratch"
    if 0 <= number < n_arguments:
        tensor = str(number)
    elif number == result_id:
        tensor = "result"
    return Finding(
        kind=kind,
        is_write=access == "write",
        tensor=tensor,
        n_elements=n_bytes.get(number, 0) // width,
        index=int(offset) // width,
        count=int(count),
        kernel="" if kernel == "-" else kernel,
        block=tuple(map(int, places[:3])),
        thread=tuple(map(int, places[3:])),
        line=line,
    )


def _returned(numbers: list[int], tensors: list[torch.Tensor], data: bytes) -> torch.Tensor:
    dtype, is_cuda, number, offset, n_bytes, n_axes, *sizes = numbers
    used = _write_back(tensors, data)
    if number < len(tensors):
        flat = _bytes_of(tensors[number])
    else:
        flat = torch.frombuffer(bytearray(data[used : used + n_bytes] or b"\0"), dtype=torch.uint8)
        flat = flat[:n_bytes].clone()
    storage = torch.empty(0, dtype=_DTYPES[dtype]).set_(flat.untyped_storage())
    made = storage.as_strided(sizes[:n_axes], sizes[n_axes:], offset)
    if not is_cuda:
        host_marks.mark_cpu(made)
    return made


def _write_back(tensors: list[torch.Tensor], data: bytes) -> int:
    """Give the arguments the values that the call left in them; how many bytes that took."""
    at = 0
    for tensor in tensors:
        flat = _bytes_of(tensor)
        if flat.numel():
            after = data[at : at + flat.numel()]
            flat.copy_(torch.frombuffer(bytearray(after), dtype=torch.uint8))
        at += flat.numel()
    return at


def _lines_of(addresses: list[str], program: Path) -> list[int]:
    """Source lines of addresses in the program; 0 where nobody can tell."""
    if not addresses:
        return []
    # an address is where the access's call returns to: one byte before lies in the access
    asked = [hex(int(address) - 1) for address in addresses]
    try:
        done = subprocess.run(
            ["addr2line", "-e", str(program), *asked],
            capture_output=True,
            text=True,
            timeout=CALL_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return [0] * len(addresses)
    lines = []
    for place in done.stdout.splitlines():
        file, _, line = place.partition(" ")[0].rpartition(":")
        lines.append(int(line) if file.endswith("cuda.cu") and line.isdigit() else 0)
    return lines
