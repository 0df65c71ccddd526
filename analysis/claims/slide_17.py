"""Slide 17: NVLink's generations, and 20 GB on the 8 GPUs of a server with NVSwitch and without."""

from __future__ import annotations

from functools import partial

from analysis import text
from analysis.claims.judging import near, of_compared, shown, together, told, untold, untold_row
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.shared_runs import HIERARCHY
from analysis.kinds.hierarchy_points import Point, inside_rate, links_inside, points
from analysis.kinds.published import Compared
from analysis.kinds.slides_hierarchy import CLAIMED_20GB_S, SOLD, TOLERANCE, TWENTY_GB, compared
from analysis.run import Run

GENERATIONS = {1: 160e9, 2: 300e9, 3: 600e9, 4: 900e9, 5: 1800e9}  # generation -> bytes/s as sold
TIMES_FASTER = 7.0
_SHORTEST_S = 9e-6  # of a direction of a link: so long the smallest size takes at the least, for delays not to count


def _generation(sold: float, run: Run) -> Judged:
    """What an all-reduce over one server's links gets of them, each way and both."""
    point = next(iter(links_inside(points(run))), None)
    rate = None if point is None else inside_rate(point)
    if point is None or rate is None:
        return untold("both directions", sold, "bytes/s")
    row = near("a GPU's link, both directions", sold, 2 * rate, "bytes/s", TOLERANCE, "slope over four sizes",
               2 * point.inside_bps / 8)  # fmt: skip
    each_way = told("a GPU's link, each way", rate, "bytes/s", "slope over four sizes", point.inside_bps / 8)
    if not row.holds:
        return Judged(NOT_REPRODUCED, f"{text.size(2 * rate)}/s in both directions", (row, each_way))
    if rate >= (1 - TOLERANCE) * sold:
        return Judged(REPRODUCED, f"{text.size(rate)}/s each way", (row, each_way))
    because = f"both directions are counted: each way an all-reduce gets {text.size(rate)}/s of a link"
    return Judged(REPRODUCED_IF, because, (row, each_way))


def _twenty_gb(run: Run) -> Judged:
    """Both times, read off the lines through four sizes."""
    found = [each for each in compared(points(run)) if each.what.startswith("20 GB all-reduce")]
    rows = tuple(row for each, point in zip(found, _links(run)) for row in _times(each, point))
    verdict, because = together(found)
    missing = (untold_row("20 GB all-reduce, 8 GPUs", CLAIMED_20GB_S["NVSwitch"], "s"),)
    return Judged(verdict, because, rows or missing, shown(run, "inside"))


def _links(run: Run) -> tuple[Point, ...]:
    """NVLink and PCIe 5, in the order of the comparisons."""
    found = {SOLD.get(point.inside_bps, ("",))[0]: point for point in links_inside(points(run))}
    return tuple(found[name] for name in ("NVLink 4.0", "PCIe 5") if name in found)


def _times(each: Compared, point: Point) -> tuple[Row, ...]:
    """The claimed time beside that of a ring, and the least that a switch which adds up could reach."""
    claimed_s = CLAIMED_20GB_S["NVSwitch" if "NVSwitch" in each.what else "PCIe"]
    least_s = TWENTY_GB * 8 / point.inside_bps
    row = of_compared(each, claimed_s, point.extrapolated_s(TWENTY_GB), "s", point.modelled_s(TWENTY_GB), True)
    source = "arithmetic: the data once over a link, each way"
    return row, Row(f"{each.what}: the least with sums in the switch", None, least_s, None, "s", "", None, source)


def _seven_times(run: Run) -> Judged:
    """The ratio of both lines at 20 GB."""
    found = [each for each in compared(points(run)) if each.what.startswith("20 GB, 8 GPUs")]
    links = _links(run)
    times = [point.extrapolated_s(TWENTY_GB) for point in links]
    ratio = times[1] / times[0] if len(times) == 2 and times[0] and times[1] else None
    modelled = links[0].inside_bps / links[1].inside_bps if len(links) == 2 else None
    verdict, because = together(found)
    row = near("20 GB: PCIe 5 over NVSwitch", TIMES_FASTER, ratio, "x", TOLERANCE, "lines of both", modelled, True)
    return Judged(verdict, because, (row,), shown(run, "inside"))


def _of_generation(number: int) -> Claim:
    sold = GENERATIONS[number]
    least_mib = max(2, round(sold / 2 * _SHORTEST_S / 2**20))
    sizes = ",".join(f"{step * least_mib}MiB" for step in (1, 2, 3, 4))
    keys = {"nvlink_rate": f"{sold * 4 / 1e9:g}Gbps", "algorithm": "ring", "ranks": "8", "sizes": sizes}
    return Claim(
        key=f"nvlink_{number}",
        slides="17",
        says=f"NVLink of generation {number} has {sold / 1e9:g} GB/s for each GPU.",
        figures=f"{sold / 1e9:g} GB/s",
        trial=Trial("hierarchy", {**keys, "iterations": "1"}, keys, only=True),
        model="T(S) = alpha + 2 (n-1)/n S / B on a ring of 8 GPUs; B from the slope over four sizes",
        tolerance="within 10 %",
        judge=partial(_generation, sold),
        assumptions=("the hardware is a link of half the sold rate each way; an all-reduce tells what it carries",),
    )


CLAIMS: tuple[Claim, ...] = (
    *(_of_generation(number) for number in GENERATIONS),
    Claim(
        key="nvswitch_20gb",
        slides="17",
        says="An all-reduce of 20 GB on 8 GPUs takes about 22 ms with NVSwitch, about 150 ms without.",
        figures="22 ms, 150 ms",
        trial=HIERARCHY,
        model="T(S) = alpha + 2 (n-1)/n S / B: 78 ms at 450 GB/s each way, 547 ms at 64",
        tolerance="within 10 %",
        judge=_twenty_gb,
        assumptions=("20 GB are not sent: read off the line through four sizes", "without NVSwitch: PCIe 5"),
    ),
    Claim(
        key="nvswitch_7_times",
        slides="17",
        says="With NVSwitch an all-reduce of 20 GB is 7 times faster.",
        figures="7x",
        trial=HIERARCHY,
        model="B of NVLink 4.0 over B of PCIe 5: 900 / 128",
        tolerance="within 10 %",
        judge=_seven_times,
        assumptions=("20 GB are not sent: read off the lines through four sizes",),
    ),
)
