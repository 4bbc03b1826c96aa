"""Seven small models of a GPU: occupancy, tile and softmax traffic, waves, roofline, banks, sectors.

The figures of the course notes are cases by name; other cases draw their arguments. What is wanted
is found here by trying out or counting what the student's formula must give. The student's process
knows the arguments alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import torch

from grader.scenarios import Log, Mistake, flat, is_number, rounds, shown
from grader.spec import Case, Inputs, scenario, scenario_case

# one SM of an H100 or H200: CUDA C++ Programming Guide, compute capability 9.0
WARPS, BLOCKS, SHARED_BYTES, PART_REGISTERS = 64, 32, 228 * 1024, 65536 // 4

N_ROUNDS = 12  # calls of a case that draws its arguments
MAX_TOLD_CHARS = 200
RTOL = 1e-6  # of shares and intensities: another order of operations, no rounding to digits

_RETURNED = {
    "occupancy": ("n_blocks", "share", "limited_by"),
    "tile_traffic": ("grid_m", "grid_n", "trips", "read", "written"),
    "softmax_traffic": ("read", "written"),
    "waves": ("n_waves", "share"),
    "intensity": ("flops_per_byte", "tflops", "limited_by"),
    "bank_conflicts": ("passes",),
    "sectors": ("sectors",),
}

Wanted = tuple[tuple[Any, ...], str]
"""What a function must return, where a set names several right words, and how it comes about."""


def occupancy(n_threads: int, registers: int, shared_bytes: int) -> Wanted:
    """Puts block after block on an SM of an H100, until one of the limits is passed."""
    warps = math.ceil(n_threads / 32)
    warp_registers = 256 * math.ceil(registers * 32 / 256)
    shared = 128 * math.ceil((shared_bytes + 1024) / 128)
    fits: dict[str, Callable[[int], bool]] = {
        # warps are dealt to the four parts of the SM in turn
        "registers": lambda n: math.ceil(n * warps / 4) * warp_registers <= PART_REGISTERS,
        "shared memory": lambda n: n * shared <= SHARED_BYTES,
        "warps": lambda n: n * warps <= WARPS,
        "blocks": lambda n: n <= BLOCKS,
    }
    allowed = {what: max(n for n in range(257) if fit(n)) for what, fit in fits.items()}
    n_blocks = min(allowed.values())
    limits = frozenset(what for what, n in allowed.items() if n == n_blocks)
    told = ", ".join(f"{what} {n}" for what, n in allowed.items())
    how = (
        f"blocks that each limit allows: {told}"
        f" ({warps} warps a block, {warp_registers} registers a warp, {shared} bytes a block)"
    )
    return (n_blocks, n_blocks * warps / WARPS, limits), how


def tile_traffic(m: int, n: int, k: int, block_m: int, block_n: int, block_k: int) -> Wanted:
    """Adds up what each program loads and stores."""
    rows = [min(block_m, m - start) for start in range(0, m, block_m)]
    columns = [min(block_n, n - start) for start in range(0, n, block_n)]
    read = sum(r * k + k * c for r in rows for c in columns)
    written = sum(r * c for r in rows for c in columns)
    trips = len(range(0, k, block_k))
    how = (
        f"all {m * k} elements of A are loaded by each of the {len(columns)} columns of programs,"
        f" all {k * n} of B by each of the {len(rows)} rows of programs"
    )
    return (len(rows), len(columns), trips, read, written), how


def softmax_traffic(m: int, n: int, fused: bool) -> Wanted:
    """Adds up operation by operation; M and MN stand for one column and the matrix."""
    matrix = {"fused": ("MN", "MN")}
    operations = {
        "max": ("MN", "M"),
        "subtract": ("MN M", "MN"),
        "exp": ("MN", "MN"),
        "sum": ("MN", "M"),
        "divide": ("MN M", "MN"),
    }
    size = {"M": m, "MN": m * n}
    steps = matrix if fused else operations
    read = sum(size[what] for inputs, _ in steps.values() for what in inputs.split())
    written = sum(size[output] for _, output in steps.values())
    told = "; ".join(
        f"{op} reads {i.replace(' ', ' + ')}, writes {o}" for op, (i, o) in steps.items()
    )
    return (read, written), told


def waves(n_programs: int, n_sms: int, blocks_per_sm: int) -> Wanted:
    """Starts wave after wave until no program is left."""
    places, left, n_waves = n_sms * blocks_per_sm, n_programs, 0
    while left > 0:
        left -= places
        n_waves += 1
    how = f"a wave has {places} places, the last one leaves {-left} of them empty"
    return (n_waves, float(Fraction(n_programs, n_waves * places))), how


def intensity(flops: int, n_bytes: int, peak_tflops: float, bandwidth_tbps: float) -> Wanted:
    """Compares the time that the memory needs with the time that the arithmetic needs."""
    memory_s, compute_s = n_bytes / bandwidth_tbps / 1e12, flops / peak_tflops / 1e12
    slower_s = max(memory_s, compute_s)
    limits = {"memory": memory_s, "compute": compute_s}
    limited_by = frozenset(what for what, took in limits.items() if took >= slower_s * (1 - RTOL))
    how = f"the memory needs {memory_s * 1e6:.4g} us, the arithmetic {compute_s * 1e6:.4g} us"
    return (flops / n_bytes, flops / slower_s / 1e12, limited_by), how


def bank_conflicts(addresses: Sequence[int]) -> Wanted:
    """Serves pass after pass: each bank delivers the first word that is still asked of it."""
    waiting, passes = [address // 4 for address in addresses], 0
    while waiting:
        delivered: dict[int, int] = {}
        for word in waiting:
            delivered.setdefault(word % 32, word)
        waiting = [word for word in waiting if delivered[word % 32] != word]
        passes += 1
    words = {address // 4 for address in addresses}
    busiest = max(range(32), key=lambda bank: sum(word % 32 == bank for word in words))
    asked = sorted(word for word in words if word % 32 == busiest)
    how = f"bank {busiest} must deliver {len(asked)} different words: {', '.join(map(str, asked))}"
    return (passes,), how


def sectors(addresses: Sequence[int], n_bytes: int) -> Wanted:
    """Looks at every byte."""
    touched = sorted({(a + i) // 32 for a in addresses for i in range(n_bytes)})
    return (len(touched),), f"sectors touched, by number: {', '.join(map(str, touched))}"


MODELS: dict[str, Callable[..., Wanted]] = {
    "occupancy": occupancy,
    "tile_traffic": tile_traffic,
    "softmax_traffic": softmax_traffic,
    "waves": waves,
    "intensity": intensity,
    "bank_conflicts": bank_conflicts,
    "sectors": sectors,
}


def make_inputs(case: Case, rng: torch.Generator) -> Inputs:
    """The case's own arguments, or some that are drawn; named "round.name" or "round.name.index"."""
    if case.scalars:
        return dict(case.scalars)
    function = case.id.partition("-")[0]
    return flat(*(_drawn(function, _Dice(rng)) for _ in range(N_ROUNDS)))


