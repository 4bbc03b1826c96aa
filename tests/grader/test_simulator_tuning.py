"""@triton.autotune and @triton.heuristics in the simulator: which config runs, and what it resets."""

from __future__ import annotations

import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.simulator import CompilationError, Log, load_module, recording, use_config

HEADER = """\
import torch
import triton
import triton.language as tl

configs = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in [(32, 1), (64, 2), (128, 4)]]
"""
# writes its own BLOCK, so that the result tells which config ran
WHICH = """
@triton.jit
def kernel(out_ptr, n, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), BLOCK)
"""
Load = Callable[..., types.ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a submission from its text."""

    def loader(*sources: str) -> types.ModuleType:
        path = tmp_path / "submission.py"
        path.write_text(HEADER + "".join(textwrap.dedent(source).rstrip() for source in sources))
        return load_module(path, name="submission_of_test_simulator_tuning")

    return loader


def which(kernel: Any, n: int = 1) -> int:
    """The BLOCK that a launch of one program ran with."""
    out = torch.zeros(1)
    kernel[(1,)](out, n)
    return int(out)


def test_the_first_config_runs_unless_another_is_asked_for(load: Load) -> None:
    """Numbers beyond the last start over, so that every kernel of a call has one."""
    kernel = load("@triton.autotune(configs, key=['n'])" + WHICH).kernel

    assert which(kernel) == 32
    got = []
    for number in range(5):
        with use_config(number):
            got.append(which(kernel))
    assert got == [32, 64, 128, 32, 64]
    assert which(kernel) == 32
    assert kernel.best_config.kwargs == {"BLOCK": 32}


def test_the_grid_sees_the_config(load: Load) -> None:
    """A grid that is a function gets the constants that run."""
    kernel = load("@triton.autotune(configs, key=['n'])" + WHICH).kernel
    out = torch.zeros(4)

    with use_config(1):
        kernel[lambda meta: (256 // meta["BLOCK"],)](out, 256)

    assert out.tolist() == [64] * 4


def test_pruning_has_tritons_arguments(load: Load) -> None:
    """``early_config_prune(configs, positional arguments, **keyword arguments)``."""
    module = load(
        """
        seen = {}

        def prune(configs, named_args, **kwargs):
            seen.update(positional=sorted(named_args), keyword=sorted(kwargs), n=kwargs["n"])
            return [c for c in configs if c.kwargs["BLOCK"] >= kwargs["n"]]

        @triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": prune})
        @triton.jit
        def kernel(out_ptr, n, BLOCK: tl.constexpr):
            tl.store(out_ptr, BLOCK)
        """
    )
    out = torch.zeros(1)

    module.kernel[(1,)](out, n=50)

    assert out.item() == 64
    assert module.seen == {"positional": ["out_ptr"], "keyword": ["grid", "n", "warmup"], "n": 50}
    with pytest.raises(ValueError, match="prune_configs_by leaves no config"):
        module.kernel[(1,)](out, n=500)


@pytest.mark.parametrize(("top_k", "want"), [("1", [128]), ("2", [128, 64]), ("0.67", [128, 64])])
def test_the_perf_model_keeps_the_fastest(load: Load, top_k: str, want: list[int]) -> None:
    """It is told arguments and constants; the fewest milliseconds come first."""
    kernel = load(
        f"""
        def estimate(out_ptr, n, BLOCK, num_warps, num_stages, num_ctas, **rest):
            return 1000 / BLOCK

        @triton.autotune(configs, key=["n"], prune_configs_by={{"perf_model": estimate, "top_k": {top_k}}})
        @triton.jit
        def kernel(out_ptr, n, BLOCK: tl.constexpr):
            tl.store(out_ptr, BLOCK)
        """
    ).kernel

    got = []
    for number in range(len(want)):
        with use_config(number):
            got.append(which(kernel))

    assert got == want


ACCUMULATES = """
@triton.jit
def kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sum_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0), axis=0))
"""


def accumulated(kernel: Any, total: torch.Tensor, n: int = 100) -> float:
    """``total`` after one more launch that adds n ones."""
    kernel[lambda meta: (-(-n // meta["BLOCK"]),)](torch.ones(n), total, n)
    return float(total)


def test_reset_to_zero_is_for_tuning_only(load: Load) -> None:
    """The first launch of a key zeroes; a second one adds to what is there, as on a GPU."""
    kernel = load("@triton.autotune(configs, key=['n'], reset_to_zero=['sum_ptr'])" + ACCUMULATES)
    total = torch.full((1,), 7.0)

    assert accumulated(kernel.kernel, total) == 100
    assert accumulated(kernel.kernel, total) == 200
    # another key, and a key that is tuned anew because a config is asked for
    assert accumulated(kernel.kernel, total, n=50) == 50
    with use_config(1):
        assert accumulated(kernel.kernel, total) == 100


def test_one_config_is_never_tuned(load: Load) -> None:
    """So nothing is ever reset."""
    text = "@triton.autotune(configs[:1], key=['n'], reset_to_zero=['sum_ptr'])" + ACCUMULATES

    assert accumulated(load(text).kernel, torch.full((1,), 7.0)) == 107


def test_a_name_that_is_no_argument(load: Load) -> None:
    """Such as one of an older version of the kernel."""
    kernel = load(
        "@triton.autotune(configs, key=['n'], reset_to_zero=['y_ptr'])", ACCUMULATES
    ).kernel

    with pytest.raises(ValueError, match=r"reset_to_zero names y_ptr, .* has x_ptr, sum_ptr, n"):
        accumulated(kernel, torch.zeros(1))


def test_hooks(load: Load) -> None:
    """A config's hook runs before every launch; autotune's own only resets after tuning."""
    module = load(
        """
        calls = []

        def before(args):
            calls.append(("config", sorted(args)))
            args["sum_ptr"].zero_()

        def reset(args, reset_only=False):
            calls.append(("autotune", reset_only))

        with_hook = [triton.Config(c.kwargs, pre_hook=before) for c in configs]

        @triton.autotune(with_hook, key=["n"], pre_hook=reset, post_hook=lambda args, exception: 1 / 0)
        """,
        ACCUMULATES,
    )
    total = torch.full((1,), 7.0)

    assert accumulated(module.kernel, total) == 100
    assert accumulated(module.kernel, total) == 100
    names = ["BLOCK", "grid", "n", "num_ctas", "num_stages", "num_warps", "sum_ptr", "warmup"]
    config = ("config", [*names, "x_ptr"])
    assert module.calls == [("autotune", True), config, config]


def test_a_config_that_fails_a_static_assert_is_passed_over(load: Load) -> None:
    """Tuning gives it an infinite time; only if none is left it is an error."""
    kernel = load(
        "@triton.autotune(configs, key=['n'])" + WHICH.rstrip() + "\n"
        "    tl.static_assert(BLOCK >= 64, 'BLOCK is too small')\n"
    ).kernel

    assert which(kernel) == 64
    with use_config(2):
        assert which(kernel) == 128
    none = load(
        "@triton.autotune(configs, key=['n'])" + WHICH.rstrip() + "\n"
        "    tl.static_assert(BLOCK >= 256, 'BLOCK is too small')\n"
    ).kernel
    with pytest.raises(CompilationError, match="static_assert failed: BLOCK is too small"):
        which(none)


def test_a_constant_may_not_be_given_twice(load: Load) -> None:
    """By the call and by the config."""
    kernel = load("@triton.autotune(configs, key=['n'])" + WHICH).kernel

    with pytest.raises(ValueError, match="BLOCK is chosen by autotune"):
        kernel[(1,)](torch.zeros(1), 1, BLOCK=32)


def notes(log: Log) -> list[tuple[str, bool]]:
    """Argument of each note, and whether it is about tuning."""
    return [(f.argument, "autotune runs it many times" in f.text) for f in log.findings]


IN_PLACE = """
@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""


