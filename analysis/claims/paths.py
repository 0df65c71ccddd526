"""What slides 10 to 12 ask of several fabrics: hops as laid out, and what hosts get where paths are chosen evenly, or
by hashes."""

from __future__ import annotations

from analysis.claims.judging import UNTOLD, near, shown, told, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Judged, Row, Trial
from analysis.fabric import Fabric
from analysis.kinds import bisection
from analysis.kinds.bisection import FULL_SHARE
from analysis.kinds.probes import Probe, probes
from analysis.run import Run

EVEN, HASHED = "d_mod_k", "ecmp"
# Slides 10 and 12 read one run of each, slides 10 and 11 that on leaf-spine.
BISECTION = Trial("bisection", {}, {}, cases=("ecmp", "all_to_all", "fat_tree", "fat_tree-ecmp"))
FAILOVER = Trial(
    "failover",
    {},
    {},
    quick_cases=("link-controller_alone", "spine", "spine-controller_alone", "controller_dies", "fat_tree"),
)
LEAF_SPINE = Trial(
    "hops",
    {"topology": "leaf_spine", "leaves": "4", "hosts_per_leaf": "4"},
    {"topology": "leaf_spine", "leaves": "8", "hosts_per_leaf": "4"},
    only=True,
)
_TRANSFERS = "transfers of measured.json"


def apart(run: Run, links: int) -> list[Probe]:
    """The pairs that so many links lie between, as laid out."""
    return [probe for probe in probes(run) if probe.expected_links == links]


def tiers_row(run: Run, claimed: int) -> Row:
    """The highest tier of the fabric's switches."""
    measured = None if run.fabric is None else float(Fabric.of(run.fabric).highest_tier)
    return near("tiers of switches", claimed, measured, "", 0.0, "fabric.json")


def line_over_worst(run: Run) -> tuple[float | None, float | None]:
    """The line rate over what the worst host receives, measured and by the links; None where the run does not tell."""
    least, line_bps = bisection.worst(run), run.parameters.path.rate_bps
    if least is None:
        return None, None
    return line_bps / least.rate_bps, line_bps / least.best_bps if least.best_bps else None


def evenly(topology: str, run: Run) -> Judged:
    """Whether all hosts of a fabric get their line rate: with even paths, and with hashed ones."""
    found = [each for each in (run, *run.cases.values()) if each.parameters.topology == topology]
    rows = tuple(_row(each) for each in found)
    even, hashed = (_ratio(found, routing) for routing in (EVEN, HASHED))
    figures = shown(run, "bisection", "collisions")
    if even is None or hashed is None:
        return Judged(NOT_REPRODUCED, UNTOLD, rows or (untold_row(topology, 1.0, ""),), figures)
    words = f"the worst host gets its rate over {even:.2f} with even paths, over {hashed:.2f} where switches hash flows"
    if not _is_full(even):
        return Judged(NOT_REPRODUCED, words, rows, figures)
    if _is_full(hashed):
        return Judged(REPRODUCED, words, rows, figures)
    return Judged(REPRODUCED_IF, f"paths are chosen so that no two flows share an uplink: {words}", rows, figures)


def _ratio(found: list[Run], routing: str) -> float | None:
    """Line rate over the worst host's of the permutation by a routing."""
    asked = (each for each in found if (each.workload, each.spec.get("routing")) == ("permutation", routing))
    run = next(asked, None)
    return None if run is None else line_over_worst(run)[0]


def _is_full(ratio: float) -> bool:
    return ratio * FULL_SHARE <= 1


def _row(run: Run) -> Row:
    """The permutation decides; other traffic is told beside it."""
    measured, modelled = line_over_worst(run)
    what = f"line rate over the worst host's, {run.workload.replace('_', ' ')}, {run.spec.get('routing')}"
    if run.workload != "permutation":
        return told(what, measured, "", _TRANSFERS, modelled)
    holds = None if measured is None else _is_full(measured)
    return Row(what, 1.0, modelled, measured, "", f"at most {1 / FULL_SHARE:.2f}", holds, _TRANSFERS)
