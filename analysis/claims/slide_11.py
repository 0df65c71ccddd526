"""Slide 11: a leaf-spine fabric: two tiers, two hops between leaves, one latency everywhere."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import answer, near, shown, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED_IF, Claim, Judged, Row
from analysis.claims.paths import LEAF_SPINE, apart, tiers_row
from analysis.kinds.hops import CLAIMED_NS
from analysis.kinds.probes import per_hop_ns, spread_ns
from analysis.run import Run

_PROBES = "probes of measured.json"
_ACROSS_LEAVES = 4  # links between hosts under different leaves


def _two_hops(run: Run) -> Judged:
    """Tiers, and the fewest and the most hops between leaves."""
    pairs = apart(run, _ACROSS_LEAVES)
    if not pairs:
        return untold("switch-to-switch hops between leaves", 2.0, "")
    hops = sorted(probe.links - 2 for probe in pairs)
    rows = (
        tiers_row(run, 2),
        near("fewest switch-to-switch hops between leaves", 2.0, hops[0], "", 0.0, _PROBES, 2.0),
        near("most switch-to-switch hops between leaves", 2.0, hops[-1], "", 0.0, _PROBES, 2.0),
    )
    span = f"{hops[0]}" if hops[0] == hops[-1] else f"{hops[0]} to {hops[-1]}"
    words = f"{text.counted(len(pairs), 'pair')} of hosts under different leaves are {span} hops apart"
    verdict, because = answer(rows, lambda: words, lambda: words)
    return Judged(verdict, because, rows, shown(run, "links"))


def _same_everywhere(run: Run) -> Judged:
    """The latency of one more switch and its cable, and how much equal ways differ."""
    hop_ns = per_hop_ns(run)
    if hop_ns is None:
        return untold("from switch to switch", CLAIMED_NS[0], "ns")
    (low, high), spec = CLAIMED_NS, run.parameters
    apart_ns = float(spread_ns(apart(run, _ACROSS_LEAVES)))
    modelled_ns = float(spec.switch_delay_ns + spec.link_delay_ns)
    rows = (
        Row("from switch to switch", low, modelled_ns, hop_ns, "ns", f"{low} to {high} ns", low <= hop_ns <= high,
            _PROBES),
        Row("spread over all pairs of leaves", 0.0, 0.0, apart_ns, "ns", "none", apart_ns == 0, _PROBES),
    )  # fmt: skip
    words = f"{hop_ns:.0f} ns from switch to switch, spread {apart_ns:.0f} ns over all pairs of leaves"
    if not all(row.holds for row in rows):
        return Judged(NOT_REPRODUCED, words, rows, shown(run, "delays"))
    parts = (
        f"a switch takes {spec.switch_delay_ns} ns and its cable {spec.link_delay_ns} ns, and no queue is on the way"
    )
    return Judged(REPRODUCED_IF, f"{parts}: {words}", rows, shown(run, "delays"))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="leaf_spine_hops",
        slides="11",
        says="Leaf-spine has two tiers: any two servers under different leaves are exactly two hops of switches apart.",
        figures="2 tiers, 2 hops",
        trial=LEAF_SPINE,
        model="leaf, spine, leaf",
        tolerance="every ordered pair of hosts, exactly",
        judge=_two_hops,
    ),
    Claim(
        key="leaf_spine_latency",
        slides="11",
        says="Switch-to-switch latency is 400 to 600 ns, the same everywhere.",
        figures="400 to 600 ns",
        trial=LEAF_SPINE,
        model="a switch's pipeline and one cable's propagation",
        tolerance="in the range; equal to the nanosecond over all pairs of leaves",
        judge=_same_everywhere,
        assumptions=("the fabric is idle; a switch is slide 10's good one, a cable 20 m long",),
    ),
)
