"""Slide 14: what of a job's hour incast takes."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import near, shown, told, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.slide_14 import FALL, LINUX_S
from analysis.kinds.breakdown_points import gradient_bytes
from analysis.kinds.training_steps import compute_s, rank_hosts, step_s, waiting_s
from analysis.measures import kernel_timeouts
from analysis.run import Run

LOST_MINUTES, HOUR = 40.0, 60.0
SHARE = 0.10
_STEPS = "steps of measured.json"


def _job(run: Run) -> Judged:
    """What of an hour of training a timeout in each step takes, and what the job's throughput falls by."""
    length_s, waits_s, computes_s = step_s(run), waiting_s(run), compute_s(run)
    if length_s is None or waits_s is None or computes_s is None:
        return untold("lost of an hour", LOST_MINUTES, "min")
    travel_s = _travel_s(run)
    stalled_s = max(waits_s - travel_s, 0.0)
    without_s, fired = computes_s + travel_s, kernel_timeouts(run)
    rows = (
        near("lost of an hour", LOST_MINUTES, HOUR * stalled_s / length_s, "min", SHARE, _STEPS,
             HOUR * LINUX_S / (without_s + LINUX_S)),
        near("steps a second fall", FALL[0], length_s / without_s, "x", SHARE, _STEPS, 1 + LINUX_S / without_s),
        Row("timeouts", None, None, fired, "", "at least 1", None if fired is None else fired > 0,
            "kernel counters of measured.json"),
        told("a step", length_s, "s", _STEPS, without_s + LINUX_S),
        told("step without loss of which 40 of 60 minutes are lost", stalled_s / 2, "s", _STEPS, LINUX_S / 2),
    )  # fmt: skip
    words = (
        f"{len(rank_hosts(run))} workers' gradients meet at one port, each step stands still for"
        f" {text.seconds(stalled_s)} of {text.seconds(length_s)}: {HOUR * stalled_s / length_s:.1f} minutes of an hour"
    )
    if not all(row.holds for row in rows[:3]):
        return Judged(NOT_REPRODUCED, words, rows, shown(run, "parts"))
    because = f"a step takes {text.seconds(without_s)} without loss and meets one timeout of 200 ms: {words}"
    return Judged(REPRODUCED_IF, because, rows, shown(run, "parts"))


def _travel_s(run: Run) -> float:
    """All gradients to the server, and all parameters back, over its one link."""
    return 2 * len(rank_hosts(run)) * gradient_bytes(run) * 8 / run.parameters.path.rate_bps


_JOB = {
    "ranks": "100",
    "rate": "400Gbps",
    "algorithm": "parameter_server",
    "queue": "droptail",
    "buffer": "600KB",
    "mtu": "1500B",
    "gradient": "256KiB",
    "compute": "100ms",
}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="incast_job",
        slides="14",
        says="40 minutes of a 1-hour job are lost.",
        figures="40 of 60 minutes",
        trial=Trial("training_breakdown", {**_JOB, "steps": "4"}, {**_JOB, "steps": "20"}, only=True),
        model="60 min x W / (T + W), W = 200 ms a step: 40 where a step takes T = W / 2 without loss",
        tolerance=f"within {SHARE:.0%}",
        judge=_job,
        assumptions=(
            "100 workers and one parameter server at 400 Gb/s with 600 KB a port; an hour is as its steps are",
            "the slide names no step: one that takes 100 ms is tried",
        ),
    ),
)
