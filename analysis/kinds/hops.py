"""Pings between all hosts: how many switches lie between two, and how long the way takes (a kind, see
analysis/kinds).

A probe's TTL tells the switches it passed, its arrival the one-way delay. Both are held against the fabric as laid
out: the fewest links between the two hosts, and the links' and switches' delays (a frame alone is sent in no time
here). The lecture's claim for leaf-spine (slide 11) is tried on every run of that topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column
from analysis.figures.hops import delays, links_map
from analysis.figures.style import Drawn, drawn
from analysis.kinds.probes import Probe, by_links, per_hop_ns, place, probes, spread_ns, unreached
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, proven

AS_LAID_OUT, OTHERWISE = "as laid out", "not as laid out"
MODEL_SHARE = 0.01  # of the modelled delay: queues round the time on the wire up to their clocks' ticks, per link
CLAIMED_NS = (400, 600)  # slide 11: latency from switch to switch, the same everywhere
_CLAIM = "switch-to-switch latency"
_REAL_CLOCK = "on the real clock the CPU's time is part of every delay"

RULE = (
    "The fabric is as laid out when every pair is reached over the fewest links there are, in the time the model "
    "gives, and equal ways take equal time. The latency that the lecture names decides nothing here."
)
COLUMNS = (
    Column("topology", "topology", is_number=False),
    Column("pairs", "pairs", text.count),
    Column("missed", "unreached", text.count, essential=True),
    Column("links", "links", is_number=False, essential=True),
    Column("longest way", "delay_max_s", text.seconds, essential=True),
    Column("spread", "spread_s", text.seconds, essential=True),
    Column("per hop", "per_hop_s", text.seconds),
)


def summarize(run: Run) -> dict[str, Any]:
    """The pairs by the number of links between them, their delays, and the modelled ones."""
    classes = by_links(run)
    return {
        "hops": {
            "pairs": sum(map(len, classes.values())),
            "unreached": unreached(run),
            "by_links": {
                str(links): {
                    "pairs": len(some),
                    "delay_min_ns": min(probe.delay_ns for probe in some),
                    "delay_max_ns": max(probe.delay_ns for probe in some),
                }
                for links, some in classes.items()
            },
            "modelled_delay_ns": {
                str(links): max(probe.modelled_ns for probe in some) for links, some in classes.items()
            },
            "per_hop_ns": per_hop_ns(run),
            "spread_ns": spread_ns(probes(run)) if classes else None,
        }
    }


def verdict(run: Run) -> Verdict:
    """Whether hops and delays are those of the fabric as laid out; a wrong way is one on any clock."""
    deciding = (_reached(run), _placed(run), *_delays(run), _equal(run), processor(run))
    held = [piece.holds for piece in deciding]
    answer = OTHERWISE if False in held else AS_LAID_OUT if all(held) else NOT_PROVEN
    good = {AS_LAID_OUT: True, OTHERWISE: False}.get(answer)
    found = Verdict("hops", answer, (*deciding, _claimed(run)), good=good)
    return found if deciding[1].holds is False else proven(found)


def _reached(run: Run) -> Evidence:
    found, absent = len(probes(run)), unreached(run)
    return Evidence(
        name="pairs reached",
        configured=None,
        modelled=None if absent is None else found + absent,
        measured=found,
        unit="pairs",
        tolerance="every ordered pair of hosts",
        holds=None if absent is None else absent == 0,
        source="no fabric.json tells how many hosts there are" if absent is None else "probes of measured.json",
    )


def _placed(run: Run) -> Evidence:
    found = probes(run)
    known = [probe for probe in found if probe.expected_links is not None]
    wrong = [probe for probe in known if probe.links != probe.expected_links]
    first = f"; {wrong[0].sender} to {wrong[0].receiver} took {wrong[0].links}" if wrong else ""
    lengths = sorted({probe.expected_links for probe in known if probe.expected_links})
    return Evidence(
        name="over the fewest links",
        configured=None,
        modelled=len(known) if known else None,
        measured=len(known) - len(wrong) if known else None,
        unit="pairs",
        tolerance=f"every pair: {_list(lengths)} links by fabric.json{first}",
        holds=None if not known or len(known) < len(found) else not wrong,
        source=_placed_by(found, known),
    )


def _placed_by(found: Sequence[Probe], known: Sequence[Probe]) -> str:
    """Which files place the hosts, or what is missing for it."""
    if not known:
        return "no probe, or no fabric.json to place the hosts"
    if len(known) < len(found):
        return f"fabric.json does not have the hosts of {text.counted(len(found) - len(known), 'probe')}"
    return "probes of measured.json, fabric.json"


def _delays(run: Run) -> list[Evidence]:
    """For each number of links, the delay that is farthest from its model."""
    rows = []
    for links, some in by_links(run).items():
        worst = max(some, key=lambda probe: abs(probe.delay_ns - probe.modelled_ns))
        near = abs(worst.delay_ns - worst.modelled_ns) <= MODEL_SHARE * worst.modelled_ns
        rows.append(
            Evidence(
                name=f"delay over {links} links" + (f" ({place(run, links)})" if place(run, links) else ""),
                configured=None,
                modelled=worst.modelled_ns / 1e9,
                measured=worst.delay_ns / 1e9,
                unit="s",
                tolerance=f"each of {text.counted(len(some), 'pair')} within {MODEL_SHARE:.0%} of the model",
                holds=near if _is_virtual(run) else None,
                source="probes of measured.json" if _is_virtual(run) else _REAL_CLOCK,
            )
        )
    return rows


def _equal(run: Run) -> Evidence:
    """Whether equal ways take equal time, to the nanosecond: virtual time has no noise."""
    found = probes(run)
    return Evidence(
        name="equal ways, equal delay",
        configured=None,
        modelled=0,
        measured=spread_ns(found) / 1e9 if found else None,
        unit="s",
        tolerance="a spread of 0 ns: equal frames over equal idle links, in virtual time",
        holds=spread_ns(found) == 0 if found and _is_virtual(run) else None,
        source=("probes of measured.json" if found else "no probe") if _is_virtual(run) else _REAL_CLOCK,
    )


def _claimed(run: Run) -> Evidence:
    """Slide 11's latency beside the one from switch to switch: pipeline, cable and sending."""
    measured_ns, spec = per_hop_ns(run), run.parameters
    low, high = CLAIMED_NS
    return Evidence(
        name=_CLAIM,
        configured=spec.switch_delay_ns / 1e9,
        modelled=_hop_ns(run) / 1e9,
        measured=None if measured_ns is None else measured_ns / 1e9,
        unit="s",
        tolerance=f"slide 11: {low} to {high} ns; configured is the switch alone, modelled with the link behind it",
        holds=None if measured_ns is None else low <= measured_ns <= high,
        source="no two numbers of links to compare" if measured_ns is None else "probes of measured.json",
    )


