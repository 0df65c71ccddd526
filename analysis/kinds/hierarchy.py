"""All-reduce in a GPU pod: the gap between links inside a server and between servers, and the lecture's figures for
both (a kind, see analysis/kinds).

Sold bandwidths count both directions, and the lecture's times of 20 GB and 1 GB are the size over such a figure: what
each of them would need is told beside what is measured. Sizes that are too many to send are read off the line of least
squares through four that were.
"""

from __future__ import annotations

from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures import hierarchy as figures_of_hierarchy
from analysis.figures.style import Drawn
from analysis.kinds import collective as generic
from analysis.kinds.collective import COLUMNS as COLUMNS
from analysis.kinds.collective import against as against
from analysis.kinds.collective import own_table as own_table
from analysis.kinds.collective import row as row
from analysis.kinds.hierarchy_points import (
    OVERLAPPED,
    RING,
    Point,
    between_rate,
    common_size,
    inside_rate,
    links_inside,
    most_servers,
    pick,
    points,
)
from analysis.kinds.published import published_table
from analysis.kinds.slides_hierarchy import compared
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, proven

NAME = "hierarchy"
GAIN_TOLERANCE = 0.10  # of the hierarchical algorithm's gain, beside the model's
FLAT_TOLERANCE = 0.10  # of the flat ring's bus bandwidth, beside one NIC's payload

RULE = (
    "The gap is worth the hierarchy when, on the largest pod, a flat ring gives no more than one NIC's bandwidth, "
    f"within {FLAT_TOLERANCE:.0%}, and the hierarchical algorithm's gain over it is the model's "
    f"within {GAIN_TOLERANCE:.0%}. All numbers must be NumPy's, in every run."
)


def summarize(run: Run) -> dict[str, Any]:
    """The run's own table, then the lines through all runs' sizes, the rates inside and between, and the lecture's
    figures."""
    found = points(run)
    return {
        **generic.summarize(run),
        "hierarchy": {
            "runs": {point.label: _told(point) for point in found},
            "inside_bytes_ps": {str(point.inside_bps): inside_rate(point) for point in links_inside(found)},
            "between_bytes_ps": between_rate(found),
            "gain": _gain(found),
            "published": [
                {"what": each.what, "published": each.published, "measured": each.measured, "verdict": each.verdict}
                for each in compared(found)
            ],
        },
    }


def _told(point: Point) -> dict[str, Any]:
    line = point.line
    return {
        "servers": point.servers,
        "way": point.way,
        "inside_bps": point.inside_bps,
        "alpha_s": None if line is None else line.alpha_s,
        "beta_s": None if line is None else line.beta_s,
        "error": None if line is None else line.error,
        "extrapolated_1gb_s": point.extrapolated_s(1e9),
    }


def _gain(found: list[Point]) -> tuple[float, float] | None:
    """How many times as fast as the flat ring the hierarchical algorithm is on the largest pod at the largest size of
    both, measured and modelled; None without both."""
    servers = most_servers(found)
    flat, layered = pick(found, servers, RING), pick(found, servers, OVERLAPPED)
    if flat is None or layered is None or servers < 2:
        return None
    size_bytes = common_size(flat, layered)
    if size_bytes is None:
        return None
    modelled = flat.modelled_s(size_bytes) / layered.modelled_s(size_bytes)
    return flat.times_s[size_bytes] / layered.times_s[size_bytes], modelled


def verdict(run: Run) -> Verdict:
    """Whether the hierarchy is worth what the model says, every result being right."""
    if not run.cases:
        return generic.judged(run, NAME)
    _, lost, modelled, processor = generic.verdict(run).evidence
    pieces = (generic.all_right(run), lost, modelled, _flat(run), _gained(run), processor)
    failed = next((piece.name for piece in pieces if piece.applies and piece.holds is False), None)
    if failed:
        found = Verdict(NAME, f"not as modelled: {failed}", pieces, good=False)
        return found if pieces[0].holds is False else proven(found)
    gain = _gain(points(run))
    if gain is None or any(piece.holds is None for piece in pieces if piece.applies):
        return Verdict(NAME, NOT_PROVEN, pieces)
    return Verdict(NAME, f"hierarchical {text.times(gain[0])} as fast as flat", pieces, good=True)


def _flat(run: Run) -> Evidence:
    """The flat ring's bus bandwidth beside one NIC's payload."""
    found = points(run)
    flat = pick(found, most_servers(found), RING) if most_servers(found) > 1 else None
    measured_bps = None if flat is None else 8 * flat.rows[-1].busbw
    modelled_bps = None if flat is None else 8 / flat.setting.outer.beta_s
    holds = None
    if measured_bps is not None and modelled_bps is not None:
        holds = abs(measured_bps / modelled_bps - 1) <= FLAT_TOLERANCE
    return Evidence(
        name="flat ring's bus bandwidth",
        configured=run.parameters.path.rate_bps,
        modelled=modelled_bps,
        measured=measured_bps,
        unit="b/s",
        tolerance=f"within {FLAT_TOLERANCE:.0%} of what one NIC carries of payload: the ring leaves each server by one",
        holds=holds,
        source="calls of the cases" if flat is not None else "no flat ring over several servers",
    )


