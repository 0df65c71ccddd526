"""All hosts send at once, each to one other or to all: how much of its link every host gets (a kind, see
analysis/kinds).

What a host receives, headers included, is held against the most that the fabric's links allow under this traffic: a
share of the line rate, less where uplinks are oversubscribed. Hosts that get less lose it to the choice of paths: two
flows that hash to one uplink share it, while another uplink idles.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from statistics import median
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.fabric import Fabric
from analysis.figures.bisection import collisions_histogram, hosts_bars, measured_against_best
from analysis.figures.gantt import gantt
from analysis.figures.heat import heat
from analysis.figures.style import Drawn, drawn
from analysis.figures.tail import tail
from analysis.kinds.capacity import HostRate, bisection_bps, collisions, host_rates
from analysis.measures import data_packets
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, goodput_bps, processor, total_drops

FULL, ALLOWED = "full bisection", "all that the uplinks allow"
# A transfer of a few frames is over before the line rate counts: the token bucket of each port holds one.
_POSSIBLE_SHARE = 1.02
NOT_CROSSED = "not tested: no flow took an uplink"
FULL_SHARE = 0.95  # of the best possible: slow start, one way's delay and the ACKs of the other direction take the rest
GOOD, POOR = Fraction(1), Fraction(4)  # slide 10: 1:1 is good, over 4:1 poor
_MOST_HOSTS = 8  # that the page lists
_NO_FABRIC = "no fabric.json tells what the links allow"
_NO_TRANSFER = "measured.json has no finished transfer"

RULE = (
    f"Bisection is full when every host receives at least {FULL_SHARE:.0%} of the best possible rate, and that is the "
    "line rate; where oversubscribed uplinks allow less, hosts may get all that these allow. Flows per uplink explain "
    "the verdict, they do not decide it."
)


def share_words(value: float | None) -> str:
    """A share: "97.3 %"; a dash for None."""
    return text.NOTHING if value is None else f"{text.digits(100 * value)} %"


COLUMNS = (
    Column("traffic", "workload", is_number=False),
    Column("routing", "routing", is_number=False, essential=True),
    Column("oversub.", "oversubscription", is_number=False),
    Column("possible", "best_share", share_words, essential=True),
    Column("median", "median_share", share_words),
    Column("worst", "worst_share", share_words, essential=True),
    Column("flows/uplink", "most_flows", text.count),
)


def summarize(run: Run) -> dict[str, Any]:
    """Goodput, every host's rate beside the best possible, and the flows on the uplinks."""
    crowded = collisions(run)
    return {
        "packets": data_packets(run),
        "goodput_bps": goodput_bps(run.rounds),
        "bisection": {
            "theoretical_bps": None if run.fabric is None else bisection_bps(Fabric.of(run.fabric)),
            **{key: value for key, value in row(run).items() if key.endswith("_share")},
            "hosts": {
                each.host: {"rate_bps": each.rate_bps, "best_bps": each.best_bps, "share": _share(run, each.rate_bps)}
                for each in sorted(host_rates(run), key=lambda each: text.natural(each.host))
            },
            "link_flows": crowded.links if crowded else None,
            "links_by_flows": crowded.measured if crowded else None,
            "links_by_flows_expected": crowded.expected if crowded else None,
        },
    }


def _share(run: Run, rate_bps: float | None) -> float | None:
    return None if rate_bps is None else rate_bps / run.parameters.path.rate_bps


def worst(run: Run) -> HostRate | None:
    """The host that got the least of what it could have got; without a fabric.json, the slowest."""
    rates = host_rates(run)
    return min(rates, key=lambda each: each.rate_bps / (each.best_bps or run.parameters.path.rate_bps), default=None)


def verdict(run: Run) -> Verdict:
    """Whether every host got what the fabric allows."""
    least = worst(run)
    pieces = (_finished(run), _worst_host(run, least), _median_host(run), _all_hosts(run), processor(run))
    answer = _answer(run, least, all(piece.holds for piece in (pieces[0], pieces[-1])))
    good = {FULL: True, ALLOWED: None, NOT_PROVEN: None, NOT_CROSSED: None}.get(answer, False)
    return Verdict("bisection", answer, (*pieces, *_crowding(run)), good=good)


def _answer(run: Run, least: HostRate | None, is_sound: bool) -> str:
    """Full is full on any clock; what is less proves something only where all transfers ended and the CPU kept up."""
    if least is None or least.best_bps is None or not run.measured.get("complete"):
        return NOT_PROVEN
    if _most_share(run) > _POSSIBLE_SHARE:
        return NOT_PROVEN
    crowded = collisions(run)
    if crowded is not None and not crowded.most:
        return NOT_CROSSED
    if least.rate_bps < FULL_SHARE * least.best_bps:
        # 94.97 % must not read as the 95 % that it falls short of.
        share = share_words(min(least.rate_bps / least.best_bps, FULL_SHARE - 0.001))
        is_narrow = least.best_bps < FULL_SHARE * run.parameters.path.rate_bps
        words = f"worst host {share} of possible" if is_narrow else f"not full: worst host {share}"
        return words if is_sound else NOT_PROVEN
    return FULL if _best_share(run) >= FULL_SHARE else ALLOWED


