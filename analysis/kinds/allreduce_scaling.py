"""All-reduce over the number of ranks: the parameter server's time grows with them, the ring's bytes per node do not,
and delays let trees overtake rings (a kind, see analysis/kinds)."""

from __future__ import annotations

from typing import Any

from analysis import text
from analysis.figures import scaling as figures_of_scaling
from analysis.figures.style import Drawn
from analysis.kinds import collective as generic
from analysis.kinds.collective import COLUMNS as COLUMNS
from analysis.kinds.collective import against as against
from analysis.kinds.collective import own_table as own_table
from analysis.kinds.collective import row as row
from analysis.kinds.collective_calls import nic_bytes_per_call, rank_hosts
from analysis.kinds.published import Compared, published_table
from analysis.kinds.scaling_points import (
    BERT_LARGE_BYTES,
    MOST_RANKS,
    Crossing,
    Point,
    calibrated,
    calibrated_s,
    compared_bytes,
    modelled_s,
    points,
    rank_crossings,
    size_crossings,
    slope_s,
)
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, proven

AS_CLAIMED = "server linear, ring constant"
SLOPE_TOLERANCE = 0.10  # of the server's time per rank, beside the model's
BYTES_TOLERANCE = 0.10  # of the ring's bytes per node, beside 2 (n-1)/n of the data
_LEAST_POINTS = 3  # numbers of ranks through which a slope goes
_SERVER, _RING = "parameter_server", "ring"
_SLIDE = "slide 8"

RULE = (
    "Slide 8 holds when the parameter server's measured time grows by as much with each rank as the model says, within "
    f"{SLOPE_TOLERANCE:.0%}, and a rank of the ring sends and receives 2 (n-1)/n of the data, headers and "
    f"acknowledgements beside it within {BYTES_TOLERANCE:.0%}, whatever the number of ranks: never more than twice the "
    "data. All numbers must be NumPy's, in every run."
)


def summarize(run: Run) -> dict[str, Any]:
    """The run's own table, the slopes, the crossings, and BERT-Large by the calibrated model."""
    found, size_bytes = points(run), compared_bytes(points(run))
    return {
        **generic.summarize(run),
        "scaling": {
            "size_bytes": size_bytes,
            "seconds": {name: _times(several, size_bytes) for name, several in found.items()},
            "calibrated": {name: _line(several) for name, several in found.items()},
            "server_slope_s": _slopes(run),
            "crossings_over_ranks": [_told(each) for each in rank_crossings(found, size_bytes)],
            "crossings_over_size": [_told(each) for each in size_crossings(found)],
            "bert_large_s": {name: _bert_s(several) for name, several in found.items()},
        },
    }


def _times(several: dict[int, Point], size_bytes: int | None) -> dict[str, float]:
    rows = {number: point.row(size_bytes or 0) for number, point in several.items()}
    return {str(number): row.seconds for number, row in rows.items() if row is not None}


def _line(several: dict[int, Point]) -> dict[str, float] | None:
    line = calibrated(several)
    return None if line is None else {"alpha_s": line.alpha_s, "beta_s": line.beta_s, "error": line.error}


def _told(each: Crossing) -> dict[str, Any]:
    return {
        "overtaken": each.overtaken,
        "overtaking": each.overtaking,
        "place": each.place,
        "seconds": each.seconds,
        "leads": each.leads,
    }


def _bert_s(several: dict[int, Point]) -> dict[str, float] | None:
    """Ranks -> seconds of BERT-Large's gradients, at those that ran and the most of the model."""
    line, last = calibrated(several), max(several)
    if line is None:
        return None
    numbers = [*several, MOST_RANKS]
    return {str(number): calibrated_s(line, several[last], number, BERT_LARGE_BYTES) for number in numbers}


def _slopes(run: Run) -> tuple[float, float] | None:
    """Seconds that one more rank costs the parameter server, measured and modelled, by regression over the numbers of
    ranks; None where too few ran."""
    size_bytes = compared_bytes(points(run))
    several = points(run).get(_SERVER, {})
    measured = {number: row.seconds for number, point in several.items() if (row := point.row(size_bytes or 0))}
    if len(measured) < _LEAST_POINTS:
        return None
    modelled = {number: modelled_s(several[number], number, size_bytes or 0) for number in measured}
    return slope_s(measured), slope_s(modelled)


