"""DCQCN's convergence: flows join and leave, and share one link fairly with a short queue and without pauses (a kind,
see analysis/kinds; Zhu et al., SIGCOMM 2015, section 6)."""

from __future__ import annotations

from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.dcqcn_model import Curve, Sender, marking_probability
from analysis.figures import long_flows as figures_of_long_flows
from analysis.figures.style import Drawn
from analysis.kinds import long_flows as generic
from analysis.kinds.fairness import FAIR_INDEX, judged
from analysis.kinds.long_flows import against as against
from analysis.kinds.long_flows import beside as beside
from analysis.kinds.long_flows import draw, flows_table, judge
from analysis.kinds.long_flows import headline as headline
from analysis.kinds.long_flows import tiles as tiles
from analysis.kinds.pfc_unfairness import compared_line
from analysis.kinds.published import FROM_MEMORY, HPCC_PAPER, Compared, published_table
from analysis.kinds.shares import (
    FULL_SHARE,
    alike,
    all_phases,
    bottleneck,
    equal,
    full,
    lossless,
    queue,
    settling_s,
    unpaused,
    window_words,
)
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import Evidence, Verdict
from topologies.units import parse_bytes, parse_duration_ns, parse_rate_bps

CONVERGES = "converges"
UNFAIR, IDLE, DEEP = "stays unfair", "leaves the line idle", "queue above Kmax"
AT_KMAX = "queue above Kmax, where its fixed point is"
PAUSED, LOSES = "still pauses", "loses packets"
_HPCC_SENDERS, _HPCC_QUEUE_BYTES, _HPCC_TOLERANCE = 7, 550_000, 0.25
_HPCC_THRESHOLDS = (100_000, 400_000)  # Kmin and Kmax at 25 Gb/s, scaled with the rate
_HPCC_BASE_BPS = 25 * 10**9

RULE = (
    f"DCQCN converges when, in the second half of the longest time in which most flows send, Jain's index is "
    f"{FAIR_INDEX:g} or more, {FULL_SHARE:.0%} of what the link can carry arrives, the queue's 99th percentile is "
    "under Kmax, no port pauses, and nothing is lost."
)

COLUMNS = (
    Column("flows", "flows", text.count, essential=True),
    Column("line", "rate_bps", text.rate),
    *generic.COLUMNS,
    Column("Kmax", "kmax_bytes", text.size),
    Column("queue modelled", "queue_modelled_bytes", text.size, on_page=True),
    Column("settles in", "settles_s", text.seconds),
)


def _flows(run: Run) -> int:
    """How many flows share the bottleneck where they are judged."""
    window = judged(all_phases(run))
    return len({flow.name for flow in bottleneck(run)}.intersection(window.flows)) if window else 0


def modelled_queue_bytes(run: Run) -> float | None:
    """The queue at DCQCN's fixed point; None where the run does not mark by a curve, or no flow is known."""
    spec, path = run.spec, run.parameters.path
    kmin_bytes, kmax_bytes = run.parameters.kmin_bytes, run.parameters.kmax_bytes
    if not run.has_dcqcn or kmin_bytes is None or kmax_bytes is None or not _flows(run):
        return None
    sender = Sender(
        parse_rate_bps(spec["dcqcn_rai"], "dcqcn_rai"),
        parse_duration_ns(spec["dcqcn_rate_timer"], "dcqcn_rate_timer"),
        parse_bytes(spec["dcqcn_byte_counter"], "dcqcn_byte_counter"),
        parse_duration_ns(spec["dcqcn_alpha_timer"], "dcqcn_alpha_timer"),
        path.frame_bytes,
    )
    probability = marking_probability(sender, _flows(run), path.rate_bps)
    return Curve(kmin_bytes, kmax_bytes, float(spec["pmax"])).queue_bytes(probability)


def summarize(run: Run) -> dict[str, Any]:
    """What the flows got, and how long each change took to settle."""
    told = generic.summarize(run)
    return {
        **told,
        "long_flows": {
            **told["long_flows"],
            "queue_modelled_bytes": modelled_queue_bytes(run),
            "settling": [{"flows": len(phase.flows), "seconds": time_s} for phase, time_s in settling_s(run)],
        },
    }


def verdict(run: Run) -> Verdict:
    """Whether the flows converge, or what stands against it first."""
    pieces = (
        (equal(run), UNFAIR),
        (full(run), IDLE),
        (_shallow(run), AT_KMAX if _is_pinned(run) else DEEP),
        (unpaused(run), PAUSED),
        (lossless(run), LOSES),
    )
    return judge("DCQCN's convergence", run, pieces, CONVERGES)


