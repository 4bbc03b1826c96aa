"""What the simulator saw of one call, as plain data: what workers report and `trace` shows.

Claims of a process that runs student code: checked for their form, and trusted no further.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(max_length=1024)]
Name = Annotated[str, Field(max_length=256)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Seen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class TrafficSeen(_Seen):
    """What one launch moved of one tensor argument."""

    read: Count = 0
    """Elements loaded; a masked-off lane loads nothing."""
    written: Count = 0
    """Elements stored."""
    atomics: Count = 0
    """Elements updated atomically; in neither of the others."""
    read_bytes: Count = 0
    written_bytes: Count = 0
    read_sectors: Count = 0
    """32-byte sectors touched, summed over tile accesses and programs."""
    written_sectors: Count = 0
    read_share: Share | None = None
    """Useful share of the sectors read: bytes asked for by bytes moved; None if nothing was."""
    written_share: Share | None = None
    dram_read_bytes: Count | None = None
    """By the cache model; None where it did not run."""
    dram_written_bytes: Count | None = None


class LoopSeen(_Seen):
    """How often the body of one loop ran in one launch."""

    where: Text
    """Such as ``softmax.py:31``."""
    source_line: Text
    turns: Count
    """Over all programs."""
    fewest: Count
    """Of one program."""
    most: Count


class LaunchSeen(_Seen):
    """One kernel launch in the simulator."""

    kernel: Text
    grid: tuple[Count, Count, Count]
    n_programs: Count
    n_passes: Count
    """How often the simulator ran the kernel's Python: says nothing about a GPU."""
    arguments: dict[Text, TrafficSeen]
    loops: tuple[LoopSeen, ...] = ()


Scalar = None | bool | int | float | Text
EncodedKind = Literal[
    "aligned",
    "pointer",
    "descriptor",
    "int",
    "bool",
    "float",
    "constant",
    "constant_float",
    "dtype",
    "tuple",
    "other",
]
Encoded = tuple[EncodedKind, Scalar | tuple[tuple[EncodedKind, Scalar], ...]]
"""Kind and value, as ``grader.simulator.specialisation`` says; a tuple holds more of them."""


class ConfigSeen(_Seen):
    """Another config of autotune: the arguments and options in which it differs."""

    text: Text
    arguments: dict[Text, Encoded]
    options: dict[Text, Scalar]


class SpecialisationSeen(_Seen):
    """What Triton would compile for a launch."""

    kernel: Text
    file: Text
    line: Count
    arguments: dict[Text, Encoded]
    options: dict[Text, Scalar]
    config: Text = ""
    """What autotune chose among several; else empty."""
    others: tuple[ConfigSeen, ...] = ()
    """What it did not choose; told once for each kernel of a call."""


class CompiledKernel(_Seen):
    """What the real compiler made of one launched kernel for one GPU; nothing was run."""

    kernel: Name
    target: Name
    """Architecture, such as ``sm_90``, as the compiled kernel says it."""
    signature: Annotated[str, Field(max_length=1024)] = ""
    """What it was compiled for: dtypes of the pointers, values of the constants."""
    num_warps: Count
    shared_bytes: Count
    """Shared memory of one block."""
    registers: Count | None
    """Per thread; None, as what follows from it, where the tool that counts them is missing."""
    spill_bytes: Count | None
    """Local memory per thread that holds registers for which there was no room."""
    blocks_per_sm: Count | None
    occupancy_pct: Annotated[float, Field(ge=0, le=100)] | None
    """Resident warps of an SM, of the most it can hold."""
    limited_by: Name
    """What allows no more blocks: registers, shared memory, warps or blocks."""
    load_bits: Count | None
    """Of the widest load of one thread from global memory; None where it loads nothing."""
    narrowest_load_bits: Count | None
    bulk_loads: bool
    """Whether whole tiles are loaded by the tensor memory accelerator."""
    tensor_cores: bool


class RefusedSeen(_Seen):
    """Why the compiler refuses a kernel, or it does not fit on the GPU."""

    kind: Literal["error", "assertion", "assembler", "resources"]
    """Of an "error" autotune says so; with any other it passes over the config."""
    file: Text
    line: Count
    """0 where the compiler does not say."""
    source_line: Annotated[str, Field(max_length=4096)]
    reason: Annotated[str, Field(max_length=4096)]


class FindingSeen(_Seen):
    """One finding of the simulator."""

    kind: Literal[
        "out_of_bounds", "uninitialised_read", "race", "deadlock", "never_written", "note"
    ]
    where: Text
    source_line: Text
    program: tuple[Count, Count, Count]
    text: Text
    advice: Text = ""
    """What to do about it."""
    count: Count


class AutotunedSeen(_Seen):
    """A kernel under @triton.autotune."""

    kernel: Text
    n_configs: Annotated[int, Field(ge=1)]
    """As many as its pruning leaves."""
    configs: tuple[Text, ...]
    """The first ones, in words."""


class Trace(_Seen):
    """One case of one problem, run once in the simulator."""

    problem: str
    case: str
    phase: Literal["forward", "backward", "both"]
    submission: str
    launches: tuple[LaunchSeen, ...]
    """Those of the phase, in order."""
    n_launches: Count
    """As many as there were; the first ones are listed."""
    findings: tuple[FindingSeen, ...]
    """Of the whole call."""
    read: Count
    """Elements over all launches of the call; an atomic counts as both."""
    written: Count
    allowed_read: Count | None
    """The problem's own upper bound; None for the backward alone, which has none."""
    allowed_written: Count | None
    min_bytes: Count
    """What no kernel can avoid moving in this phase, read and written."""
    cache_bytes: Count
    """Size of the modelled cache."""
    in_flight: Count
    """Programs that the model runs at once."""
    compiled: tuple[CompiledKernel, ...] = ()
    """By the real compiler, each kernel and config of the whole call for each GPU asked for."""
    compiler_notes: tuple[str, ...] = ()
    """What it refused, or why nothing was compiled."""
