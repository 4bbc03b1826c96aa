"""What the simulator logged of a call, as fields of a reply: capped, and without paths.

The fields are those of ``grader.seen``; built here without it, since no worker needs pydantic.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from grader import simulator

MAX_LAUNCHES = 32  # reported per reply; a count says how many there were
MAX_SPECIALISATIONS_BYTES = 20 * 1024  # of these
MAX_LOG_BYTES = 52 * 1024  # of JSON, all of it; a header holds 64 KiB, and names tensors, too
MAX_FINDINGS = 16
MAX_LOOPS = 8  # of one launch
MAX_CONFIGS = 64  # of all kernels, in words; a count says how many there are
_MAX_LINE_CHARS = 200
_MAX_NAME_CHARS = 64
_MAX_TEXT_CHARS = 500
_TOTALS_BYTES = 256


def described(log: simulator.Log) -> dict[str, Any]:
    """Launches, findings, and elements read and written in all."""
    traffic = [t for launch in log.launches for t in launch.arguments.values()]
    # notes last: they decide nothing, so they must not take the place of what does
    told = sorted(log.findings, key=lambda finding: finding.kind == "note")
    findings = [_finding(finding) for finding in told[:MAX_FINDINGS]]
    autotuned = _autotuned(log.launches)
    launches = [_launch(launch) for launch in log.launches[:MAX_LAUNCHES]]
    specialisations = _specialisations(log.launches)
    kept = _fitting(specialisations, MAX_SPECIALISATIONS_BYTES)
    room_bytes = MAX_LOG_BYTES - _TOTALS_BYTES - len(json.dumps([findings, autotuned, kept]))
    return {
        "n_launches": len(log.launches),
        "launches": _fitting(launches, room_bytes),
        # an atomic reads and writes
        "read": sum(t.read + t.atomics for t in traffic),
        "written": sum(t.written + t.atomics for t in traffic),
        "findings": findings,
        "autotuned": autotuned,
        "specialisations": kept,
        "n_specialisations": len(specialisations),
    }


def _fitting(told: Sequence[dict[str, Any]], room_bytes: int) -> list[dict[str, Any]]:
    """The first of them, as many as there is room for."""
    fitting = []
    for item in told:
        room_bytes -= len(json.dumps(item)) + len(", ")
        if room_bytes < 0:
            break
        fitting.append(item)
    return fitting


def _specialisations(launches: Sequence[simulator.Launch]) -> list[dict[str, Any]]:
    """What Triton would compile, each once; of a kernel under autotune the other configs once."""
    seen: dict[str, dict[str, Any]] = {}
    tuned: set[tuple[str, int]] = set()
    for made in (launch.specialisation for launch in launches):
        if made is None:
            continue
        told = {**asdict(made), "file": Path(made.file).name, "others": []}
        key = json.dumps(told, sort_keys=True)
        if made.others and (made.file, made.line) not in tuned:
            tuned.add((made.file, made.line))
            told["others"] = [asdict(config) for config in made.others]
        seen.setdefault(key, told)
    return list(seen.values())


def _launch(launch: simulator.Launch) -> dict[str, Any]:
    return {
        "kernel": launch.kernel[:_MAX_NAME_CHARS],
        "grid": list(launch.grid),
        "n_programs": launch.n_programs,
        "n_passes": launch.n_passes,
        "arguments": {
            name[:_MAX_NAME_CHARS]: _traffic(moved) for name, moved in launch.arguments.items()
        },
        "loops": [_loop(loop) for loop in launch.loops[:MAX_LOOPS]],
    }


def _traffic(moved: simulator.ArgumentTraffic) -> dict[str, Any]:
    shares = {"read_share": moved.read_share, "written_share": moved.written_share}
    counted = {name: n for name, n in asdict(moved).items() if n is not None}
    return counted | {name: share for name, share in shares.items() if share is not None}


def _loop(loop: simulator.Loop) -> dict[str, Any]:
    return {
        "where": f"{Path(loop.file).name}:{loop.line}",
        "source_line": loop.source_line[:_MAX_LINE_CHARS],
        "turns": loop.turns,
        "fewest": loop.fewest,
        "most": loop.most,
    }


def _autotuned(launches: Sequence[simulator.Launch]) -> list[dict[str, Any]]:
    """The kernels whose config was chosen among several, once each."""
    configs: dict[str, list[str]] = {}
    for launch in launches:
        compiled = launch.specialisation
        if compiled is not None and compiled.others:
            texts = [compiled.config, *(other.text for other in compiled.others)]
            kernel = launch.kernel[:_MAX_NAME_CHARS]
            configs[kernel] = max(configs.get(kernel, []), texts, key=len)
    told, room = [], MAX_CONFIGS
    for kernel, texts in configs.items():
        shown = [text[:_MAX_LINE_CHARS] for text in texts[:room]]
        room -= len(shown)
        told.append({"kernel": kernel, "n_configs": len(texts), "configs": shown})
    return told[:MAX_LAUNCHES]


def _finding(finding: simulator.Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "where": f"{Path(finding.file).name}:{finding.line} in {finding.kernel[:_MAX_NAME_CHARS]}",
        "source_line": finding.source_line.strip()[:_MAX_LINE_CHARS],
        "program": list(finding.program),
        "text": finding.counted[:_MAX_TEXT_CHARS],
        "advice": finding.advice,
        "count": finding.count,
    }