def verdict(run: Run) -> Verdict:
    """Whether the server grows linearly and the ring stays constant, every result being right."""
    if _is_case(run):
        return generic.judged(run, "allreduce_scaling")
    pieces = (generic.all_right(run), _linear(run), _constant(run), *generic.verdict(run).evidence[1:])
    failed = next((piece.name for piece in pieces if piece.applies and piece.holds is False), None)
    if failed:
        found = Verdict("allreduce_scaling", f"not as claimed: {failed}", pieces, good=False)
        return found if pieces[0].holds is False else proven(found)
    if any(piece.holds is None for piece in pieces if piece.applies):
        return Verdict("allreduce_scaling", NOT_PROVEN, pieces)
    return Verdict("allreduce_scaling", AS_CLAIMED, pieces, good=True)


def _is_case(run: Run) -> bool:
    """Whether the run is one point, beside which there are no others."""
    return not run.cases


def _linear(run: Run) -> Evidence:
    slopes, size_bytes = _slopes(run), compared_bytes(points(run))
    numbers = ", ".join(map(str, points(run).get(_SERVER, {})))
    return Evidence(
        name="server's time for each further rank",
        configured=None if size_bytes is None else text.size(size_bytes),
        modelled=None if slopes is None else slopes[1],
        measured=None if slopes is None else slopes[0],
        unit="s",
        tolerance=f"slope of the regression over {numbers} ranks within {SLOPE_TOLERANCE:.0%} of the model's",
        holds=None if slopes is None else abs(slopes[0] / slopes[1] - 1) <= SLOPE_TOLERANCE,
        source="calls of the cases" if slopes else "too few runs of the parameter server",
    )


def ring_bytes(run: Run) -> dict[int, tuple[float, float]]:
    """Ranks -> bytes of the busiest rank's NIC in a call, measured on the wire and modelled without headers; of the
    ring."""
    size_bytes, found = compared_bytes(points(run)), {}
    for number, point in points(run).get(_RING, {}).items():
        row = point.row(size_bytes or 0)
        measured = None if row is None else nic_bytes_per_call(point.run, row, rank_hosts(point.run))
        if measured is not None and row is not None:
            found[number] = (measured, 2 * (number - 1) / number * row.size_bytes)
    return found


def _constant(run: Run) -> Evidence:
    """The number of ranks at which the ring's bytes per node are farthest from 2 (n-1)/n of the data."""
    found = ring_bytes(run)
    known = len(found) >= _LEAST_POINTS
    worst = max(found, key=lambda number: abs(found[number][0] / found[number][1] - 1), default=None)
    measured, modelled = found[worst] if worst is not None and known else (None, None)
    return Evidence(
        name="ring's bytes per node",
        configured=f"{', '.join(map(str, found))} ranks",
        modelled=modelled,
        measured=measured,
        unit="bytes",
        tolerance=f"2 (n-1)/n of the data at every number of ranks, within {BYTES_TOLERANCE:.0%} for headers and "
        f"acknowledgements; here {worst} ranks",
        holds=abs(measured / modelled - 1) <= BYTES_TOLERANCE if measured is not None and modelled else None,
        source="nic_bytes of measured.json" if known else "too few runs of the ring, or no bytes of NICs",
    )


def headline(run: Run) -> str:
    """What a further rank costs the server, and what a rank of the ring carries."""
    slopes, found = _slopes(run), ring_bytes(run)
    if slopes is None or not found:
        return generic.headline(run)
    size = text.size(compared_bytes(points(run)))
    least, most = (each(measured for measured, _ in found.values()) for each in (min, max))
    return (
        f"All-reduce of {size}: each further rank costs the parameter server {text.seconds(slopes[0])}; a rank of the "
        f"ring sends {text.size(least)} with {min(found)} ranks and {text.size(most)} with {max(found)}"
    )


def beside(run: Run) -> str:
    """Where one algorithm overtakes another."""
    found = points(run)
    size_bytes = compared_bytes(found)
    told = [
        f"{each.overtaking} overtakes {each.overtaken} at {text.count(each.place)} ranks"
        for each in rank_crossings(found, size_bytes)
        if each.leads
    ]
    told += [
        f"with {_most(found)} ranks {each.overtaking} overtakes {each.overtaken} from {text.size(each.place)} on"
        for each in size_crossings(found)
        if each.leads
    ]
    return f"By the model, {'; '.join(told)}." if told else ""


def _most(found: dict[str, dict[int, Point]]) -> int:
    return max(max(several) for several in found.values())


