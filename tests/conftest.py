"""What holds for all tests but those of a submission, which ship without it."""

from __future__ import annotations

import importlib.util

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked triton need Triton."""
    if item.get_closest_marker("triton") and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