def _gained(run: Run) -> Evidence:
    gain = _gain(points(run))
    return Evidence(
        name="hierarchical over flat",
        configured=None,
        modelled=None if gain is None else text.times(gain[1]),
        measured=None if gain is None else text.times(gain[0]),
        unit="",
        tolerance=f"within {GAIN_TOLERANCE:.0%} of the model's, {most_servers(points(run))} servers, the largest size"
        " that both sent",
        holds=None if gain is None else abs(gain[0] / gain[1] - 1) <= GAIN_TOLERANCE,
        source="calls of the cases" if gain is not None else "no flat and hierarchical run over several servers",
    )


def headline(run: Run) -> str:
    """Rates inside and between, and what the hierarchical algorithm makes of them."""
    found = points(run)
    alone, between, gain = pick(found, 1, RING), between_rate(found), _gain(found)
    inside = None if alone is None else inside_rate(alone)
    if inside is None or between is None or gain is None:
        return generic.headline(run)
    inside *= GPUS_PER_SERVER
    return (
        f"{text.size(inside)}/s inside a server, {text.size(between)}/s between servers, each way: "
        f"{inside / between:.1f}-fold; on {most_servers(found) * GPUS_PER_SERVER} GPUs the hierarchical all-reduce is "
        f"{text.times(gain[0])} as fast as the flat ring"
    )


def beside(run: Run) -> str:
    """1 GB on the pods that ran, read off the lines."""
    told = [
        f"{point.label}: {text.seconds(point.extrapolated_s(1e9))}" for point in points(run) if point.line is not None
    ]
    return f"1 GB, read off the lines: {'; '.join(told)}." if len(told) > 1 else ""


def tiles(run: Run) -> list[tuple[str, str]]:
    """Rates, gap and gain."""
    found = points(run)
    told = [
        (f"inside a server, link of {text.rate(point.inside_bps)}", f"{text.size(rate * GPUS_PER_SERVER)}/s")
        for point in links_inside(found)
        if (rate := inside_rate(point)) is not None
    ]
    between, gain = between_rate(found), _gain(found)
    told += [("between servers", f"{text.size(between)}/s")] if between else []
    told += [("hierarchical over flat", text.times(gain[0]))] if gain else []
    return told or generic.tiles(run)


def figures(run: Run) -> list[Drawn]:
    """1 GB over the GPUs beside slide 19, a server alone beside slide 17, the ways beside each other; the run's own."""
    drawings = {
        "gpus": figures_of_hierarchy.gpus,
        "inside": figures_of_hierarchy.inside,
        "ways": figures_of_hierarchy.ways,
    }
    return [*generic.draw(run, **drawings), *generic.own_figures(run)]


def sections(run: Run) -> Html:
    """The lecture's figures, the lines, then the run's own table."""
    found = points(run)
    return Html(published_table(compared(found)) + _lines(found) + generic.sections(run))


_LINES = (
    Column("run", "label", is_number=False),
    Column("GPUs", "gpus", text.count),
    Column("way", "way", is_number=False),
    Column("link inside", "inside_bps", text.rate),
    Column("largest", "sent", text.size),
    Column("time", "seconds", text.seconds),
    Column("of model", "of_model", generic.times_model),
    Column("alpha", "alpha_s", text.seconds),
    Column("rate of large sizes", "slope_bps", text.rate),
    Column("off at most", "error", lambda value: text.NOTHING if value is None else f"{value:.1%}"),
    Column("1 GB by the line", "extrapolated_1gb_s", text.seconds),
)


def _lines(found: list[Point]) -> str:
    """Every run's largest size and the line through its sizes."""
    rows = []
    for point in found:
        largest, told = point.rows[-1], _told(point)
        slope = None if point.line is None else 8 / point.line.beta_s
        more = {"label": point.label, "gpus": point.servers * GPUS_PER_SERVER, "slope_bps": slope}
        sent = {"sent": largest.size_bytes, "seconds": largest.seconds, "of_model": largest.of_model}
        rows.append([column.cell({**told, **more, **sent}) for column in _LINES])
    numbers = [place for place, column in enumerate(_LINES) if column.is_number]
    shown = table([column.name for column in _LINES], rows, numbers=numbers, stacked=True)
    return f"<h2>Lines through the sizes</h2>\n{shown}\n" if rows else ""