class _Dice:
    def __init__(self, rng: torch.Generator) -> None:
        self.rng = rng

    def between(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=self.rng))

    def one_of(self, *values: int) -> int:
        return values[self.between(0, len(values) - 1)]


def _drawn(function: str, dice: _Dice) -> dict[str, Any]:
    """Arguments of one call; small enough that the wanted value can be counted."""
    between, one_of = dice.between, dice.one_of
    if function in {"bank_conflicts", "sectors"}:
        return _drawn_addresses(function, dice)
    if function == "waves":
        n_sms, per_sm = one_of(108, 132, 148), between(1, 8)
        off = one_of(0, 1, -1, between(1, n_sms))  # from a number that fills its waves
        return _grid(between(1, 5) * n_sms * per_sm + off, n_sms, per_sm)
    if function == "tile_traffic":
        m, n, k = (one_of(between(1, 64), between(65, 2000)) for _ in range(3))
        return _product(m, n, k, (1 << between(4, 8), 1 << between(4, 8), 1 << between(4, 8)))
    return {
        "occupancy": {
            "n_threads": one_of(between(1, 64), 32 * between(1, 32), between(1, 1024)),
            "registers": one_of(between(1, 32), between(33, 255)),
            "shared_bytes": one_of(0, 1024 * between(0, 60), between(0, 227 * 1024)),
        },
        "softmax_traffic": {
            "m": between(1, 5000),
            "n": between(1, 5000),
            "fused": bool(between(0, 1)),
        },
        "intensity": {
            "flops": 10 ** between(6, 12) + between(1, 10**6),
            "n_bytes": 10 ** between(6, 9) + between(1, 10**6),
            "peak_tflops": float(between(10, 1000)),
            "bandwidth_tbps": between(5, 80) / 10,
        },
    }[function]


def _drawn_addresses(function: str, dice: _Dice) -> dict[str, Any]:
    start, stride, n_threads = dice.between(0, 500), dice.between(0, 40), dice.between(1, 32)
    lanes = [start + stride * i for i in range(n_threads)]
    if dice.between(0, 1):
        lanes = [start + dice.between(0, 150) for _ in range(n_threads)]
    if function == "bank_conflicts":
        return {"addresses": [4 * lane for lane in lanes]}
    return {
        "addresses": lanes,
        "n_bytes": dice.one_of(1, 2, 4, 8, 12, 16, dice.between(1, 64)),
    }


