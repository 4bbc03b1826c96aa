"""Atomic operations: old values, masks, lanes that hit one element, every type and kind."""

import torch
import triton
import triton.language as tl

from tests.corpus.case import Case, Out, out
from tests.corpus.inputs import integers


@triton.jit
def add(x_ptr, total_ptr, old_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    old = tl.atomic_add(total_ptr + i, tl.load(x_ptr + i), mask=i % 3 != 0)
    tl.store(old_ptr + i, old, mask=i % 3 != 0)


@triton.jit
def add_to_few(x_ptr, total_ptr, N: tl.constexpr):
    # all programs, and several lanes of each, meet in the same elements
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.atomic_add(total_ptr + i % 4, tl.load(x_ptr + i), sem="relaxed", scope="gpu")


@triton.jit
def extremes(x_ptr, largest_ptr, smallest_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.atomic_max(largest_ptr + i % 4, x)
    tl.atomic_min(smallest_ptr + i % 4, x)


@triton.jit
def bits(x_ptr, and_ptr, or_ptr, xor_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.atomic_and(and_ptr + i % 4, x)
    tl.atomic_or(or_ptr + i % 4, x)
    tl.atomic_xor(xor_ptr + i % 4, x)


@triton.jit
def exchange(x_ptr, place_ptr, old_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old_ptr + i, tl.atomic_xchg(place_ptr + i, tl.load(x_ptr + i)))


@triton.jit
def compare_and_swap(x_ptr, place_ptr, old_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    old = tl.atomic_cas(place_ptr + i, i % 3, x, sem="acq_rel")
    tl.store(old_ptr + i, old)


@triton.jit
def tickets(counter_ptr, seen_ptr):
    ticket = tl.atomic_add(counter_ptr, 1)
    tl.store(seen_ptr + ticket, 1)


@triton.jit
def lock(lock_ptr, total_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr + i, tl.load(total_ptr + i) + tl.program_id(0) + i)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def last_program_finishes(x_ptr, partial_ptr, counter_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    pid = tl.program_id(0)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + pid * N + i), 0))
    tl.debug_barrier()
    if tl.atomic_add(counter_ptr, 1) == tl.num_programs(0) - 1:
        every = tl.load(partial_ptr + i, mask=i < tl.num_programs(0), other=0)
        tl.store(out_ptr, tl.sum(every, 0))


def _whole(dtype, n=64, low=-9, high=9):
    return integers("int32", n, 3, low=low, high=high).to(getattr(torch, dtype))


def _zeros(dtype, n):
    return Out(torch.zeros(n, dtype=getattr(torch, dtype)))


def _filled(dtype, n, value):
    return Out(torch.full((n,), value).to(getattr(torch, dtype)))


NUMBERS = ("int32", "int64", "float16", "bfloat16", "float32", "float64")
# float atomics of the interpreter: "Unsupported data type" for bfloat16
CASES = (
    *(
        Case(
            f"add-{t}",
            add,
            (_whole(t), Out(_whole(t, low=0)), out(t, 64)),
            {"N": 64},
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    *(
        Case(
            f"add_to_few-{t}",
            add_to_few,
            (_whole(t), _zeros(t, 4)),
            {"N": 16},
            (4,),
            wrong_in_interpreter="bfloat16" if t == "bfloat16" else "",
        )
        for t in NUMBERS
    ),
    *(
        Case(
            f"extremes-{t}",
            extremes,
            (integers(t), _filled(t, 4, 5), _filled(t, 4, 5)),
            {"N": 16},
            (4,),
        )
        for t in ("int32", "int64")
    ),
    *(
        Case(
            f"extremes-{t}",
            extremes,
            (_whole(t, 64, -99, 99), _filled(t, 4, start), _filled(t, 4, start)),
            {"N": 16},
            (4,),
        )
        for t in ("float32", "float64")
        for start in (0.5,)
    ),
    *(
        Case(
            f"bits-{t}",
            bits,
            (integers(t), _filled(t, 4, -1), _zeros(t, 4), _filled(t, 4, 5)),
            {"N": 16},
            (4,),
        )
        for t in ("int32", "int64")
    ),
    *(
        Case(
            f"exchange-{t}",
            exchange,
            (_whole(t), Out(_whole(t, low=0)), out(t, 64)),
            {"N": 64},
            wrong_in_interpreter="it refuses" if t == "float32" else "",
        )
        for t in ("int32", "int64", "float32")
    ),
    Case(
        "compare_and_swap",
        compare_and_swap,
        (_whole("int32"), Out(integers("int32", 64, 8, low=0, high=2)), out("int32", 64)),
        {"N": 64},
    ),
    Case("tickets", tickets, (_zeros("int32", 1), _zeros("int32", 32)), grid=(32,)),
    Case("lock", lock, (_zeros("int32", 1), _zeros("int32", 16)), {"N": 16}, (8,)),
    Case(
        "last_program_finishes",
        last_program_finishes,
        (_whole("int32", 128), _zeros("int32", 16), _zeros("int32", 1), out("int32", 1)),
        {"N": 16},
        (8,),
    ),
)
