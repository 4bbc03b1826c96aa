"""recording(): collect launches and findings of one call, watching memory nobody wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch

from grader.simulator import advice, fresh, log, modes
from grader.simulator.cache import Cache
from grader.simulator.errors import source_line


class Log(log.Log):
    """Launches and findings of one recorded call."""

    def check_written(self, output: torch.Tensor, name: str) -> None:
        """Add a finding if elements of an output came from torch.empty and nobody wrote them.

        Only for tensors the call returns: a scratch buffer may well be larger than needed.
        """
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - no mode takes part
            storage = output.untyped_storage()
            mark = fresh.mark_of(output, storage, storage.nbytes() // output.element_size())
            if mark is None or not output.numel():
                return
            written = torch.as_strided(
                torch.from_numpy(mark.written),
                output.shape,
                output.stride(),
                output.storage_offset(),
            ).numpy()
        missing = np.argwhere(~written)
        if not len(missing):
            return
        kernel, (file, line) = mark.last_writer or ("", ("", 0))
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


@contextlib.contextmanager
def recording(cache: Cache | None = None) -> Iterator[Log]:
    """Log every launch in this block, with all checks on.

    What is logged survives an exception. Outside of such a block nothing is counted or checked,
    and launches are faster.

    Args:
        cache: Also model this cache; a matmul of 768 cubed then takes some seconds instead of none.
    """
    recorded = Log(cache=cache)
    with log.collecting(recorded), modes.entered(fresh.WatchFresh()):
        yield recorded