def _most_share(run: Run) -> float:
    """The fastest host's rate as a share of the line rate."""
    return max(each.rate_bps for each in host_rates(run)) / run.parameters.path.rate_bps


def _best_share(run: Run) -> float:
    """The best possible rate of the host that can get the least, as a share of the line rate."""
    return min(each.best_bps or 0 for each in host_rates(run)) / run.parameters.path.rate_bps


def _finished(run: Run) -> Evidence:
    done, asked = len(run.measured.get("transfers", [])), len(run.measured.get("flows", [])) * len(run.rounds)
    return Evidence(
        name="transfers finished",
        configured=None,
        modelled=asked or None,
        measured=done,
        unit="transfers",
        tolerance="one of every flow in every round",
        holds=done == asked if asked else None,
        source="transfers of measured.json" if asked else _NO_TRANSFER,
    )


def _worst_host(run: Run, least: HostRate | None) -> Evidence:
    name = f"worst host, {least.host}" if least else "worst host"
    return _host_evidence(run, name, least.rate_bps if least else None, least.best_bps if least else None)


def _median_host(run: Run) -> Evidence:
    rates = host_rates(run)
    known = [each.best_bps for each in rates if each.best_bps is not None]
    best_bps = median(known) if known else None
    return _host_evidence(run, "median host", median(each.rate_bps for each in rates) if rates else None, best_bps)


def _host_evidence(run: Run, name: str, rate_bps: float | None, best_bps: float | None) -> Evidence:
    """A host's rate, headers included, against the line rate and the best possible."""
    known = rate_bps is not None and best_bps is not None
    return Evidence(
        name=name,
        configured=run.parameters.path.rate_bps,
        modelled=best_bps,
        measured=rate_bps,
        unit="b/s",
        tolerance=f"at least {FULL_SHARE:.0%} of the best possible, headers included",
        holds=(rate_bps or 0) >= FULL_SHARE * (best_bps or 0) if known else None,
        source="transfers of measured.json, fabric.json" if known else _NO_TRANSFER if rate_bps is None else _NO_FABRIC,
    )


def _all_hosts(run: Run) -> Evidence:
    """What all hosts receive together, against the sum of the best possible rates."""
    rates = host_rates(run)
    known = bool(rates) and all(each.best_bps is not None for each in rates)
    best_bps = sum(each.best_bps or 0 for each in rates)
    total_bps = sum(each.rate_bps for each in rates)
    return Evidence(
        name="all hosts together",
        configured=len(rates) * run.parameters.path.rate_bps if rates else None,
        modelled=best_bps if known else None,
        measured=total_bps if rates else None,
        unit="b/s",
        tolerance=f"at least {FULL_SHARE:.0%} of the best possible, headers included",
        holds=total_bps >= FULL_SHARE * best_bps if known else None,
        source="transfers of measured.json, fabric.json" if known else _NO_FABRIC if rates else _NO_TRANSFER,
    )


def _crowding(run: Run) -> list[Evidence]:
    """Whether flows collided on an uplink while others of its switch had fewer; nothing where there are no uplinks."""
    crowded = collisions(run)
    if crowded is None:
        return []
    return [
        Evidence(
            name="flows on the busiest uplink",
            configured=f"routing {run.spec.get('routing')}",
            modelled=crowded.fair,
            measured=crowded.most,
            unit="flows",
            tolerance="no more than an even share of the rack's, or further up of the tier's flows",
            holds=crowded.most <= crowded.fair,
            source="link_flows of measured.json",
        )
    ]


def headline(run: Run) -> str:
    """What hosts get of their line rate, the worst and the median, and of what would be possible."""
    rates, least = host_rates(run), worst(run)
    if least is None:
        return "no transfer was finished"
    hosts = text.counted(len(rates), "host")
    middle = share_words(_share(run, median(each.rate_bps for each in rates)))
    best = "" if least.best_bps is None else f", where {share_words(_share(run, least.best_bps))} would be possible"
    line = text.rate(run.parameters.path.rate_bps)
    slowest = f"the worst, {least.host}, receives {text.rate(least.rate_bps)}"
    share = share_words(_share(run, least.rate_bps))
    return f"{hosts} at {line} each, all sending at once: {slowest} ({share}), the median {middle}{best}"


def beside(run: Run) -> str:
    """What the worst host got in each case."""
    told = [
        f"{label} {share_words(_share(case, least.rate_bps))}"
        for label, case in run.cases.items()
        for least in ([worst(case)] if _is_alike(case) else [])
        if least is not None
    ]
    return f"The worst host's share of its line rate in the cases: {', '.join(told)}." if told else ""


