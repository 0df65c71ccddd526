"""Datagrams of random flows: whether their hashes spread them over all links, or polarise (a kind, see
analysis/kinds).

Where every switch hashes with the same seed, a switch of the second tier sees only flows that hashed alike below it,
sends them all the same way, and leaves links idle. Each tier is tested within its switches (the flows that enter one
are not its choice), the highest also over all its links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.spread import histogram
from analysis.figures.style import Drawn, drawn
from analysis.kinds.chi_square import ChiSquare
from analysis.kinds.spread import LEAST_EXPECTED, Tier, is_regular, tiers
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict
from topologies.units import BadRequest

SPREAD, POLARISED = "spread evenly", "polarised"
SIGNIFICANCE = 0.01  # an even spread is rejected when counts as uneven would be rarer than this
_LEAST_P = 1e-300  # floating point has hardly anything below
_IDLE_DEVIATIONS = 3  # idle links are about Poisson; beyond three deviations chance is no explanation
RULE = (
    f"Flows count as polarised when chance would give counts as uneven less than once in {1 / SIGNIFICANCE:.0f} times, "
    "in any tier, or when more links stay idle than chance explains; as spread evenly when neither is so."
)


def p_words(value: float | None) -> str:
    """A probability: "0.42", "3.1e-07"; a dash for None."""
    if value is None:
        return text.NOTHING
    return f"{value:.2g}" if value >= _LEAST_P else f"< {_LEAST_P:g}"


COLUMNS = (
    Column("hash seed", "ecmp_seed", is_number=False, essential=True),
    Column("flows", "flows", text.count),
    Column("links", "links", text.count, essential=True),
    Column("used", "used", text.count, essential=True),
    Column("chi-square", "chi_square", lambda value: text.NOTHING if value is None else text.digits(value)),
    Column("df", "df", text.count),
    Column("p", "p_value", p_words, essential=True),
)


def summarize(run: Run) -> dict[str, Any]:
    """Datagrams sent, and each tier's counts and tests."""
    found = tiers(run)
    return {
        "packets": _count(run, "sent"),
        "polarisation": {
            "sent": _count(run, "sent"),
            "received": _count(run, "received"),
            "tiers": [_tier(each) for each in found],
            "overall": _tested(found[-1].overall) if found and is_regular(run) else None,
        },
    }


def _count(run: Run, key: str) -> int | None:
    """A number of measured.json; None where it has none."""
    value = run.measured.get(key)
    if value is not None and not isinstance(value, int):
        raise BadRequest(f"{run.path / 'measured.json'}: key {key!r} holds {value!r}; allowed: a whole number")
    return value


def _tier(tier: Tier) -> dict[str, Any]:
    return {
        "tier": tier.name,
        "links": len(tier.links),
        "used": tier.used,
        "datagrams": tier.datagrams,
        **_tested(tier.within),
        "counts": tier.links,
    }


def _tested(test: ChiSquare) -> dict[str, Any]:
    return {
        "chi_square": test.statistic,
        "df": test.df,
        "p_value": test.p_value,
        "rejected": test.p_value < SIGNIFICANCE,
    }


def verdict(run: Run) -> Verdict:
    """Whether the flows were spread over all links that lead up."""
    found = tiers(run)
    pieces = [_delivered(run), *(piece for tier in found for piece in (_used(tier), _within(tier)))]
    pieces += [_overall(run, found[-1])] if found else [_no_links(run)]
    held = [piece.holds for piece in pieces[1:]]
    answer = POLARISED if False in held else SPREAD if all(piece.holds for piece in pieces) else NOT_PROVEN
    return Verdict("polarisation", answer, tuple(pieces), good={SPREAD: True, POLARISED: False}.get(answer))


def _delivered(run: Run) -> Evidence:
    sent, received = _count(run, "sent"), _count(run, "received")
    known = sent is not None and received is not None
    return Evidence(
        name="datagrams delivered",
        configured=run.spec.get("flows") if isinstance(run.spec.get("flows"), int) else None,
        modelled=sent,
        measured=received,
        unit="datagrams",
        tolerance="all that were sent, so that every one is counted on its way",
        holds=received == sent if known else None,
        source="measured.json" if known else "measured.json does not tell what was sent and received",
    )


def _used(tier: Tier) -> Evidence:
    links = len(tier.links)
    idle = links - tier.expected_used
    fewest = math.floor(tier.expected_used - _IDLE_DEVIATIONS * math.sqrt(idle) - 0.5)
    return Evidence(
        name=f"links used, {tier.name}",
        configured=links,
        modelled=round(tier.expected_used),
        measured=tier.used,
        unit="links",
        tolerance=f"at least {fewest}: {_IDLE_DEVIATIONS} deviations below what chance leaves",
        holds=tier.used >= fewest if tier.datagrams else None,
        source="port_packets of measured.json" if tier.datagrams else f"no datagram went from {tier.name}",
    )


