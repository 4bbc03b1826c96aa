"""Fixtures of the harness's own tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

from tests.grader.course import Course, make_course


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked triton need Triton."""
    if item.get_closest_marker("triton") and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")


@pytest.fixture(scope="session")
def new_course(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Course]:
    """Make a course with these problems in a temporary tree."""

    def make(*problems: str) -> Course:
        return make_course(tmp_path_factory.mktemp("course"), *problems)

    return make
