"""What PTX and the table of resources say, on short pieces written by hand."""

from __future__ import annotations

import pytest

from grader.compiler.machine_code import (
    Usage,
    declared_local_bytes,
    has_bulk_loads,
    load_bits,
    target,
    usage,
    uses_tensor_cores,
)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", {128}, id="v4"),
        pytest.param("ld.global.v2.b64 \t{%rd3, %rd4}, [%rd1];", {128}, id="two-of-64"),
        pytest.param("@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];", {32}, id="one"),
        pytest.param("ld.global.b16 { %rs1 }, [ %rd1 + 0 ];", {16}, id="half"),
        pytest.param("ld.global.nc.L1::evict_last.v8.b32 {%r1}, [%rd1];", {256}, id="hints"),
        pytest.param("ld.acquire.gpu.global.b32 %r1, [%rd1];", {32}, id="acquire"),
        pytest.param(
            "cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;", {128}, id="copy-16"
        ),
        pytest.param(
            "cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, %r2;", {32}, id="copy-4"
        ),
        pytest.param("cp.async.commit_group;", set(), id="no-copy"),
        pytest.param("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];", set(), id="shared-memory"),
        pytest.param("ld.param.b64 %rd1, [kernel_param_0];", set(), id="parameter"),
        pytest.param("st.global.v4.b32 [ %rd1 + 0 ], { %r1 };", set(), id="a-store"),
    ],
)
def test_load_widths(line: str, want: set[int]) -> None:
    """Bits that one thread loads from global memory, copies to shared memory included."""
    assert load_bits(f"\t{line}\n") == want


def test_all_widths_of_a_kernel_are_told() -> None:
    """A kernel may load its rows wide and its mask narrow."""
    ptx = "ld.global.v4.b32 {%r1}, [%rd1];\n ld.global.b8 %rs1, [%rd2];\n"

    assert load_bits(ptx) == {128, 8}


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1};", True, id="sm_80"),
        pytest.param("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r1};", True, id="sm_90"),
        pytest.param("@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r1 ];", True, id="sm_100"),
        pytest.param("wgmma.fence.sync.aligned;", False, id="only-a-fence"),
        pytest.param("fma.rn.f32 %r1, %r2, %r3, %r4;", False, id="ordinary-multiply-add"),
    ],
)
def test_tensor_cores(line: str, want: bool) -> None:
    """A matrix instruction, not what surrounds it."""
    assert uses_tensor_cores(f"\t{line}\n") is want


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param(
            "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1];",
            True,
            id="load",
        ),
        pytest.param(
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1];", False, id="store"
        ),
        pytest.param("cp.async.bulk.commit_group;", False, id="commit"),
    ],
)
def test_bulk_loads(line: str, want: bool) -> None:
    """Tiles that the tensor memory accelerator brings in."""
    assert has_bulk_loads(f"\t{line}\n") is want


def test_target_is_what_the_file_says() -> None:
    """The directive, not a comment about it."""
    assert target(".version 8.7\n// .target sm_80\n.target sm_90a\n.address_size 64") == "sm_90a"
    assert target(".version 8.7\n") == ""


TABLE = """
Resource usage:
 Common:
  GLOBAL:0
 Function helper:
  REG:24 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:0 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function softmax_kernel:
  REG:168 STACK:48 SHARED:1024 LOCAL:8 CONSTANT[0]:416 TEXTURE:0 SURFACE:0 SAMPLER:0
"""


def test_usage_of_the_kernel_not_of_a_helper() -> None:
    """Registers, and stack and local memory together."""
    assert usage(TABLE, "softmax_kernel") == Usage(registers=168, local_bytes=56)
    assert usage(TABLE, "softmax") is None
    assert usage("cuobjdump fatal: no file", "softmax_kernel") is None


def test_memory_that_the_program_declares_is_no_spill() -> None:
    """The arguments of a print stand in local memory, too."""
    assert declared_local_bytes(".local .align 8 .b8 \t__local_depot0[16];\n") == 16
    assert declared_local_bytes(".reg .b32 %r<4>;\n") == 0