def judge(case: Case, arguments: Inputs, log: Log) -> Mistake | None:
    """The first call whose answer is not the wanted one, with what decides it."""
    function, calls = case.id.partition("-")[0], rounds(arguments)
    returned = log.get("returned")
    if not isinstance(returned, list) or len(returned) != len(calls):
        what = f"the log of the scenario does not hold {len(calls)} answers"
        return Mistake(what, verdict="protocol_error")
    for given, got in zip(calls, returned, strict=True):
        wanted, how = MODELS[function](**given)
        mistake = _compared(_RETURNED[function], got, wanted)
        if mistake is not None:
            call = f"{function}({', '.join(f'{k}={v}' for k, v in given.items())})"
            return Mistake(mistake.what, (call, *mistake.details, how), mistake.verdict)
    return None


def _compared(names: Sequence[str], got: Any, wanted: tuple[Any, ...]) -> Mistake | None:
    if len(names) == 1 and not isinstance(got, list):
        got = [got]
    if not isinstance(got, list) or len(got) != len(names):
        what = f"got {_told(got)}, want a tuple ({', '.join(names)})"
        return Mistake(what, verdict="wrong_type")
    wrong = [name for name, g, w in zip(names, got, wanted, strict=True) if not _is_right(g, w)]
    if not wrong:
        return None
    what = f"{' and '.join(wrong)}: got {_told(got)}, want {_told(wanted)}"
    return Mistake(what, tuple(_hints(names, got, wanted)))


def _is_right(got: Any, want: Any) -> bool:
    if isinstance(want, frozenset):
        return isinstance(got, str) and got in want
    if isinstance(want, float):
        return is_number(got) and math.isclose(got, want, rel_tol=RTOL)
    return is_number(got) and bool(got == want)


def _told(values: Any) -> str:
    """One tuple in words; a set is a choice."""
    if not isinstance(values, list | tuple):
        return _cut(shown(values))
    items = [
        " or ".join(map(repr, sorted(v))) if isinstance(v, frozenset) else shown(v) for v in values
    ]
    return _cut(items[0] if len(items) == 1 else f"({', '.join(items)})")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TOLD_CHARS else f"{text[:MAX_TOLD_CHARS]} ..."