def _is_pinned(run: Run) -> bool:
    """Whether so many flows need more marks than the curve gives below Kmax: the queue then stands where all are
    marked."""
    return modelled_queue_bytes(run) == run.parameters.kmax_bytes


def _shallow(run: Run) -> Evidence:
    depth, kmax_bytes = queue(run), run.parameters.kmax_bytes
    known = depth is not None and kmax_bytes is not None
    return Evidence(
        name="queue, 99th percentile",
        configured=None if kmax_bytes is None else f"Kmax {text.size(kmax_bytes)}",
        modelled=modelled_queue_bytes(run),
        measured=depth.p99_bytes if depth else None,
        unit="bytes",
        tolerance=f"under Kmax, {window_words(run)}; modelled is the fixed point, about which it swings",
        holds=depth.p99_bytes < kmax_bytes if depth is not None and kmax_bytes is not None else None,
        source="telemetry/queue.parquet" if known else "no queue samples of a hot port, or nothing is marked",
    )


def figures(run: Run) -> list[Drawn]:
    """Goodput and fairness as flows join and leave, DCQCN's rates, the queue, the cases, and the pauses."""
    return draw(
        run,
        goodput=figures_of_long_flows.goodput,
        fairness=figures_of_long_flows.fairness_over_time,
        rates=figures_of_long_flows.rates,
        queue=figures_of_long_flows.queue_over_time,
        cases=figures_of_long_flows.cases,
        pauses=figures_of_long_flows.pause_timeline,
    )


def sections(run: Run) -> Html:
    """Beside the published figures, how long changes took to settle, then every flow."""
    told = (line for each in alike(run).values() for line in compared(each))
    return Html(published_table(told) + _settling(run) + flows_table(run))


def _settling(run: Run) -> str:
    found = settling_s(run)
    begin_ns = all_phases(run)[0].start_ns if found else 0
    rows = [
        [
            text.seconds((phase.start_ns - begin_ns) / 1e9),
            text.count(len(phase.flows)),
            text.seconds(phase.length_ns / 1e9),
            text.seconds(time_s) if time_s is not None else "not within it",
        ]
        for phase, time_s in found
    ]
    heads = ("phase begins", "flows", "lasts", f"Jain's index stays at {FAIR_INDEX:g} after")
    return f"<h2>After each change</h2>\n{table(heads, rows, numbers=range(4))}\n" if rows else ""


def compared(run: Run) -> list[Compared]:
    """The published use of the line, and of the case that HPCC's authors ran, the queue, beside the run's."""
    if not run.has_dcqcn:
        return []
    return [compared_line(run), *([_compared_queue(run)] if _is_hpccs(run) else [])]


def _is_hpccs(run: Run) -> bool:
    """Whether the run has the thresholds and the number of flows of HPCC's comparison."""
    rate_bps = run.parameters.path.rate_bps
    thresholds = tuple(bound * rate_bps // _HPCC_BASE_BPS for bound in _HPCC_THRESHOLDS)
    return _flows(run) == _HPCC_SENDERS and thresholds == (run.parameters.kmin_bytes, run.parameters.kmax_bytes)


def _compared_queue(run: Run) -> Compared:
    series = run.queue(run.hot_port)
    most_bytes = int(series.queue_bytes.max()) if series is not None and len(series) else None
    near = None if most_bytes is None else abs(most_bytes - _HPCC_QUEUE_BYTES) <= _HPCC_TOLERANCE * _HPCC_QUEUE_BYTES
    return Compared(
        run.parameters.label,
        f"the longest queue of DCQCN, {_HPCC_SENDERS}:1",
        text.size(_HPCC_QUEUE_BYTES),
        HPCC_PAPER,
        text.size(modelled_queue_bytes(run)),
        text.size(most_bytes),
        f"within {_HPCC_TOLERANCE:.0%} ({FROM_MEMORY})",
        near,
        f"{text.size(most_bytes)} gather before the first CNPs act, for all begin at line rate at once here",
    )


def row(run: Run) -> dict[str, Any]:
    """What the flows get, the queue beside Kmax and the model, and the longest time that a change took to settle."""
    times = [time_s for _, time_s in settling_s(run)]
    return {
        "flows": _flows(run),
        "rate_bps": run.parameters.path.rate_bps,
        **generic.row(run),
        "kmax_bytes": run.parameters.kmax_bytes,
        "queue_modelled_bytes": modelled_queue_bytes(run),
        "settles_s": max((time_s or 0 for time_s in times), default=None) if None not in times else None,
    }
