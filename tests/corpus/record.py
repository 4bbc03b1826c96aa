"""Run the corpus with the installed Triton, and keep what it gives.

    python -m tests.corpus.record tests/data/golden.json

Needs torch and triton alone. Without a GPU, TRITON_INTERPRET=1 runs Triton's interpreter.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import importlib
import os
import platform
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path

import torch

from tests.corpus import golden
from tests.corpus.case import Case, run

KERNELS = Path(__file__).parent / "kernels"


def all_cases(load: Callable[[str], types.ModuleType]) -> list[Case]:
    """Every case as ``theme/name``.

    Args:
        load: Gives the module of a file in ``kernels/``, from the file's name.
    """
    return [
        dataclasses.replace(case, name=f"{theme}/{case.name}")
        for theme in sorted(path.stem for path in KERNELS.glob("*.py"))
        for case in load(theme).CASES
    ]


def with_installed_triton(theme: str) -> types.ModuleType:
    """A file of kernels, whose ``import triton`` finds the real one."""
    return importlib.import_module(f"tests.corpus.kernels.{theme}")


def machine(device: str) -> dict[str, str]:
    """What the results hold for."""
    triton = importlib.import_module("triton")
    return {
        "gpu": torch.cuda.get_device_name() if device == "cuda" else "none (Triton's interpreter)",
        "triton": triton.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "python": platform.python_version(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "command": "python -m tests.corpus.record tests/data/golden.json",
    }


def main() -> int:
    """Record every case; say which failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="the golden file to write")
    path = parser.parse_args().file
    device = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    inputs, outputs, n_failed = {}, {}, 0
    for case in all_cases(with_installed_triton):
        if device == "cpu" and case.wrong_in_interpreter:
            continue
        try:
            outputs[case.name] = run(case, device)
            inputs[case.name] = case.fingerprint()
        except Exception:  # noqa: BLE001  one case's failure is reported, the others still run
            n_failed += 1
            sys.stderr.write(f"{case.name}: {traceback.format_exc(limit=-3)}\n")
    golden.write(path, golden.Golden(machine(device), inputs, outputs))
    sys.stderr.write(f"{len(outputs)} cases recorded, {n_failed} failed\n")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