def _hints(names: Sequence[str], got: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    for name, value, want in zip(names, got, wanted, strict=True):
        if name != "share" or not is_number(value) or _is_right(value, want):
            continue
        if _is_right(value / 100, want):
            return ["a share is a number from 0 to 1, not per cent"]
        if abs(value - want) < 0.01:  # noqa: PLR2004  as close as two digits are
            return ["return the share as it is, not rounded"]
    return []


def _case(name: str, why: str, *rounds: Mapping[str, Any]) -> Case:
    return scenario_case(name, why=why, scalars=flat(*rounds), timeout_s=10)


def _block(n_threads: int, registers: int, shared_bytes: int = 0) -> dict[str, int]:
    return {"n_threads": n_threads, "registers": registers, "shared_bytes": shared_bytes}


def _product(m: int, n: int, k: int, block: tuple[int, int, int]) -> dict[str, int]:
    blocks = dict(zip(("block_m", "block_n", "block_k"), block, strict=True))
    return {"m": m, "n": n, "k": k} | blocks


def _grid(n_programs: int, n_sms: int, blocks_per_sm: int = 1) -> dict[str, int]:
    return {"n_programs": n_programs, "n_sms": n_sms, "blocks_per_sm": blocks_per_sm}


def _lanes(start: int, stride: int, n_threads: int = 32) -> dict[str, Any]:
    return {"addresses": [start + stride * i for i in range(n_threads)]}


# H200, data sheet: 989 TFLOP/s of dense bfloat16, 4.8 TB/s
_H200 = {"peak_tflops": 989.0, "bandwidth_tbps": 4.8}

CASES = (
    _case(
        "occupancy-registers",
        "the example of the course notes: 128 threads of 160 registers, 3 blocks and 19 %",
        _block(128, 160),
    ),
    _case(
        "occupancy-exercise",
        "exercise 2 of the course notes: of four limits the lowest decides, 2 blocks and 25 %",
        _block(256, 96, 48 * 1024),
    ),
    _case(
        "occupancy-units",
        "84 registers take as much room as 88: a warp gets whole units of 256",
        _block(256, 84),
    ),
    _case(
        "occupancy-parts",
        "what is left over in the four parts of an SM does not add up to one more warp",
        _block(160, 80),
    ),
    _case(
        "occupancy-shared",
        "shared memory decides, and the system takes 1 KB of it for every block",
        _block(128, 32, 57 * 1024),
    ),
    _case(
        "occupancy-warps",
        "100 threads are 4 warps, and an SM holds 64 warps however little they need",
        _block(100, 16),
        _block(1000, 32),
    ),
    _case(
        "occupancy-blocks",
        "32 blocks per SM and no more, so blocks of one warp leave half of it empty",
        _block(32, 32),
    ),
    _case("occupancy-none", "a block that fits nowhere: its launch would fail", _block(1024, 128)),
    _case("occupancy-random", "any block, whichever limit it meets"),
    _case(
        "tile_traffic-table",
        "the table of the course notes: larger tiles, each element loaded fewer times",
        *(_product(256, 256, 256, (side, side, 32)) for side in (16, 32, 64, 128)),
    ),
    _case(
        "tile_traffic-grid",
        "exercise 4 of the course notes: tiles that do not divide the matrix, 16 x 11 and 16 trips",
        _product(1000, 700, 512, (64, 64, 32)),
    ),
    _case(
        "tile_traffic-oblong",
        "tiles that are not square: A is loaded once per column of tiles, B once per row",
        _product(512, 1024, 256, (128, 32, 64)),
    ),
    _case("tile_traffic-random", "any sizes: what a mask cuts off is not moved"),
    _case(
        "softmax_traffic-naive",
        "the count of the course notes: about 5MN read and 3MN written, and the columns to it",
        {"m": 300, "n": 781, "fused": False},
    ),
    _case(
        "softmax_traffic-fused",
        "a fused softmax reads and writes the matrix once",
        {"m": 300, "n": 781, "fused": True},
    ),
    _case("softmax_traffic-random", "any matrix, fused or not"),
    _case(
        "waves-full", "a grid that fills its waves exactly", _grid(148, 148), _grid(1320, 132, 5)
    ),
    _case(
        "waves-one-more",
        "one program too many costs a whole wave, nearly empty",
        _grid(149, 148),
        _grid(661, 132, 5),
    ),
    _case("waves-small", "a grid that does not even fill one wave", _grid(5, 132, 2)),
    _case("waves-random", "any grid on any GPU"),
    _case(
        "intensity-memory",
        "a fused softmax in float32: 5 operations for 8 bytes, the memory decides",
        {"flops": 5 * 8192 * 8192, "n_bytes": 8 * 8192 * 8192} | _H200,
    ),
    _case(
        "intensity-compute",
        "a large matrix product in bfloat16: the arithmetic decides, however high the intensity",
        {"flops": 2 * 4096**3, "n_bytes": 3 * 2 * 4096**2} | _H200,
    ),
    _case("intensity-random", "any kernel on any GPU, below and above the ridge"),
    _case(
        "bank_conflicts-row",
        "a warp that reads a row: 32 words, 32 banks, no conflict",
        _lanes(0, 4),
        _lanes(4 * 7, 4),
    ),
    _case(
        "bank_conflicts-column",
        "the notes' worst case: a column of a tile 32 words wide lies in one bank",
        _lanes(4 * 3, 4 * 32),
    ),
    _case(
        "bank_conflicts-padded",
        "the same column with one more word per row: every row starts in the next bank",
        _lanes(4 * 3, 4 * 33),
    ),
    _case(
        "bank_conflicts-broadcast",
        "threads that read the same word are all served at once",
        _lanes(4 * 9, 0),
        {"addresses": [4 * (i // 8) for i in range(32)]},
    ),
    _case(
        "bank_conflicts-random",
        "any addresses: banks asked for several words, some of them by several threads",
    ),
    _case(
        "sectors-aligned",
        "32 floats side by side from a multiple of 32 bytes: 4 sectors, the best there is",
        {**_lanes(4096, 4), "n_bytes": 4},
    ),
    _case(
        "sectors-offset",
        "the same floats from 4 bytes further on reach into a fifth sector",
        {**_lanes(4100, 4), "n_bytes": 4},
    ),
    _case(
        "sectors-strided",
        "a column of a matrix: every thread has a sector of its own, and uses an eighth of it",
        {**_lanes(0, 4 * 1024), "n_bytes": 4},
    ),
    _case(
        "sectors-shared",
        "threads that read the same bytes need their sector once",
        {**_lanes(64, 0), "n_bytes": 4},
    ),
    _case(
        "sectors-straddling",
        "12 bytes per thread: some begin in one sector and end in the next",
        {**_lanes(20, 96), "n_bytes": 12},
        {**_lanes(24, 32), "n_bytes": 12},
    ),
    _case("sectors-random", "any addresses and widths"),
)

PROBLEM = scenario(
    name="performance_model", points=6, cases=CASES, make_inputs=make_inputs, judge=judge
)
