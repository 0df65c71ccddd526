"""The summary of a run: every figure that the report and scripts use, recomputed from the run directory
alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.fidelity import judge
from analysis.files import write_whole
from analysis.kinds import kind_of
from analysis.measures import cnps, data_packets, kernel_timeouts, marks, paused_s, pauses, ratio, retransmits
from analysis.original_time import in_original_time
from analysis.run import Run
from analysis.verdicts import all_drops, lossless_drops, total_discards, total_drops, watchdog_discards

# What only some workloads tell.
_UNTOLD = dict.fromkeys(("goodput_bps", "ideal_seconds", "slowdown", "kernel_counters", "queue_bytes", "buffer_fill_s"))


def summarize(run: Run) -> dict[str, Any]:
    """The summary as one JSON-ready mapping; equal files give equal summaries. None stands for what the run's
    files do not tell.

    Seconds, bits per second and bytes, as the keys say; `goodput_bps` is payload bits over the rounds' own
    seconds. Raises BadRequest when spec.yaml, measured.json or provenance.json is missing or damaged.
    """
    kind = kind_of(run)
    verdict = kind.verdict(run)
    summary = {
        **_common(run),
        **kind.summarize(run),
        "verdict": verdict.verdict,
        "evidence": [asdict(piece) for piece in verdict.evidence],
        "fidelity": _fidelity(run),
        "original_time": in_original_time(run),
        "comparison": comparison(run),
    }
    return {**summary, "packets_per_wall_s": ratio(summary["packets"], summary["wall_s"])}


def _common(run: Run) -> dict[str, Any]:
    """What a run of any workload may tell."""
    measured = run.measured
    return {
        "experiment": run.spec.get("experiment"),
        "workload": run.workload,
        "spec": run.spec,
        "seed": run.provenance.get("seed"),
        "clock": run.provenance.get("clock"),
        "complete": bool(measured.get("complete")),
        "rounds": [
            {"seconds": each.seconds, "goodput_bps": each.goodput_bps if each.payload_bytes else None}
            for each in run.rounds
        ],
        **_UNTOLD,
        "packets": data_packets(run),
        "drops": total_drops(run),
        "drops_by_port": all_drops(run),
        "watchdog_discards": total_discards(run),
        "watchdog_discards_by_port": watchdog_discards(run),
        "retransmits": retransmits(run),
        "timeouts": kernel_timeouts(run),
        "stalls": [asdict(stall) for stall in run.stalls],
        "ecn_marks": marks(run),
        "cnps": cnps(run),
        "pfc_pauses": pauses(run),
        "pfc_paused_s": paused_s(run),
        "lossless_drops": lossless_drops(run),
        "controller": run.controller,
        "missing": list(run.missing),
        "virtual_s": measured.get("virtual_s"),
        "wall_s": run.provenance.get("wall", {}).get("rounds_s"),
        "kernel": run.provenance.get("kernel", {}).get("version"),
    }


def _fidelity(run: Run) -> dict[str, Any] | None:
    """Whether a run on the real clock can be trusted, with the limits that decide; None on the virtual clock."""
    judged = judge(run)
    return None if judged is None else {**asdict(judged), "limits": [asdict(limit) for limit in judged.limits]}


def write_summary(run: Run) -> Path:
    """Write summary.json into the run directory and return its path."""
    path = run.path / "summary.json"
    write_whole(path, json.dumps(summarize(run), indent=1, ensure_ascii=False) + "\n")
    return path


def comparison(run: Run) -> list[dict[str, Any]]:
    """One row per case, the run itself first."""
    return [compared(case) for case in (run, *run.cases.values())]


def compared(run: Run) -> dict[str, Any]:
    """A row of the comparison: the run's label, what its kind of workload compares, its verdict, and whether a run on
    the real clock can be trusted."""
    kind, judged = kind_of(run), judge(run)
    told = {"verdict": kind.verdict(run).verdict, "fidelity": None if judged is None else judged.verdict}
    return {"label": run.parameters.label, **kind.row(run), **told}
