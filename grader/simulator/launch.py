"""One kernel launch: all programs of the grid in one pass, split and rerun where they disagree."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import torch

from grader.simulator import (
    constants,
    dtypes,
    host_marks,
    index,
    memory,
    modes,
    promotion,
    races,
    redundancy,
    schedule,
    single_program,
    summary,
    tensor_descriptors,
    undefined,
)
from grader.simulator.constants import plain
from grader.simulator.dtypes import Array, dtype, pointer_type
from grader.simulator.launch_state import LaunchState
from grader.simulator.log import Finding, cache_to_model, is_recording
from grader.simulator.memory import Argument, Buffer, declared_type
from grader.simulator.specialisation import specialisation
from grader.simulator.tensor_descriptors import TensorDescriptor
from grader.simulator.values import Value, formula_value

# launching more than this along y or z fails on every NVIDIA GPU (compute capability table)
_MAX_GRID = (2**31 - 1, 65535, 65535)
# per kernel and argument names, which arguments needed full tracking the last time
_known_suspects: dict[tuple[Any, tuple[str, ...]], frozenset[str]] = {}


def grid_of(grid: Any, arguments: Mapping[str, Any]) -> tuple[int, int, int]:
    """The grid as three sizes.

    Raises:
        ValueError: If it is none.
    """
    given = plain(grid(arguments)) if callable(grid) else plain(grid)
    sizes = tuple(given) if isinstance(given, tuple | list) else (given,)
    try:
        sizes = tuple(operator.index(plain(n)) for n in sizes)
    except TypeError:
        raise ValueError(f"the grid must be one to three integers, not {given!r}") from None
    if not 1 <= len(sizes) <= len(_MAX_GRID):
        raise ValueError(f"the grid must be one to three integers, not {given!r}")
    sizes += (1,) * (3 - len(sizes))
    for n, limit in zip(sizes, _MAX_GRID, strict=True):
        if not 0 <= n <= limit:
            raise ValueError(f"grid {sizes}: each size must lie in 0..{limit} (CUDA's limit)")
    x, y, z = sizes
    return x, y, z


def launch(
    key: Any,
    name: str,
    definition: tuple[str, int],
    function: Callable[[LaunchState], Callable[..., Any]],
    arguments: Mapping[str, Any],
    constants: frozenset[str],
    grid: tuple[int, int, int],
    options: Mapping[str, Any],
    not_specialised: frozenset[str] = frozenset(),
) -> None:
    """Run a kernel for all programs of a grid and hand what was seen to the open logs.

    Args:
        key: What identifies the kernel between launches.
        name: For messages.
        definition: File and line of the kernel.
        function: Makes the Python function to run.
        arguments: By name, as given on the host.
        constants: Names of the arguments that are compile-time constants.
        grid: Programs along x, y, z.
        options: For the compiler: num_warps, num_stages, ...
        not_specialised: Names of the arguments that stay variables when they are 1.
    """
    # student modes end at the kernel
    with modes.bare():
        buffers: dict[tuple[int, torch.dtype], Buffer] = {}
        windows: list[Argument] = []
        known = _known(arguments, constants, not_specialised)
        cooked = {
            k: _cook(k, v, buffers, windows, constant=k in known) for k, v in arguments.items()
        }
        state = LaunchState(name, grid, is_recording(), definition)
        state.accesses = None if cache_to_model() is None else []
        compiled = None
        if state.checked and not dtypes.is_lifted():
            compiled = specialisation(name, definition, arguments, constants, options)
        coordinates = single_program.selected(name, grid, _coordinates(grid))
        n_programs = coordinates.shape[1]
        names = tuple(w.name for w in windows)
        suspects = _known_suspects.get((key, names), frozenset())
        state.tracked = frozenset(w.buffer.address for w in windows if w.name in suspects)
        # who touches what through another dtype does not show otherwise
        state.tracked |= memory.join(buffers.values()) if state.checked else frozenset()
        try:
            while n_programs:
                schedule.run_all(function(state), cooked, state, coordinates)
                wanted = _suspicious(state, buffers.values())
                # one program alone cannot race
                is_tracked = n_programs == 1 or wanted <= state.tracked
                if is_tracked and not _is_in_doubt(state, coordinates):
                    break
                # run again from the start, now logging every access to what looks like a race
                exact = state.exact_products or is_tracked
                state = schedule.restarted(state, buffers.values(), wanted)
                state.exact_products = exact
                _known_suspects[key, names] = frozenset(
                    w.name for w in windows if w.buffer.address in state.tracked
                )
            if state.tracked:
                state.findings += _races(function, cooked, state, buffers.values(), coordinates)
            # not for one program out of many, which somebody debugs
            if state.masked_loads and n_programs == math.prod(grid):
                fixed = tuple(f"{k}={arguments.get(k)!r}" for k in sorted(constants))
                trials = undefined.Trials(
                    (key, *fixed), function, cooked, state, buffers.values(), coordinates
                )
                state.findings += undefined.notes(trials)
        finally:
            summary.mark_written(buffers.values(), state)
            summary.publish(state, n_programs, windows, compiled)


def _is_in_doubt(state: LaunchState, coordinates: Array) -> bool:
    """Whether stores that seem to differ may be products that a GPU would give the same bits."""
    if not state.has_products or state.exact_products:
        return False
    found = [*state.findings, *(races.find_races(state, coordinates) if state.tracked else ())]
    return any(finding.kind == "race" for finding in found)


def _races(
    function: Callable[[LaunchState], Callable[..., Any]],
    cooked: dict[str, Any],
    state: LaunchState,
    buffers: Collection[Buffer],
    coordinates: Array,
) -> list[Finding]:
    """Races of the launch; where atomics seemed to prevent them, also of another order."""
    found = races.find_races(state, coordinates)
    if not any(finding.kind == "race" for finding in found):
        if state.syncs:
            other = schedule.in_other_order(function, cooked, state, buffers, coordinates)
            found += [f for f in races.find_races(other, coordinates) if f.kind == "race"]
        written = frozenset(b.address for b in buffers if b.was_written or b.had_atomics)
        axis = redundancy.repeated_axis(state, coordinates, written)
        if axis is not None:
            found = [redundancy.note(state, axis)]
    return found


@functools.lru_cache(maxsize=8)
def _coordinates(grid: tuple[int, int, int]) -> Array:
    """Program ids, shape (3, programs), x fastest."""
    serial = np.arange(grid[0] * grid[1] * grid[2], dtype=np.int64)
    if not serial.size:
        return np.zeros((3, 0), np.int32)
    x, y, _ = grid
    made = np.stack([serial % x, serial // x % y, serial // (x * y)]).astype(np.int32)
    made.flags.writeable = False
    return made


def _known(
    arguments: Mapping[str, Any], constants: frozenset[str], not_specialised: frozenset[str]
) -> frozenset[str]:
    """Names of what is a constant to the compiler: integers that are 1, too."""
    ones = {name for name, value in arguments.items() if type(value) is int and value == 1}
    return constants | (ones - not_specialised)


def _cook(
    name: str,
    given: Any,
    buffers: dict[tuple[int, torch.dtype], Buffer],
    windows: list[Argument],
    *,
    constant: bool,
) -> Any:
    """A host argument as the kernel sees it."""
    if isinstance(given, torch.Tensor):
        if constant:
            raise TypeError(f"argument {name} is a tl.constexpr: a tensor cannot be one")
        host_marks.check_device(name, given)
        address = given.untyped_storage().data_ptr()
        key = (address, given.dtype)
        if key not in buffers:
            same = [b.number for b in buffers.values() if b.address == address]
            buffers[key] = Buffer(given, declared_type(given), same[0] if same else len(buffers))
        window = Argument(name, given, buffers[key])
        windows.append(window)
        return formula_value(index.constant(window.base), pointer_type(window.buffer.dtype), window)
    if isinstance(given, TensorDescriptor):
        base = _cook(name, given.base, buffers, windows, constant=constant)
        return tensor_descriptors.from_host(name, given, base)
    if constant or given is None or isinstance(given, str | dtype):
        return constants.constant(given)
    if isinstance(given, tuple | list):
        return tuple(
            _cook(f"{name}[{i}]", item, buffers, windows, constant=constant)
            for i, item in enumerate(given)
        )
    return _number(given) if isinstance(given, bool | int | float | np.number) else plain(given)


def _number(given: Any) -> Value:
    t = promotion.argument_type(given)
    if type(given) is int:
        return formula_value(index.constant(given), t)
    return Value(np.array([given], t.compute), t)


def _suspicious(state: LaunchState, buffers: Any) -> frozenset[int]:
    """Buffers where one program may touch what another writes."""
    if not state.checked:
        return frozenset()
    mixed = {
        b.address
        for b in buffers
        if (b.was_read and b.was_written) or (b.had_atomics and (b.was_read or b.was_written))
    }
    return frozenset(mixed | state.suspects)
