"""Fixtures of the harness's own tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.grader.course import Course, make_course


@pytest.fixture(scope="session")
def new_course(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Course]:
    """Make a course with these problems in a temporary tree."""

    def make(*problems: str) -> Course:
        return make_course(tmp_path_factory.mktemp("course"), *problems)

    return make