def tiles(run: Run) -> list[tuple[str, str]]:
    """Slopes, bytes per node, and BERT-Large with the most ranks that ran."""
    slopes, found = _slopes(run), ring_bytes(run)
    told: list[tuple[str, str]] = []
    if slopes:
        told.append(("server, each further rank", text.seconds(slopes[0])))
    if found:
        told.append((f"ring, bytes of a node, {max(found)} ranks", text.size(found[max(found)][0])))
    for name, several in points(run).items():
        times = _bert_s(several)
        if times:
            told.append((f"BERT-Large, {name}, {max(several)} ranks", text.seconds(times[str(max(several))])))
    return told or generic.tiles(run)


def figures(run: Run) -> list[Drawn]:
    """Slide 8, all algorithms over the ranks, and over the size; then the run's own."""
    return [
        *generic.draw(
            run,
            server_and_ring=figures_of_scaling.server_and_ring,
            over_ranks=figures_of_scaling.over_ranks,
            over_size=figures_of_scaling.over_size,
        ),
        *generic.own_figures(run),
    ]


def sections(run: Run) -> Html:
    """Slide 8's claims, BERT-Large, where one algorithm overtakes another, then the run's own table."""
    return Html(published_table(_compared(run)) + _bert_table(run) + _crossings_table(run) + generic.sections(run))


def _crossings_table(run: Run) -> str:
    """By the model: over the ranks at one size, over the size with the most ranks."""
    found, size_bytes = points(run), compared_bytes(points(run))
    over_ranks = [(each, f"{text.count(each.place)} ranks") for each in rank_crossings(found, size_bytes)]
    over_size = [(each, text.size(each.place)) for each in size_crossings(found)]
    rows = [
        [each.overtaken, each.overtaking, place, text.seconds(each.seconds), "yes" if each.leads else "no"]
        for each, place in (*over_ranks, *over_size)
    ]
    heads = ("overtaken", "by", "from", "time there", "the fastest of all")
    shown = table(heads, rows, numbers=(2, 3), stacked=True)
    told = f"Over the ranks at {text.size(size_bytes)}, over the size with the most ranks that ran; by the model."
    return f'<h2>Where one overtakes another</h2>\n{shown}\n<p class="soft">{told}</p>\n' if rows else ""


def _compared(run: Run) -> list[Compared]:
    rows = []
    linear, constant = _linear(run), _constant(run)
    if linear.holds is not None:
        rows.append(
            Compared(
                "parameter server",
                "bandwidth need of the server",
                "grows linearly with the workers",
                _SLIDE,
                f"{text.seconds(_number(linear.modelled))} for each further rank",
                f"{text.seconds(_number(linear.measured))} for each further rank",
                linear.tolerance,
                linear.holds,
            )
        )
    if constant.holds is not None:
        found = ring_bytes(run)
        told = ", ".join(f"{number}: {text.size(measured)}" for number, (measured, _) in found.items())
        rows.append(
            Compared(
                "ring",
                "overhead per node",
                "stays constant in N",
                _SLIDE,
                "2 (n-1)/n of the data: at most twice",
                told,
                constant.tolerance,
                constant.holds,
            )
        )
    return rows


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) else None


def _bert_table(run: Run) -> str:
    """BERT-Large's gradients, by the model calibrated on the measured times."""
    found = points(run)
    rows = []
    for name, several in found.items():
        line, times = calibrated(several), _bert_s(several)
        if line is not None and times is not None:
            shown = [text.seconds(times.get(str(number))) for number in (*_numbers(found), MOST_RANKS)]
            rows.append([name, *shown, text.seconds(line.alpha_s), text.rate(8 / line.beta_s), f"{line.error:.1%}"])
    heads = ["algorithm", *(f"{number} ranks" for number in (*_numbers(found), MOST_RANKS))]
    heads += ["alpha", "rate of large sizes", "off at most"]
    shown_rows = table(heads, rows, numbers=range(1, len(heads)), stacked=True)
    told = (
        f"{text.size(BERT_LARGE_BYTES)} (340 million parameters, float32) are more than is sent: these are the times "
        "of the model whose alpha and beta are the least squares through all measured sizes and ranks of the algorithm."
    )
    return f'<h2>BERT-Large</h2>\n{shown_rows}\n<p class="soft">{told}</p>\n' if rows else ""


def _numbers(found: dict[str, dict[int, Point]]) -> list[int]:
    return sorted({number for several in found.values() for number in several})