@pytest.mark.parametrize(
    ("options", "text", "alias", "want"),
    [
        pytest.param("", ACCUMULATES, False, ["sum_ptr"], id="atomics"),
        pytest.param("", IN_PLACE, True, ["y_ptr"], id="in-place-through-two-pointers"),
        pytest.param(", reset_to_zero=['x_ptr']", ACCUMULATES, False, ["sum_ptr"], id="another"),
        pytest.param("", IN_PLACE, False, [], id="out-of-place"),
        pytest.param(", reset_to_zero=['sum_ptr']", ACCUMULATES, False, [], id="reset"),
        pytest.param(", restore_value=['sum_ptr']", ACCUMULATES, False, [], id="restored"),
        pytest.param(", restore_value=['x_ptr']", IN_PLACE, True, [], id="restored-by-alias"),
        pytest.param(", pre_hook=lambda *a, **k: 0", ACCUMULATES, False, [], id="hook"),
    ],
)
def test_an_update_that_tuning_would_repeat_is_noted(
    load: Load, options: str, text: str, alias: bool, want: list[str]
) -> None:
    """Tuning runs the kernel many times: what it reads and writes must be restored in between."""
    kernel = load(f"@triton.autotune(configs, key=['n']{options})" + text).kernel
    x = torch.ones(64, dtype=torch.int32)

    with recording() as log:
        kernel[lambda meta: (64 // meta["BLOCK"],)](x, x if alias else torch.zeros_like(x), 64)

    assert [argument for argument, is_ours in notes(log) if is_ours] == want


def test_a_float_atomic_has_both_notes(load: Load) -> None:
    """Its order differs from run to run, and tuning repeats it: two things at one line."""
    kernel = load("@triton.autotune(configs, key=['n'])", ACCUMULATES).kernel

    with recording() as log:
        accumulated(kernel, torch.zeros(1))

    assert sorted(notes(log)) == [("sum_ptr", False), ("sum_ptr", True)]


def test_with_one_config_nothing_is_repeated(load: Load) -> None:
    """A single config is not tuned."""
    kernel = load("@triton.autotune(configs[:1], key=['n'])" + ACCUMULATES).kernel

    with recording() as log:
        accumulated(kernel, torch.zeros(1))

    assert not any(is_ours for _, is_ours in notes(log))
