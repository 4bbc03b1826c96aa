"""Reads a scorecard.json that somebody names, and says in a sentence why one cannot be read.

Knows one schema: a card made by another version of the grader is refused, not guessed at.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from grader.scorecard import SCHEMA_VERSION, Scorecard


def load(path: Path) -> Scorecard:
    """Read a scorecard.

    Raises:
        OSError: If there is no file that can be read.
        ValueError: If it holds no scorecard, or one of another schema; names no file.
    """
    content = path.read_bytes()
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or "schema_version" not in found:
        raise ValueError("this is no scorecard; `python -m grader grade` writes one")
    version = found["schema_version"]
    if version != SCHEMA_VERSION:
        is_newer = isinstance(version, int) and version > SCHEMA_VERSION
        raise ValueError(
            f"made by {'a newer' if is_newer else 'another'} grader (schema {version!r:.20}, this one"
            f" reads {SCHEMA_VERSION}): grade again with this one, or use that one"
        )
    try:
        return Scorecard.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(f"this is no valid scorecard: {first_error(error)}") from error


def first_error(error: ValidationError) -> str:
    """Where and what the first error is, and how many more there are, without pydantic's links."""
    first, *others = error.errors(include_url=False)
    # what a validator of ours raised
    said = first["msg"].removeprefix("Value error, ")
    where = ".".join(map(str, first["loc"]))
    more = f", and {len(others)} more" if others else ""
    return f"{where}: {said}{more}" if where else f"{said}{more}"
