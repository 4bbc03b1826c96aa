"""The numbers of the timing protocol, each with its source. Decides nothing."""

from __future__ import annotations

from grader.spec import Phase

PROTOCOL_VERSION = 1

# Triton's do_bench warms up for 25 ms; twelve calls of 0.2 to 5 ms are that, and a fixed count is
# the same rule for everyone.
WARMUP_CALLS = 12

# 2.5 of the L2's size is overwritten before every call. One size leaves lines behind because the
# replacement is no exact LRU; the rule is "over twice".
FLUSH_FACTOR = 2.5
# the flush where the driver reports no L2 size, as Triton's do_bench does
FLUSH_FALLBACK_BYTES = 256 << 20

# A spin kernel holds the GPU while the host launches. Without it an eager matmul of 1.5 ms against
# torch.compile read 1.24 to 1.36 where the truth is 0.87 (H200). 200 us covers a plain Triton or
# eager launch; torch.compile took longer, so the spin follows the measured launch cost.
MIN_SPIN_US = 200.0
SPIN_FACTOR = 2.0
# the driver queues about a thousand launches; beyond this a longer spin hides nothing
MAX_SPIN_US = 10_000.0
# host time of one launch is the largest of this many calls
LAUNCH_PROBES = 5

# Chance of a call to be fetched and verified, and the fewest of a comparison.
FETCH_ONE_IN = 4
MIN_VERIFIED = 5

MIN_PAIRS = 20
# half-width 0.1 % in 40 pairs of a 1.5 ms matmul (H200)
DEFAULT_PAIRS = 40
# the width is looked at after every this many pairs, from MIN_PAIRS on
PAIRS_PER_LOOK = 5
# stop, and call stable, at this half-width of the interval over the ratio
TARGET_HALF_WIDTH = 0.005

CONFIDENCE = 0.95
N_RESAMPLES = 2000
BOOTSTRAP_SEED = 0

# during all timed calls: float32 products may use TF32, as tl.dot does where nobody forbids it
MATMUL_PRECISION = "high"

# one graph or an error: a graph break would slow the baseline and flatter the ratio
COMPILE_FULLGRAPH = True
# every benchmark case gets code for its own sizes, as a student's kernel may
COMPILE_DYNAMIC = False

# calls of one roofline probe; the median counts
PROBE_CALLS = 15

# "backward" alone is reported: its time depends on what the forward chose to save
PAID_PHASES: frozenset[Phase] = frozenset({"forward", "both"})

# Anchors made from the reference: full share 10 % below its ratio, none at 0.35 of it, so that a
# copy twice as slow as the reference keeps 27 %.
SPARE = 1.10
ZERO_SHARE_AT = 0.35


def settings() -> dict[str, str | int | float | bool]:
    """Give the constants in force, for the scorecard and the handout."""
    return {
        "measure.protocol_version": PROTOCOL_VERSION,
        "measure.warmup_calls": WARMUP_CALLS,
        "measure.flush_factor": FLUSH_FACTOR,
        "measure.min_spin_us": MIN_SPIN_US,
        "measure.spin_factor": SPIN_FACTOR,
        "measure.max_spin_us": MAX_SPIN_US,
        "measure.fetch_one_in": FETCH_ONE_IN,
        "measure.min_verified": MIN_VERIFIED,
        "measure.min_pairs": MIN_PAIRS,
        "measure.max_pairs": DEFAULT_PAIRS,
        "measure.pairs_per_look": PAIRS_PER_LOOK,
        "measure.target_half_width": TARGET_HALF_WIDTH,
        "measure.confidence": CONFIDENCE,
        "measure.n_resamples": N_RESAMPLES,
        "measure.matmul_precision": MATMUL_PRECISION,
        "measure.compile_fullgraph": COMPILE_FULLGRAPH,
        "measure.compile_dynamic": COMPILE_DYNAMIC,
    }