def _hop_ns(run: Run) -> float:
    """One more switch and the link to it, as modelled."""
    spec = run.parameters
    return float(spec.switch_delay_ns + spec.link_delay_ns)


def _is_virtual(run: Run) -> bool:
    return run.spec.get("clock") == "virtual"


def _list(numbers: Iterable[int]) -> str:
    """Numbers in words: "2, 4 or 6"."""
    *first, last = [str(number) for number in numbers] or ["no"]
    return f"{', '.join(first)} or {last}" if first else last


def headline(run: Run) -> str:
    """How far apart the hosts are, in links and in time."""
    classes = by_links(run)
    if not classes:
        return "no probe arrived"
    times = [text.seconds(max(probe.delay_ns for probe in some) / 1e9) for some in classes.values()]
    pairs = text.counted(sum(map(len, classes.values())), "pair")
    missed = f"; {text.counted(unreached(run) or 0, 'pair')} unreached" if unreached(run) else ""
    return f"{pairs} of hosts are {_list(classes)} links apart: {', '.join(times)} one way{missed}"


def beside(run: Run) -> str:
    """What the cases found, each in one clause."""
    told = [f"{label}: {headline(case)}" for label, case in run.cases.items() if case.workload == run.workload]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """Pairs, the delay for each number of links, and the spread."""
    found, hop_ns = by_links(run), per_hop_ns(run)
    return [
        ("pairs reached", text.count(sum(map(len, found.values())))),
        *(
            (f"over {links} links", text.seconds(max(probe.delay_ns for probe in some) / 1e9))
            for links, some in found.items()
        ),
        ("spread of equal ways", text.seconds(spread_ns(probes(run)) / 1e9) if found else text.NOTHING),
        ("switch to switch", text.seconds(None if hop_ns is None else hop_ns / 1e9)),
    ]


