"""Runs unchanged Triton kernels with NumPy: all programs of a grid at once, checked and counted.

Measures no time, and compiles nothing: what the real compiler makes of a kernel is its business.
"""

from grader.simulator.cache import Cache
from grader.simulator.dynamo import uncompiled
from grader.simulator.errors import CompilationError, DeadlockError, UnsupportedError
from grader.simulator.host import pretend_gpu
from grader.simulator.host_marks import is_cpu
from grader.simulator.imports import load_module
from grader.simulator.lift import declare, declared_dtype, lifted
from grader.simulator.log import ArgumentTraffic, Finding, Launch, Loop
from grader.simulator.recording import Log, recording
from grader.simulator.specialisation import Specialisation
from grader.simulator.tuning import use_config

__all__ = [
    "ArgumentTraffic",
    "Cache",
    "CompilationError",
    "DeadlockError",
    "Finding",
    "Launch",
    "Log",
    "Loop",
    "Specialisation",
    "UnsupportedError",
    "declare",
    "declared_dtype",
    "is_cpu",
    "lifted",
    "load_module",
    "pretend_gpu",
    "recording",
    "uncompiled",
    "use_config",
]
