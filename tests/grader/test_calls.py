"""grader.sandbox.calls: what one call sends back."""

from __future__ import annotations

from pathlib import Path

from grader.sandbox.calls import MAX_FINDINGS, Loaded, _answer
from grader.simulator import Finding, Log
from grader.simulator.log import FindingKind


def finding(kind: FindingKind, line: int) -> Finding:
    """One finding in a line of its own."""
    return Finding(kind, "kernel", "x.py", line, "", (0, 0, 0), "x", (0,), kind)


def test_notes_do_not_crowd_out_a_race() -> None:
    """More notes than are reported, found first, leave room for the race found last."""
    notes = [finding("note", line) for line in range(MAX_FINDINGS + 4)]
    log = Log([], [*notes, finding("race", 99)])
    loaded = Loaded(lambda: None, "sim", lift=False, folder=Path())

    sent = _answer({}, {}, [], loaded, log).header["findings"]

    assert [one["kind"] for one in sent] == ["race"] + ["note"] * (MAX_FINDINGS - 1)