def _is_alike(case: Run) -> bool:
    """Whether a case is of this kind at all."""
    return case.workload in ("permutation", "all_to_all")


def tiles(run: Run) -> list[tuple[str, str]]:
    """Shares of the line rate, goodput, the fabric's bisection and its busiest uplink."""
    told, crowded = row(run), collisions(run)
    theory = text.NOTHING if run.fabric is None else text.rate(bisection_bps(Fabric.of(run.fabric)))
    return [
        ("worst host, of its line rate", share_words(told["worst_share"])),
        ("median host", share_words(told["median_share"])),
        ("best possible", share_words(told["best_share"])),
        ("goodput of all, to the slowest's end", text.rate(told["goodput_bps"])),
        ("bisection by the links, each way", theory),
        ("flows on the busiest uplink", text.count(crowded.most if crowded else None)),
    ]


def figures(run: Run) -> list[Drawn]:
    """Rates of the hosts, flows per uplink, the cases against what is possible, use of the links, and transfers."""
    drawings = {
        "hosts": hosts_bars,
        "collisions": collisions_histogram,
        "bisection": measured_against_best,
        "heat": heat,
        "gantt": gantt,
        "tail": tail,
    }
    return [drawn(name, run.path / "figures", partial(draw, run)) for name, draw in drawings.items()]


def sections(run: Run) -> Html:
    """The lecture's classes, and the slowest hosts."""
    alike = [run, *(case for case in run.cases.values() if _is_alike(case))]
    rows = [line for each in alike for line in claims(each)]
    heads = ("run", "slide 10", "claimed", "modelled", "measured", "verdict")
    told = f"<h2>The lecture's claims</h2>\n{table(heads, rows, stacked=True)}" if rows else ""
    return Html(told + _hosts_table(run))


def claims(run: Run) -> list[list[str]]:
    """Slide 10's classes: the ratio of the line rate to what the worst host gets, by the links and as measured; nothing
    without either."""
    least = worst(run)
    if least is None or least.best_bps is None:
        return []
    line_bps = run.parameters.path.rate_bps
    modelled, measured = line_bps / least.best_bps, line_bps / least.rate_bps
    claimed = f"{GOOD}:1 good, over {POOR}:1 poor"
    words = [f"{text.digits(ratio)}:1, {_class(ratio)}" for ratio in (modelled, measured)]
    same = _class(modelled) == _class(measured)
    told = "as its links allow" if same else f"worse than its links allow{_why(run)}"
    return [[run.parameters.label, "bisection", claimed, *words, told]]


def _why(run: Run) -> str:
    """Whether the choice of paths explains that hosts get less than they could; empty where nothing tells."""
    crowded = collisions(run)
    if crowded is None:
        return ""
    if crowded.most > crowded.fair:
        return f": {crowded.most} flows share an uplink where {crowded.fair} would be even"
    return ", though not for the choice of paths: uplinks carry even numbers of flows"


def _class(ratio: float) -> str:
    """The lecture's word for a ratio of host bandwidth to what is left of it across the fabric."""
    if ratio * FULL_SHARE <= GOOD:
        return "good"
    return "poor" if ratio * FULL_SHARE > POOR else "between good and poor"


def _hosts_table(run: Run) -> str:
    rates = host_rates(run)[:_MOST_HOSTS]
    rows = [
        [
            each.host,
            text.rate(each.rate_bps),
            share_words(_share(run, each.rate_bps)),
            text.rate(each.best_bps),
            share_words(each.rate_bps / each.best_bps if each.best_bps else None),
        ]
        for each in rates
    ]
    heads = ("host", "received", "of its line rate", "best possible", "measured / possible")
    return f"\n<h2>The slowest hosts</h2>\n{table(heads, rows, numbers=(1, 2, 3, 4), stacked=True)}" if rows else ""


def row(run: Run) -> dict[str, Any]:
    """Shares of the line rate: best possible (of the host that can get the least), median, worst and best host."""
    rates, crowded = host_rates(run), collisions(run)
    shares = [each.rate_bps / run.parameters.path.rate_bps for each in rates]
    known = bool(rates) and all(each.best_bps is not None for each in rates)
    return {
        "topology": run.parameters.topology,
        "workload": run.workload,
        "routing": run.spec.get("routing"),
        "oversubscription": run.spec.get("oversubscription"),
        "best_share": _best_share(run) if known else None,
        "median_share": median(shares) if shares else None,
        "worst_share": min(shares) if shares else None,
        "goodput_bps": goodput_bps(run.rounds),
        "most_flows": crowded.most if crowded else None,
        "drops": total_drops(run),
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """What the worst host gets of what main's gets."""
    if not main["worst_share"] or not row["worst_share"]:
        return ""
    return f"worst {text.times(row['worst_share'] / main['worst_share'])}"