def _within(tier: Tier) -> Evidence:
    return _tested_evidence(f"even within switches, {tier.name}", tier, tier.within, "")


def _overall(run: Run, tier: Tier) -> Evidence:
    reason = "" if is_regular(run) else "racks have unequal numbers of hosts, so that links expect unequal numbers"
    return _tested_evidence(f"even over all links, {tier.name}", tier, tier.overall, reason)


def _tested_evidence(name: str, tier: Tier, test: ChiSquare, reason: str) -> Evidence:
    """A chi-square test as evidence: modelled is its mean when the spread is even, the degrees of freedom."""
    if not reason and not tier.is_tested:
        reason = f"fewer than {LEAST_EXPECTED} datagrams for each of the {len(tier.links)} links, {tier.name}"
    return Evidence(
        name=name,
        configured=None,
        modelled=f"{test.df} (df)",
        measured=f"{test.statistic:.1f}, p {p_words(test.p_value)}",
        unit="",
        tolerance=f"chi-square against equal counts, p at least {SIGNIFICANCE:g}",
        holds=None if reason else test.p_value >= SIGNIFICANCE,
        source=reason or "port_packets of measured.json",
    )


def _no_links(run: Run) -> Evidence:
    counted = isinstance(run.measured.get("port_packets"), dict)
    return Evidence(
        name="links that lead up",
        configured=None,
        modelled=None,
        measured=None,
        unit="links",
        tolerance="at least two for a switch to choose from",
        holds=None,
        source="no switch is above another" if counted else "measured.json has no port_packets",
    )


def headline(run: Run) -> str:
    """How many of the highest links were used, and how even."""
    found = tiers(run)
    if not found:
        return "no datagram was counted on a link between tiers"
    top = found[-1]
    used = f"{top.used} of {text.counted(len(top.links), 'link')} from {top.name} used"
    return f"{text.count(run.measured.get('sent'))} random flows: {used}; {_even(run, found)}"


def _even(run: Run, found: list[Tier]) -> str:
    """The tests in words: the smallest p-value of them."""
    tests = [tier.within for tier in found] + ([found[-1].overall] if is_regular(run) else [])
    worst = min(tests, key=lambda test: test.p_value)
    if worst.p_value < SIGNIFICANCE:
        return (
            f"chance does not explain the counts (chi-square {worst.statistic:,.0f} for {worst.df} degrees of freedom)"
        )
    of = f", the least of {len(tests)} tests" if len(tests) > 1 else ""
    return f"as even as chance makes it (p {p_words(worst.p_value)}{of})"


def beside(run: Run) -> str:
    """What the cases found, each in one clause."""
    told = [f"{label}: {headline(case)}" for label, case in run.cases.items() if case.workload == run.workload]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """Datagrams, and for each tier the links used."""
    found = tiers(run)
    return [
        ("datagrams received", text.count(_count(run, "received"))),
        *((f"links used, {tier.name}", f"{tier.used} of {len(tier.links)}") for tier in found),
        *((f"p within switches, {tier.name}", p_words(tier.within.p_value)) for tier in found),
        *((f"p over all, {tier.name}", p_words(tier.overall.p_value)) for tier in found[-1:] if is_regular(run)),
    ]


def figures(run: Run) -> list[Drawn]:
    """Datagrams per highest link, beside what chance gives."""
    return [drawn("spread", run.path / "figures", partial(histogram, run))]


def sections(run: Run) -> Html:
    """Each tier's counts and tests."""
    heads = ("links", "number", "used", "by chance", "datagrams", "least", "most", "chi-square", "df", "p")
    rows = [
        [
            tier.name,
            text.count(len(tier.links)),
            text.count(tier.used),
            text.digits(tier.expected_used),
            text.count(tier.datagrams),
            text.count(min(tier.links.values())),
            text.count(max(tier.links.values())),
            f"{tier.within.statistic:.1f}",
            text.count(tier.within.df),
            p_words(tier.within.p_value),
        ]
        for tier in tiers(run)
    ]
    shown = table(heads, rows, numbers=range(1, len(heads)), stacked=True)
    return Html(f"<h2>Links that lead up</h2>\n{shown}" if rows else "")


def row(run: Run) -> dict[str, Any]:
    """The highest links and their test over all, or within switches where racks are unequal."""
    found = tiers(run)
    test = (found[-1].overall if is_regular(run) else found[-1].within) if found else None
    return {
        "ecmp_seed": run.spec.get("ecmp_seed"),
        "flows": _count(run, "sent"),
        "links": len(found[-1].links) if found else None,
        "used": found[-1].used if found else None,
        "chi_square": test.statistic if test else None,
        "df": test.df if test else None,
        "p_value": test.p_value if test else None,
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How many of the highest links are used more or less."""
    if main["used"] is None or row["used"] is None or main["links"] != row["links"]:
        return ""
    more = row["used"] - main["used"]
    return "as many links" if not more else f"{text.counted(abs(more), 'link')} {'more' if more > 0 else 'fewer'}"
