"""The program of a worker process, and the only importer of student code.

Holds nothing secret: no problem.py (but in the role "baseline", which never loads a submission), no
expected output, tolerance or result file. Answers one request at a time until the line closes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import math
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from grader import scenarios, simulator
from grader.compiler import compilation, kernels
from grader.compiler.driver import CompileOnlyDriver
from grader.measure import implementations, roofline, stopwatch
from grader.measure.timed_calls import TimedCalls
from grader.sandbox import calls, device_buffer, zygote
from grader.sandbox.confine import confine
from grader.sandbox.protocol import Channel, Message, Packed, PeerClosedError, pack
from grader.sandbox.raised import describe
from grader.spec import InputSpec

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPTED_NOISE = 0.002  # as measured times scatter: 0.1 to 0.3 % on an H200


class Worker:
    """What one worker holds between requests: the loaded submission and the prepared benchmark."""

    def __init__(self, role: str) -> None:
        self.role = role
        self.loaded: calls.Loaded | None = None
        self.scenario: Callable[[str, Mapping[str, Any]], scenarios.Log] | None = None
        self.timed: TimedCalls | None = None
        self.driver: CompileOnlyDriver | None = None
        self.folder = ROOT
        self.kernels: dict[kernels.Place, Any] = {}

    def answer(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Do what one request asks.

        Raises whatever student code raises.
        """
        operation: Callable[..., calls.Answer] = getattr(self, f"do_{header['op']}")
        return operation(header, tensors)

    def do_ready(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Use the device once, before there is a submission that could be blamed for it."""
        if header["backend"] == "cuda":
            torch.zeros(1, device="cuda")
        return calls.Answer({}, [])

    def do_load(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Import a submission: file, entry, backend, lift."""
        path = Path(header["file"])
        self.loaded = self.timed = self.scenario = None
        if header["backend"] == "compile_only":
            return self._load_to_compile(path, header)
        if header["scenario"] is not None:
            return self._load_scenario(path, header)
        module = _import(path, header["backend"])
        entry = getattr(module, header["entry"], None)
        if not callable(entry):
            # shown as an error of the import
            raise ImportError(f"{path.name} defines no function {header['entry']}")  # noqa: TRY004
        self.loaded = calls.Loaded(entry, header["backend"], header["lift"], path.parent)
        return calls.Answer({}, [])

    def _load_scenario(self, path: Path, header: Mapping[str, Any]) -> calls.Answer:
        # first the scenario, so that it is not imported through what a submission did to the imports
        scenario = _module(Path(header["scenario"]), "scenario")
        _find_beside(path)
        submission = _module(path, f"submission_{path.stem}")
        for entry in scenario.ENTRIES:
            if not callable(getattr(submission, entry, None)):
                # shown as an error of the import
                raise ImportError(f"{path.name} defines no function {entry}")  # noqa: TRY004
        self.scenario = lambda case, arguments: scenario.run(submission, case, arguments)
        self.loaded = calls.Loaded(scenario.run, header["backend"], lift=False, folder=path.parent)
        return calls.Answer({}, [])

    def _load_to_compile(self, path: Path, header: Mapping[str, Any]) -> calls.Answer:
        if header["cache"]:
            os.environ["TRITON_CACHE_DIR"] = header["cache"]
        self.driver = compilation.install(header["arch"])
        self.folder = path.parent
        # a file may ask for the GPU while it is imported
        with simulator.pretend_gpu():
            _import(path, "compile_only")
        self.kernels = kernels.found(self.folder)
        return calls.Answer({}, [])

    def do_compile(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Compile one kernel for one architecture; a refusal is an answer."""
        if self.driver is None:
            raise RuntimeError("nothing is loaded to be compiled")
        self.driver.arch = header["arch"]
        wanted = header["kernel"]
        kernel = kernels.find(self.kernels, wanted["file"], wanted["line"], wanted["kernel"])
        arguments = kernels.all_decoded(wanted["arguments"])
        made = compilation.compiled(kernel, arguments, wanted["options"], self.folder)
        if isinstance(made, compilation.Refusal):
            return calls.Answer({"refused": asdict(made)}, [])
        return calls.Answer({"compiled": asdict(made)}, [])

    def do_forward(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Outputs of one call."""
        loaded = self._submission()
        torch.set_float32_matmul_precision(header["matmul_precision"])
        given = calls.arguments(header["arguments"], tensors, loaded)
        with simulator.use_config(header["autotune_config"]):
            return calls.forward(loaded, given, _cache(header), header.get("saved_shape"))

    def do_vjp(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Outputs and gradients of one call."""
        loaded = self._submission()
        torch.set_float32_matmul_precision(header["matmul_precision"])
        given = calls.arguments(header["arguments"], tensors, loaded)
        grads = {n: t for n, t in tensors.items() if n.startswith("grad_output:")}
        with simulator.use_config(header["autotune_config"]):
            return calls.vjp(loaded, given, grads, _cache(header))

    def do_scenario(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Run one case of a scenario; what it saw."""
        if self.scenario is None:
            raise RuntimeError("no scenario is loaded")
        log = scenarios.plain(self.scenario(header["case"], header["arguments"]))
        n_bytes = len(json.dumps(log))
        if n_bytes > scenarios.MAX_LOG_BYTES:
            raise ValueError(f"what was returned takes {n_bytes} bytes to tell, far too many")
        return calls.Answer({"log": log}, [])

    def do_prepare(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Compile, tune and warm up one benchmark case of the entry or of a baseline."""
        function = self._entry() if self.role == "student" else _baseline(header)
        specs = [InputSpec(**_tuples(spec)) for spec in header["inputs"]]
        clock = _stopwatch(header["stopwatch"])
        self.timed = None  # frees the last case's tensors before the next is prepared
        self.timed = TimedCalls(function, specs, header["scalars"], header["phase"], clock)
        return calls.Answer(asdict(self.timed.prepare()), [])

    def do_call(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Time one call on inputs made from the nonce."""
        called = asdict(self._prepared().call(header["nonce"]))
        if not math.isfinite(called["event_ms"]):
            raise ValueError("the measured time is not a number")
        return calls.Answer(called, [])

    def do_fetch(self, header: Mapping[str, Any], tensors: Mapping[str, Packed]) -> calls.Answer:
        """Outputs and gradients of the preceding call."""
        fetched = self._prepared().fetch()
        named = {f"output{i}": tensor.contiguous() for i, tensor in enumerate(fetched.outputs)}
        named |= {f"grad{i}": tensor.contiguous() for i, tensor in enumerate(fetched.grads)}
        if "handle" in header:
            # a machine where processes cannot share device memory is no fault of the submission
            with contextlib.suppress(OSError):
                return calls.Answer(_to_device(header["handle"], header["n_bytes"], named), [])
        return calls.Answer({}, [pack(name, tensor.cpu()) for name, tensor in named.items()])

    def _submission(self) -> calls.Loaded:
        if self.loaded is None:
            raise RuntimeError("nothing is loaded")
        return self.loaded

    def _entry(self) -> Callable[..., object]:
        loaded = self._submission()
        if loaded.backend == "cuda":
            return loaded.entry

        def simulated(*arguments: object) -> object:
            with simulator.pretend_gpu():
                return loaded.entry(*arguments)

        return simulated

    def _prepared(self) -> TimedCalls:
        if self.timed is None:
            raise RuntimeError("nothing is prepared")
        return self.timed


def _cache(header: Mapping[str, Any]) -> simulator.Cache | None:
    return simulator.Cache(**header["cache"]) if header.get("cache") else None


def _tuples(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in spec.items()}


def _stopwatch(kind: str | float) -> stopwatch.Stopwatch:
    """The GPU's clock, or made-up times around so many milliseconds for runs without a GPU."""
    if isinstance(kind, str):
        return stopwatch.CudaStopwatch(torch.device(kind))
    return stopwatch.ScriptedStopwatch(float(kind), noise=SCRIPTED_NOISE)


def _to_device(handle: str, n_bytes: int, named: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Put tensors into the verifier's device memory; say where they are, or what is needed."""
    needs_bytes = device_buffer.room([t.numel() * t.element_size() for t in named.values()])
    if needs_bytes > n_bytes:
        return {"needs_bytes": needs_bytes}
    places = device_buffer.write(handle, n_bytes, list(named.values()))
    return {
        "on_device": [
            {
                "name": name,
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "shape": list(tensor.shape),
                "at": at,
            }
            for (name, tensor), at in zip(named.items(), places, strict=True)
        ]
    }


def _baseline(header: Mapping[str, Any]) -> Callable[..., object]:
    if "probe" in header:
        return roofline.probe(header["probe"])
    # a submission must not find this module loaded, and through it the problem's oracle
    discover = importlib.import_module("grader.discover")
    problem = discover.load_problem(header["problem"], Path(header["reference"]))
    return implementations.baseline(problem, header["impl"])


def _import(path: Path, backend: str) -> ModuleType:
    _find_beside(path)
    name = f"submission_{path.stem}"
    if backend == "sim":
        with simulator.pretend_gpu():
            return simulator.load_module(path, name=name)
    return _module(path, name)


def _find_beside(path: Path) -> None:
    """Let a submission import its own modules."""
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last: a student's profile.py must not stand in for Python's


def _module(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def serve(line: socket.socket, exchange_fd: int, *, backend: str, role: str) -> None:
    """Confine this process, then answer requests until the line closes."""
    confine(limit_memory=backend != "cuda")
    if role == "student":
        # the repository holds solutions: a submission's imports do not find them
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != ROOT]
    channel, worker = Channel(line, exchange_fd), Worker(role)
    while True:
        try:
            request = channel.receive()
        except PeerClosedError:
            return
        reply = reply_to(worker, request)
        channel.send(reply.header, reply.tensors)


def reply_to(
    worker: Worker, request: Message, *, let_through: tuple[type[BaseException], ...] = ()
) -> calls.Answer:
    """The whole reply to a request: what it asks for, or how student code ended instead.

    Raises only what is let through.
    """
    op, seq = request.header["op"], request.header["seq"]
    folder = Path(request.header.get("file", "/")).parent if op == "load" else None
    if folder is None and worker.loaded is not None:
        folder = worker.loaded.folder
    try:
        answer = worker.answer(request.header, request.tensors)
    except let_through:
        raise
    except BaseException as error:  # noqa: BLE001  the end of student code of any kind is an answer
        stage = "import" if op == "load" else "call"
        raised = _described(error, stage, folder or ROOT)
        told = {"seq": seq, "op": "raised", **raised, "sticky": _cuda_is_broken()}
        return calls.Answer(told, [])
    return calls.Answer({"seq": seq, "op": op, **answer.header}, answer.tensors)


def _described(error: BaseException, stage: str, folder: Path) -> dict[str, str]:
    try:
        return describe(error, stage, folder)
    except BaseException:  # noqa: BLE001  a student's exception class may refuse to be looked at
        said = "an exception that cannot be described"
        return {
            "stage": stage,
            "kind": "exception",
            "type": "Exception",
            "message": said,
            "traceback": "",
        }


def _cuda_is_broken() -> bool:
    """Whether the CUDA context is lost, as after an illegal access; then only a restart helps."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def main(arguments: list[str]) -> None:
    """Entry of the process: ``zygote FD``, or ``fresh LINE EXCHANGE OUTPUT SCRATCH BACKEND ROLE``."""
    torch.set_num_threads(1)
    mode, *rest = arguments
    if mode == "zygote":
        control = socket.socket(fileno=int(rest[0]))
        control.sendall(b"ready")
        zygote.serve(control, lambda line, fd: serve(line, fd, backend="sim", role="student"))
        return
    line, exchange, output, scratch, backend, role = rest
    zygote.enter(Path(scratch), int(output))
    serve(socket.socket(fileno=int(line)), int(exchange), backend=backend, role=role)
