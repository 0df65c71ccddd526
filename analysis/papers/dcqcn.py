"""SIGCOMM 2015, DCQCN: unfairness and victims of PFC alone, and their cure; the line's use; HPCC's 7 to 1."""

from __future__ import annotations

from analysis.papers.measures import (
    jain,
    line_share,
    longest_queue_kb,
    lot_share,
    victim_line_share,
    victim_way_share,
)
from analysis.papers.model import LINEAR, LOG, NAMES, Curve, CurveSet, Point, Source

_PAPER = "Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015"
_ADDRESS = "https://doi.org/10.1145/2785956.2787484"
SENDERS = (2, 4, 8, 16)
_ROCE = "soft-RoCE on hosts that take no time; a queue pair has up to 513 packets under way"


def _source(where: str, words: str) -> Source:
    return Source(_PAPER, where, _ADDRESS, f"text: {words}")


def ratio_run(senders: int) -> str:
    """The run of so many senders to one receiver at 40 Gb/s."""
    return f"dcqcn_convergence-{senders}to1-40g"


LOT_RUN, LOT_DCQCN_RUN = "pfc_unfairness-main", "pfc_unfairness-dcqcn"
VICTIM_RUNS = ("victim-main", "victim-elsewhere-1", "victim-elsewhere-2")
VICTIM_DCQCN_RUNS = ("victim-dcqcn", "victim-dcqcn-elsewhere-1", "victim-dcqcn-elsewhere-2")
HPCC_RUN = "dcqcn_convergence-7to1-25g-hpcc"

FAIRNESS = CurveSet(
    key="dcqcn_fairness",
    title="Parking lot, 40 Gb/s: the flow alone behind its port, and each of three that share one",
    x="flow",
    y="share of the line",
    axis=NAMES,
    curves=(
        Curve(
            "PFC alone",
            "",
            _source(
                "section 2.2, figure 3",
                "the flow alone gets as much as 20 of 40 Gb/s when the others share one port; the rest is shared alike",
            ),
            (Point("alone", 1 / 2, LOT_RUN), Point("sharing", 1 / 6, LOT_RUN)),
            lot_share,
            within=1.1,
            why="as experiment pfc_unfairness judges a port's share",
            every=True,
        ),
        Curve(
            "DCQCN",
            "",
            _source("section 3.2, figure 8", "all four flows get an equal share of the bottleneck"),
            (Point("alone", 1 / 4, LOT_DCQCN_RUN), Point("sharing", 1 / 4, LOT_DCQCN_RUN)),
            lot_share,
            within=1.1,
            why="as experiment pfc_unfairness judges a port's share",
            every=True,
        ),
    ),
    differs=("one spine, so that all flows of a leaf come in by one port; hashes decide in the paper", _ROCE),
)
VICTIM = CurveSet(
    key="dcqcn_victim",
    title="Victim flow, 40 Gb/s: its share of the line with PFC alone, of what its way leaves with DCQCN",
    x="senders elsewhere",
    y="share of the line, of its way",
    axis=LINEAR,
    curves=(
        Curve(
            "PFC alone",
            "",
            _source(
                "section 2.2, figure 4",
                "the median of 250 transfers is 10 of 40 Gb/s, and 4.5 with two senders elsewhere; with one of them it "
                "is drawn alone",
            ),
            tuple(
                Point(extra, published, run)
                for extra, published, run in zip((0, 1, 2), (10 / 40, None, 4.5 / 40), VICTIM_RUNS)
            ),
            victim_line_share,
            within=1.25,
            why="as experiment victim judges it",
            every=True,
        ),
        Curve(
            "DCQCN",
            "",
            _source(
                "section 3.2, figure 9",
                "the victim's throughput does not change as senders are added; taken as all that its way leaves",
            ),
            tuple(Point(extra, 1.0, run) for extra, run in zip((0, 1, 2), VICTIM_DCQCN_RUNS)),
            victim_way_share,
            within=1 / 0.9,
            why="spared from 90 % on, as experiment victim judges it",
            every=True,
        ),
    ),
    differs=(
        "further senders come in by a port each, and ports are served alike; in the paper they meet the others on two "
        "switches, where hashes decide",
        "one spine with uplinks as fast as both of the paper's; further senders have a leaf of their own",
        _ROCE,
    ),
)
CONVERGENCE = CurveSet(
    key="dcqcn_convergence",
    title="DCQCN once settled, N to 1 at 40 Gb/s",
    x="senders",
    y="share, index",
    axis=LOG,
    curves=(
        Curve(
            "use of the line",
            "",
            _source("section 6.1", "always more than 39 of 40 Gb/s, for 1 to 19 senders to one receiver"),
            tuple(Point(senders, 39 / 40, ratio_run(senders)) for senders in SENDERS),
            line_share,
            within=1.0,
            why="a bound",
            every=True,
            at_least=True,
        ),
        Curve(
            "Jain's index",
            "",
            _source("section 6.1", "flows get a similar throughput on average; taken as an index of 1"),
            tuple(Point(senders, 1.0, ratio_run(senders)) for senders in SENDERS),
            jain,
            within=1 / 0.95,
            why="fair from 0.95 on, as experiment dcqcn_convergence judges it",
            every=True,
        ),
    ),
    differs=("packets of 1 KB, a buffer of 600 KB a port", _ROCE),
)
QUEUE = CurveSet(
    key="dcqcn_queue",
    title="DCQCN's longest queue, 7 to 1 at 25 Gb/s, with the thresholds of HPCC's authors",
    x="incast",
    y="longest queue in KB",
    axis=NAMES,
    curves=(
        Curve(
            "DCQCN",
            "KB",
            Source(
                "Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019",
                "its comparison with DCQCN",
                "https://doi.org/10.1145/3341302.3342085",
                "one number, as this project was given it",
            ),
            (Point("7:1", 550.0, HPCC_RUN),),
            longest_queue_kb,
            within=1.25,
            why="as experiment dcqcn_convergence judges it",
        ),
    ),
    differs=("all flows begin at line rate at once here, and what gathers before the first CNPs act counts", _ROCE),
)
