"""`import triton` in a submission is the simulator, and nobody else sees it."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grader.simulator import load_module, recording


def write(folder: Path, **files: str) -> Path:
    """Write Python files; returns the path of submission.py."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder / "submission.py"


def test_triton_and_its_parts(tmp_path: Path) -> None:
    """All the usual forms of import, with no triton installed."""
    path = write(
        tmp_path,
        submission=(
            "import triton, triton.language as tl\n"
            "import triton.language.extra.libdevice\n"
            "from triton import cdiv, next_power_of_2\n"
            "from triton.language import constexpr\n"
            "from triton.language.extra import libdevice\n"
            "from triton.language.extra.cuda import libdevice as ld\n"
            "from triton.language.math import rsqrt\n"
            "from triton.runtime import driver\n"
            "import importlib, importlib.util\n"
            "late = importlib.import_module('triton.language')\n"
            "found = importlib.util.find_spec('triton')\n"
            "json = importlib.import_module('json')\n"
            "try:\n    import triton.nothing\nexcept ImportError as error:\n    why = str(error)\n"
        ),
    )

    module = load_module(path, name="submission_imports")

    assert module.triton.__version__.startswith("3.")
    assert module.late is module.tl
    assert module.found is not None
    assert module.json.dumps([1]) == "[1]"
    assert module.cdiv(10, 4) == 3
    assert module.next_power_of_2(781) == 1024
    assert "triton.nothing" in module.why
    assert module.driver.active.get_active_torch_device().type == "cpu"


def test_torch_sees_no_triton(tmp_path: Path) -> None:
    """The simulator's triton never gets into sys.modules, and torch.compile still works."""
    path = write(tmp_path, submission="import triton, triton.language as tl\nimport torch\n")

    module = load_module(path, name="submission_for_torch")
    compiled = torch.compile(lambda x: torch.nn.functional.relu(x) * 2, backend="eager")

    assert torch.equal(compiled(torch.tensor([-1.0, 2.0])), torch.tensor([0.0, 4.0]))
    # where Triton is installed, torch.compile itself imports the real one
    assert sys.modules.get("triton") is not module.triton
    assert sys.modules.get("triton.language") is not module.tl


def test_helpers_of_the_submission_see_it_too(tmp_path: Path) -> None:
    """Modules of the same folder, by name or relative; loaded once."""
    path = write(
        tmp_path,
        submission="import helper\nfrom helper import kernel\nfrom . import helper as again\n",
        helper="import triton\n\n@triton.jit\ndef kernel(x_ptr):\n    pass\n",
    )

    module = load_module(path, name="submission_with_helper")

    assert module.again is module.helper
    module.kernel[(1,)](torch.zeros(1))


def test_a_helper_may_not_replace_torch(tmp_path: Path) -> None:
    """torch.py or json.py beside the submission is not what `import torch` finds."""
    path = write(tmp_path, submission="import torch, json\n", torch="x = 1\n", json="x = 1\n")

    module = load_module(path, name="submission_with_torch_py")

    assert module.torch is torch
    assert not hasattr(module.json, "x")


def test_a_failing_submission_shows_its_own_lines(tmp_path: Path) -> None:
    """The traceback names the file and quotes the line; nothing stays behind."""
    path = write(tmp_path, submission="import triton\n\nundefined + 1\n")

    with pytest.raises(NameError) as caught:
        load_module(path, name="submission_that_fails")

    text = "".join(traceback.format_exception(caught.value))
    assert f'File "{path}", line 3' in text
    assert "undefined + 1" in text
    assert "submission_that_fails" not in sys.modules


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"\xef\xbb\xbfname = '\xe4\xbd\xa0'\n", id="byte-order-mark"),
        pytest.param(b"# coding: gbk\nname = '\xc4\xe3'\n", id="coding-line"),
        pytest.param(b"name = (\r\n'\xe4\xbd\xa0')\r\n", id="windows-line-ends"),
    ],
)
def test_files_are_decoded_as_python_does(tmp_path: Path, source: bytes) -> None:
    """Editors on Windows write marks and encodings that Python's own import accepts."""
    path = tmp_path / "submission.py"
    path.write_bytes(source)

    assert load_module(path, name="decoded").name == "\u4f60"


def test_a_missing_file(tmp_path: Path) -> None:
    """Python's own error."""
    with pytest.raises(FileNotFoundError):
        load_module(tmp_path / "nothing.py", name="nothing")


def test_dynamo_may_be_imported_by_a_submission() -> None:
    """Importing it lists the functions of torch.cuda, here the pretended ones, each under one name."""
    program = (
        "import torch\n"
        "from grader.simulator import pretend_gpu\n"
        "with pretend_gpu():\n"
        "    assert torch.compiler.disable(lambda: 1)() == 1\n"
    )

    # a process of its own: dynamo makes its list once
    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120
    )

    assert ended.returncode == 0, ended.stderr


def test_a_compiled_function_may_launch_kernels(tmp_path: Path) -> None:
    """torch.compile breaks the graph at the launch and does not look inside."""
    path = write(
        tmp_path,
        submission=(
            "import torch, triton, triton.language as tl\n"
            "@triton.jit\n"
            "def kernel(x_ptr, out_ptr):\n"
            "    i = tl.arange(0, 8)\n"
            "    tl.store(out_ptr + i, tl.load(x_ptr + i) + 1)\n"
            "def call(x):\n"
            "    out = torch.empty_like(x)\n"
            "    kernel[(1,)](x * 2, out)\n"
            "    return out * 3\n"
        ),
    )
    module = load_module(path, name="submission_compiled")
    compiled: Callable[..., torch.Tensor] = torch.compile(module.call, backend="eager")

    with recording() as log:
        out = compiled(torch.ones(8))

    assert out.tolist() == [9.0] * 8
    assert log.findings == []
    assert len(log.launches) == 1
