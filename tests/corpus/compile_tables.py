"""Put every row of the compiler's tables to the installed Triton, without a GPU.

    python -m tests.corpus.compile_tables FOLDER

Prints a JSON object: what Triton said of each row, "" where it compiled.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import multiprocessing
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import torch

from grader.compiler.driver import CompileOnlyDriver
from tests.corpus import argument_tables, compiler_tables

# a row about arguments is named by its statements
REFUSED = compiler_tables.REFUSED | {
    statements: (statements, reason) for statements, reason in argument_tables.REFUSED.items()
}
ACCEPTED = compiler_tables.ACCEPTED | dict(
    zip(argument_tables.ACCEPTED, argument_tables.ACCEPTED, strict=True)
)
TEMPLATE = (Path(__file__).parent / "compiler_template.py").read_text()


def source(statements: str) -> str:
    """A module whose kernel ends with these statements."""
    return TEMPLATE + textwrap.indent(statements, "    ") + "\n"


def arguments() -> tuple[Any, ...]:
    """Of the template's kernel."""
    return torch.zeros(4096), None, torch.zeros(4096, dtype=torch.int8), 8, 2.5, 16, True


def answer(file: str) -> str:
    """What Triton says of a file."""
    warnings.simplefilter("ignore")
    driver = importlib.import_module("triton").runtime.driver
    driver.set_active(CompileOnlyDriver(90))
    spec = importlib.util.spec_from_file_location("row", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        module.kernel.warmup(*arguments(), grid=(1,))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Ask, row by row."""
    folder = Path(sys.argv[1])
    rows = {name: row[0] for name, row in REFUSED.items()} | ACCEPTED
    answers = {}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pending = {}
        for number, (name, statements) in enumerate(rows.items()):
            path = folder / f"row_{number}.py"
            path.write_text(source(statements))
            pending[name] = pool.apply_async(answer, (str(path),))
        answers = {name: result.get(timeout=600) for name, result in pending.items()}
    # Triton prints on its own
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
