"""grader.sandbox.launch_log: what of the simulator's log goes into a reply."""

from __future__ import annotations

import json

from grader.sandbox.launch_log import (
    MAX_CONFIGS,
    MAX_FINDINGS,
    MAX_LAUNCHES,
    MAX_LOG_BYTES,
    described,
)
from grader.sandbox.replies import Returned
from grader.simulator import ArgumentTraffic, Finding, Launch, Log, Loop, Specialisation
from grader.simulator.log import FindingKind
from grader.simulator.specialisation import Config


def finding(kind: FindingKind, line: int, text: str = "") -> Finding:
    """One finding in a line of its own."""
    return Finding(kind, "kernel", "x.py", line, text, (0, 0, 0), "x", (0,), kind, advice="Do.")


def launch(name: str, n_arguments: int = 1) -> Launch:
    """One launch of one program with a loop."""
    moved = ArgumentTraffic(8, 4, 2, 32, 16, 2, 1)
    arguments = {f"{i}_{name}": moved for i in range(n_arguments)}
    loop = Loop("/home/a/x.py", 7, "for k in range(3):", 3, 3, 3)
    return Launch(name, (1, 1, 1), arguments, 1, 1, loops=(loop,))


def test_notes_do_not_crowd_out_a_race() -> None:
    """More notes than are reported, found first, leave room for the race found last."""
    notes = [finding("note", line) for line in range(MAX_FINDINGS + 4)]

    sent = described(Log([], [*notes, finding("race", 99)]))["findings"]

    assert [one["kind"] for one in sent] == ["race"] + ["note"] * (MAX_FINDINGS - 1)


def test_what_is_sent_is_what_the_verifier_reads() -> None:
    """All counts arrive; no path does. An atomic counts as read and as written."""
    reply = described(Log([launch("kernel")], [finding("race", 7)]))

    read = Returned.model_validate({"seq": 0, "op": "forward", "returned": "tensors", **reply})

    (seen,) = read.launches
    assert seen.arguments["0_kernel"].model_dump(exclude_none=True) == {
        "read": 8,
        "written": 4,
        "atomics": 2,
        "read_bytes": 32,
        "written_bytes": 16,
        "read_sectors": 2,
        "written_sectors": 1,
        "read_share": 0.5,
        "written_share": 0.5,
    }
    assert (seen.loops[0].where, seen.loops[0].turns) == ("x.py:7", 3)
    assert (read.read, read.written) == (10, 6)
    assert read.findings[0].advice == "Do."
    assert "/home" not in json.dumps(reply)


def test_launches_are_capped_and_counted() -> None:
    """The number of all launches is told."""
    reply = described(Log([launch("kernel") for _ in range(MAX_LAUNCHES + 5)], []))

    assert len(reply["launches"]) == MAX_LAUNCHES
    assert reply["n_launches"] == MAX_LAUNCHES + 5


def test_a_reply_fits_whatever_kernels_are_called() -> None:
    """Long names, many arguments and lines that JSON has to escape; totals stay those of all."""
    launches = [launch("核" * 1000, 30) for _ in range(20)]
    findings = [finding("race", line, "核" * 1000) for line in range(MAX_FINDINGS)]

    reply = described(Log(launches, findings))

    assert len(json.dumps(reply)) <= MAX_LOG_BYTES
    assert len(reply["findings"]) == MAX_FINDINGS
    assert reply["read"] == 20 * 30 * 10


def tuned(name: str, n_configs: int) -> Launch:
    """One launch of a kernel with configs named 0, 1, ..."""
    others = tuple(Config(str(i), {}, {}) for i in range(1, n_configs))
    compiled = Specialisation(name, "x.py", 1, {}, {}, "0" if n_configs > 1 else "", others)
    return Launch(name, (1, 1, 1), {}, 1, 1, compiled)


def test_configs_are_told_once_a_kernel() -> None:
    """The most that any launch had to choose from; kernels without a choice are left out."""
    log = Log([tuned("a", 2), tuned("plain", 1), tuned("a", 3), tuned("b", 2), tuned("a", 2)], [])

    assert described(log)["autotuned"] == [
        {"kernel": "a", "n_configs": 3, "configs": ["0", "1", "2"]},
        {"kernel": "b", "n_configs": 2, "configs": ["0", "1"]},
    ]


def test_configs_are_capped_and_counted() -> None:
    """The numbers are told, the words of the first ones."""
    first, second = described(Log([tuned("a", 60), tuned("b", 99)], []))["autotuned"]

    assert (first["n_configs"], len(first["configs"])) == (60, 60)
    assert (second["n_configs"], len(second["configs"])) == (99, MAX_CONFIGS - 60)