def figures(run: Run) -> list[Drawn]:
    """Links between all pairs, and the delays by links."""
    folder = run.path / "figures"
    return [drawn("links", folder, partial(links_map, run)), drawn("delays", folder, partial(delays, run))]


def row(run: Run) -> dict[str, Any]:
    """How far apart the hosts are."""
    found, hop_ns = probes(run), per_hop_ns(run)
    times_s = [probe.delay_ns / 1e9 for probe in found]
    return {
        "topology": run.parameters.topology,
        "pairs": len(found),
        "unreached": unreached(run),
        "links": _list(by_links(run)) if found else None,
        "delay_max_s": max(times_s) if times_s else None,
        "spread_s": spread_ns(found) / 1e9 if found else None,
        "per_hop_s": None if hop_ns is None else hop_ns / 1e9,
    }


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How much longer or shorter the longest way takes."""
    if not main["delay_max_s"] or not row["delay_max_s"]:
        return ""
    return f"longest way {text.times(row['delay_max_s'] / main['delay_max_s'])}"


def sections(run: Run) -> Html:
    """The lecture's claims for leaf-spine, of each run of that topology."""
    told = [each for each in (run, *run.cases.values()) if each.parameters.topology == "leaf_spine"]
    rows = [line for each in told if each.workload == run.workload for line in claims(each)]
    heads = ("run", "slide 11", "claimed", "modelled", "measured", "verdict")
    return Html(f"<h2>The lecture's claims</h2>\n{table(heads, rows, stacked=True)}" if rows else "")


def claims(run: Run) -> list[list[str]]:
    """Slide 11's two claims: claimed, modelled, measured, verdict."""
    apart = [probe for probe in probes(run) if probe.expected_links == 4]
    hops = sorted({probe.links - 2 for probe in apart})
    measured_ns = per_hop_ns(run)
    label = run.parameters.label
    return [
        [
            label,
            "switch-to-switch hops between hosts under different leaves",
            "exactly 2",
            "2",
            _list(hops) if hops else text.NOTHING,
            NOT_PROVEN if not hops else "reproduced" if hops == [2] else "not reproduced",
        ],
        [
            label,
            _CLAIM,
            f"{CLAIMED_NS[0]} to {CLAIMED_NS[1]} ns, the same everywhere",
            text.seconds(_hop_ns(run) / 1e9),
            text.NOTHING
            if measured_ns is None
            else f"{text.seconds(measured_ns / 1e9)}, spread {text.seconds(spread_ns(apart) / 1e9)}",
            _claim_verdict(run, measured_ns, spread_ns(apart)),
        ],
    ]


def _claim_verdict(run: Run, measured_ns: float | None, apart_ns: int) -> str:
    """The latency claim: as measured, or for the switch alone where the cable makes the difference."""
    low, high = CLAIMED_NS
    if measured_ns is None:
        return NOT_PROVEN
    if apart_ns > 0:
        return f"not reproduced: delays differ by {text.seconds(apart_ns / 1e9)}"
    if low <= measured_ns <= high:
        return "reproduced"
    alone_ns = measured_ns - run.parameters.link_delay_ns
    if low <= alone_ns <= high:
        return (
            f"reproduced if the cable's propagation of {text.seconds(run.parameters.link_delay_ns / 1e9)} is left out"
        )
    return "not reproduced"
