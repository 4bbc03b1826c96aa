"""recording(): collect launches and findings of one call, watching memory nobody wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from grader.simulator import advice, fresh, log, modes, watching
from grader.simulator.cache import Cache
from grader.simulator.errors import source_line

# many configs of @triton.autotune, one a line
_MAX_DECORATOR_LINES = 200


class Log(log.Log):
    """Launches and findings of one recorded call."""

    def check_written(self, output: torch.Tensor, name: str) -> None:
        """Add a finding if elements of an output came from torch.empty and nobody wrote them.

        Only for tensors the call returns: a scratch buffer may well be larger than needed.
        """
        with modes.bare():
            mark = fresh.mark_if_any(output)
            if mark is None or not output.numel():
                return
            written = fresh.window(mark, output).numpy()
        missing = np.argwhere(~written)
        if not len(missing):
            return
        kernel, (file, line) = mark.last_writer or ("", ("", 0))
        line = _line_of_def(file, line) if kernel else 0
        index = tuple(int(i) for i in missing[0])
        text = (
            f"{len(missing)} of {written.size} elements of {name} were never written, the first at "
            f"index {index}"
        )
        self.add(
            [
                log.Finding(
                    "never_written",
                    kernel,
                    file,
                    line,
                    source_line(file, line) if line else "",
                    (0, 0, 0),
                    name,
                    index,
                    text,
                    len(missing),
                    advice.NEVER_WRITTEN,
                )
            ]
        )

    def check_read(self, tensor: torch.Tensor) -> None:
        """As check_written, of a tensor that the host reads; the name of no argument is known."""
        shape = tuple(tensor.shape)
        name = f"a tensor of shape {shape}" if shape else "a tensor"
        with modes.bare():
            mark = fresh.mark_if_any(tensor)
        if mark is None or mark.last_writer is None:
            return
        # once, however often it is read
        told = "never_written", name, mark.last_writer[0]
        if all((f.kind, f.argument, f.kernel) != told for f in self.findings):
            self.check_written(tensor, name)


def _line_of_def(file: str, line: int) -> int:
    """Below the decorators of a function, which begins at this line."""
    below = range(line, line + _MAX_DECORATOR_LINES)
    return next((at for at in below if source_line(file, at).startswith("def ")), line)


@contextlib.contextmanager
def recording(cache: Cache | None = None, *, reads_of_the_host: bool = False) -> Iterator[Log]:
    """Log every launch in this block, with all checks on.

    What is logged survives an exception. Outside of such a block nothing is counted or checked,
    and launches are faster.

    Args:
        cache: Also model this cache; a matmul of 768 cubed then takes some seconds instead of none.
        reads_of_the_host: Also find what torch reads of tensors that kernels left partly unwritten.
    """
    recorded = Log(cache=cache)
    on_read = recorded.check_read if reads_of_the_host else None
    with log.collecting(recorded), watching.watched(on_read):
        yield recorded
