"""The module that a row of the compiler's tables is the end of: the body of `kernel`."""

import math

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

GLOBAL = 5
CONSTANT = tl.constexpr(3)
NAME = "a"
LIST = [1, 2]
NOTHING = None
DTYPE = tl.float16


def plain_function(a, b=1):
    return a


@triton.jit
def helper(a):
    return a + 1


@triton.jit
def add2(a, b):
    return a + b


@triton.jit
def recurse(a):
    return recurse(a)


@triton.jit
def kernel(x_ptr, y_ptr, b_ptr, n, scale, BLOCK: tl.constexpr, FLAG: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
