"""pdb for code that launches kernels: it steps through the user's own files alone."""

from __future__ import annotations

import pdb  # noqa: T100  the debugger is what this module offers
import sysconfig
from pathlib import Path
from types import FrameType, TracebackType

_GRADER = Path(__file__).resolve().parent
_STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"])


def is_own(frame: FrameType) -> bool:
    """Whether a frame runs a file that is neither ours, nor Python's, nor of an installed package."""
    file = Path(frame.f_code.co_filename)
    if not file.is_absolute() or {"site-packages", "dist-packages"} & set(file.parts):
        return False
    return not file.is_relative_to(_GRADER) and not file.is_relative_to(_STANDARD_LIBRARY)


class KernelPdb(pdb.Pdb):
    """A debugger that shows how a kernel works, not how the simulator does."""

    def stop_here(self, frame: FrameType) -> bool:
        """Whether stepping stops in this frame."""
        return is_own(frame) and super().stop_here(frame)

    def get_stack(
        self, f: FrameType | None, t: TracebackType | None
    ) -> tuple[list[tuple[FrameType, int]], int]:
        """The frames that ``where``, ``up`` and ``down`` go through, and which one is current."""
        stack, current = super().get_stack(f, t)
        own = [entry for entry in stack if is_own(entry[0])]
        return (own, own.index(stack[current])) if stack[current] in own else (stack, current)
