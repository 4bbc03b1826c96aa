"""What a student can do about a finding: one sentence each."""

from __future__ import annotations

from collections.abc import Collection

UNWRITTEN = (
    "Write these elements before anything reads them: make the tensor with torch.zeros, let an "
    "earlier kernel store all of it, or mask the lanes that reach beyond what was stored."
)
NEVER_WRITTEN = (
    "Launch enough programs to cover the output (triton.cdiv of its size by the block) and let the "
    "mask of the store be true for all of its elements."
)
DEADLOCK = (
    "Let every program that takes a lock release it, with tl.atomic_xchg(lock_ptr, 0), on every "
    "path, and begin with a lock that is zero."
)
FLOAT_ATOMICS = (
    "For the same bits in every run, store one partial result a program and add those up in a fixed "
    "order, in a second kernel or with torch.sum."
)
ASSERT = (
    "Look at what the condition compares, in the program named here; on a GPU the check is off unless "
    "TRITON_DEBUG=1 is set."
)
MASKED_LANES = (
    "Give tl.load the value that changes nothing: other=0.0 for a sum or tl.dot, "
    "other=-float('inf') for a maximum; or clear the lanes with tl.where before they are counted."
)
REORDERED = (
    "Use tl.reshape without can_reorder (and tl.join for tl.cat); where only a sum or a maximum of "
    "the elements counts, the order does not matter."
)
CLASH = (
    "Give each lane an element of its own, or reduce the block first (tl.sum, tl.max) and store one "
    "number; to store just one lane, let the mask leave out the others."
)
SAME_VALUE = (
    "Harmless as it is, but work done twice: let each element be written by one program, or mask "
    "the store in all others."
)


def repeated_update(argument: str) -> str:
    """For a kernel that is tuned, and updates what it finds."""
    return (
        f"Unless the kernel leaves {argument} as it was, name it in autotune's reset_to_zero or "
        "restore_value, or set it in a pre_hook."
    )


def out_of_bounds(kind: str, *, was_masked: bool) -> str:
    """For a load, a store or an atomic that left its tensor."""
    if was_masked:
        return (
            "Compare, in the mask, the same offsets that the pointer is made of, along every axis, "
            "with the size of this tensor; and check the strides."
        )
    return (
        f"Give tl.{kind} a mask that is true only inside the tensor, such as mask=offsets < n_elements "
        "(through a block pointer: boundary_check=(0, 1))."
    )


def race(kinds: Collection[str], *, has_order: bool) -> str:
    """For two accesses ("read", "write", "atomic") of an element; whether the kernel synchronises."""
    if "atomic" in kinds:
        return (
            "While some programs update an element atomically, no other may load or store it "
            "plainly: use tl.atomic_add there, too, or read the result in a later kernel."
        )
    if has_order:
        return (
            "An integer atomic orders two accesses only if one program is done before it and the "
            "other begins after it saw that: load and store between taking the same lock and "
            "releasing it, or only where a counter says that all others are done."
        )
    add_up = (
        "one row of partial results a program, added up in a second kernel or with torch.sum; or "
        "tl.atomic_add, if the order may vary."
    )
    if set(kinds) == {"write"}:
        return (
            "Let each program store to elements of its own: check the offsets (the program id times "
            "the block's size, the row times this tensor's own stride), and let the mask end where "
            f"the next program begins. What all programs contribute to: {add_up}"
        )
    return f"Let each program write elements of its own: {add_up}"


def redundant(axis: int) -> str:
    """For a grid along one axis of which all programs do the same."""
    return (
        f"Use tl.program_id({axis}) in the offsets, or leave this axis out of the grid; are two "
        "sizes of the grid swapped?"
    )
