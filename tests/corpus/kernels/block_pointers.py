"""Block pointers and tensor descriptors: windows with checked edges."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.corpus.case import Case, out
from tests.corpus.inputs import floats, integers


@triton.jit
def windows(x_ptr, out_ptr, M, N, B: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_block_ptr(
        base=x_ptr,
        shape=(M, N),
        strides=(N, 1),
        offsets=(tl.program_id(0) * B, tl.program_id(1) * B),
        block_shape=(B, B),
        order=(1, 0),
    )
    x = tl.load(source, boundary_check=(0, 1), padding_option=PADDING)
    i = tl.arange(0, B)
    block = tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    tl.store(out_ptr + block * B * B + i[:, None] * B + i[None, :], x)


@triton.jit
def advanced(x_ptr, out_ptr, M, N, B: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, 0), (B, B), (1, 0))
    total = tl.zeros((B, B), tl.float32)
    for _ in range(tl.cdiv(N, B)):
        total += tl.load(source, boundary_check=(0, 1), padding_option="zero")
        source = tl.advance(source, (0, B))
    target = tl.make_block_ptr(out_ptr, (M, B), (B, 1), (0, 0), (B, B), (1, 0))
    tl.store(target, total, boundary_check=(0,))


@triton.jit
def column_major(x_ptr, out_ptr, M, N, B: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (N, M), (1, N), (0, 0), (B, B), (0, 1))
    target = tl.make_block_ptr(out_ptr, (N, M), (M, 1), (0, 0), (B, B), (1, 0))
    tl.store(
        target,
        tl.load(source, boundary_check=(1,), padding_option="zero"),
        boundary_check=(1, 0),
    )


@triton.jit
def one_axis(x_ptr, out_ptr, N, B: tl.constexpr):
    start = tl.program_id(0) * B
    source = tl.make_block_ptr(x_ptr, (N,), (1,), (start,), (B,), (0,))
    target = tl.make_block_ptr(out_ptr, (N,), (1,), (start,), (B,), (0,))
    x = tl.load(source, boundary_check=(0,))
    tl.store(target, x * 2, boundary_check=(0,))


@triton.jit
def device_descriptor(x_ptr, out_ptr, M, N, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[B, B])
    target = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [B, B])
    at = tl.program_id(0) * B
    x = source.load([at, 8])
    target.store([at, 8], x + 1)
    tl.store_tensor_descriptor(target, [at, 0], tl.load_tensor_descriptor(source, [at, 0]))


def with_device_descriptor(x, result, B):
    triton.set_allocator(
        lambda size, _align, _stream: torch.empty(size, dtype=torch.int8, device=x.device)
    )
    device_descriptor[(3,)](x, result, *x.shape, B=B)


@triton.jit
def host_descriptor(source, target, B: tl.constexpr):
    at = tl.program_id(0) * B
    x = source.load([at, 8])
    target.store([at, 8], x * 2)


def with_host_descriptor(x, result, B):
    host_descriptor[(3,)](
        TensorDescriptor.from_tensor(x, [B, B]), TensorDescriptor.from_tensor(result, [B, B]), B=B
    )


X = floats("float32", 13 * 20, special=False).reshape(13, 20)
WHOLE = integers("int32", 13 * 20, low=-99, high=99).float().reshape(13, 20)

CASES = (
    *(
        Case(
            f"windows-{padding or 'none'}",
            windows,
            (X, out("float32", 2 * 3 * 64), 13, 20),
            {"B": 8, "PADDING": padding},
            (2, 3),
        )
        for padding in ("zero", "nan")
    ),
    Case("advanced", advanced, (WHOLE, out("float32", 16, 16), 13, 20), {"B": 16}),
    Case("column_major", column_major, (X, out("float32", 20, 13), 13, 20), {"B": 16}),
    Case("one_axis", one_axis, (X.reshape(-1), out("float32", 13 * 20), 250), {"B": 16}, (16,)),
    Case("device_descriptor", with_device_descriptor, (X, out("float32", 13, 20)), {"B": 8}),
    Case("host_descriptor", with_host_descriptor, (X, out("float32", 13, 20)), {"B": 8}),
)
