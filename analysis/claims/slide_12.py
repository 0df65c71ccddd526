"""Slide 12: a fat-tree: three tiers, full bisection over all of its paths, more tolerance of faults, more cost."""

from __future__ import annotations

from functools import partial

from analysis import text
from analysis.claims.judging import UNTOLD, answer, near, shown, told, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.paths import BISECTION, FAILOVER, apart, evenly, tiers_row
from analysis.fabric import Fabric
from analysis.kinds import failover, polarisation
from analysis.kinds.losses import streams
from analysis.kinds.polarisation import POLARISED, SPREAD
from analysis.kinds.spread import tiers
from analysis.run import Run

_PROBES, _FABRIC, _STREAMS = "probes of measured.json", "fabric.json", "streams of measured.json"
_ACROSS_PODS = 6  # links between hosts in different pods


def _three_tiers(run: Run) -> Judged:
    """Tiers, and the hops between pods."""
    pairs = apart(run, _ACROSS_PODS)
    if not pairs:
        return untold("tiers of switches", 3.0, "")
    hops = sorted(probe.links - 2 for probe in pairs)
    rows = (tiers_row(run, 3), near("most switch-to-switch hops between pods", 4.0, hops[-1], "", 0.0, _PROBES, 4.0))
    words = f"{text.counted(len(pairs), 'pair')} of hosts in different pods are {hops[-1]} hops apart over three tiers"
    verdict, because = answer(rows, lambda: words, lambda: f"{rows[0].measured:g} tiers, {hops[-1]} hops between pods")
    return Judged(verdict, because, rows, shown(run, "links"))


def _all_paths(run: Run) -> Judged:
    """Links to the cores that carry flows, with a hash seed for each switch, and with one for all."""
    same = run.cases.get("same_seed")
    own, alike = (None if each is None else polarisation.verdict(each).verdict for each in (run, same))
    rows = [_links_row(run, own, "a hash seed for each switch")]
    if same is not None:
        rows.append(_links_row(same, alike, "one hash seed for all switches"))
    words = "; ".join(
        f"{row.quantity}: {row.measured:g} of {row.claimed:g}" for row in rows if row.measured is not None
    )
    figures = shown(run, "spread")
    if own != SPREAD:
        return Judged(NOT_REPRODUCED, words or UNTOLD, tuple(rows), figures)
    if alike == POLARISED:
        return Judged(REPRODUCED_IF, f"each switch hashes with a seed of its own: {words}", tuple(rows), figures)
    return Judged(REPRODUCED, words, tuple(rows), figures)


def _links_row(run: Run, answered: str | None, how: str) -> Row:
    found = tiers(run)
    top = found[-1] if found else None
    holds = {SPREAD: True, POLARISED: False}.get(answered or "")
    return Row(
        f"links to cores in use, {how}",
        len(top.links) if top else None,
        top.expected_used if top else None,
        top.used if top else None,
        "",
        "even by chi-square, and no more of them idle than chance explains",
        holds,
        "port_packets of measured.json",
    )


def _tolerates(run: Run) -> Judged:
    """Ways between racks that are farthest apart, what one switch of the highest tier takes away, and what a link that
    dies costs, beside a leaf-spine fabric of as many hosts."""
    tree = run.cases.get("fat_tree")
    if tree is None or tree.fabric is None or run.fabric is None:
        return untold("ways between racks over leaf-spine's", 1.0, "x")
    ways = {name: _ways(Fabric.of(each.fabric)) for name, each in (("leaf", run), ("tree", tree)) if each.fabric}
    tops = {name: len(_top(Fabric.of(each.fabric))) for name, each in (("leaf", run), ("tree", tree)) if each.fabric}
    rows = (
        told("ways between racks, leaf-spine", ways["leaf"], "", _FABRIC),
        _more("ways between racks, fat-tree", ways["leaf"], ways["tree"], _FABRIC),
        _less("share of the highest tier that dies with one switch, fat-tree", 100 / tops["leaf"], 100 / tops["tree"]),
        _lost_row("leaf-spine", run),
        _lost_row("fat-tree", tree),
    )
    words = (
        f"{ways['tree']:g} ways between racks instead of {ways['leaf']:g}, and a highest switch's death takes"
        f" {100 / tops['tree']:.0f} % of it instead of {100 / tops['leaf']:.0f} %"
    )
    verdict, because = answer(rows, lambda: words, lambda: words)
    if verdict == REPRODUCED:
        verdict = REPRODUCED_IF
        because = f"faults are those of the highest tier: {words}; each rack has {_uplinks(tree)} links up in both"
    return Judged(verdict, because, rows, shown(run, "failover_cases"))


def _more(quantity: str, less: float, measured: float, source: str) -> Row:
    return Row(quantity, less, None, measured, "", "more than leaf-spine's", measured > less, source)


def _less(quantity: str, more: float, measured: float) -> Row:
    return Row(quantity, more, None, measured, "%", "less than leaf-spine's", measured < more, _FABRIC)


def _lost_row(name: str, run: Run) -> Row:
    """What a dead link next to a rack costs, at most what was in flight on it and arrived before it was noticed."""
    told_of = failover.row(run)
    lost, flying = told_of["lost"], told_of["in_flight"]
    holds = None if lost is None else failover.verdict(run).verdict == failover.RECOVERS
    what, tolerance = f"datagrams lost with a rack's link, {name}", "no more than was in flight, or came before notice"
    return Row(what, None, flying if streams(run) else None, lost, "", tolerance, holds, _STREAMS)


def _top(fabric: Fabric) -> list[str]:
    return fabric.tier(fabric.highest_tier)


def _ways(fabric: Fabric) -> float:
    """The fewest shortest ways from a rack to one that is farthest from it."""
    above: dict[str, set[str]] = {}
    tier_of = {each.name: each.tier for each in fabric.switches}
    for one, other in (wire.ends for wire in fabric.wires):
        if one in tier_of and other in tier_of:
            low, high = sorted((one, other), key=lambda name: tier_of[name])
            above.setdefault(low, set()).add(high)
    return float(min(len(_tops_above(rack, above)) for rack in fabric.racks()))


def _tops_above(switch: str, above: dict[str, set[str]]) -> set[str]:
    """The highest switches above one: each is one shortest way down to a rack under others."""
    higher = above.get(switch, set())
    return {switch} if not higher else set().union(*(_tops_above(each, above) for each in higher))


def _uplinks(run: Run) -> int:
    """Links up of a rack."""
    fabric = Fabric.of(run.fabric or {})
    rack = next(iter(fabric.racks()))
    return sum(rack in wire.ends and not set(wire.ends) & set(fabric.hosts) for wire in fabric.wires)


def _costs(run: Run) -> Judged:
    """Switches and ports for as many hosts at the same bisection of 1:1."""
    tree = run.cases.get("fat_tree")
    if tree is None or tree.fabric is None or run.fabric is None:
        return untold("switches over leaf-spine's", 1.0, "x")
    flat, high = Fabric.of(run.fabric), Fabric.of(tree.fabric)
    rows = (
        told("hosts, fat-tree over leaf-spine", len(high.hosts) / len(flat.hosts), "x", _FABRIC),
        _dearer("switches a host", len(flat.switches) / len(flat.hosts), len(high.switches) / len(high.hosts)),
        _dearer("switch ports a host", _ports(flat) / len(flat.hosts), _ports(high) / len(high.hosts)),
    )
    words = f"for {len(high.hosts)} hosts {len(high.switches)} switches with {_ports(high)} ports in use, instead of"
    words = f"{words} {len(flat.switches)} with {_ports(flat)}"
    verdict, because = answer(rows, lambda: words, lambda: words)
    if verdict == REPRODUCED:
        return Judged(
            REPRODUCED_IF, f"cost is counted in switches and ports, not in money: {words}", rows, shown(run, "fabric")
        )
    return Judged(verdict, because, rows, shown(run, "fabric"))


def _dearer(quantity: str, flat: float, high: float) -> Row:
    return Row(f"{quantity}, fat-tree", flat, None, high, "", "more than leaf-spine's", high > flat, _FABRIC)


def _ports(fabric: Fabric) -> int:
    """Switch ports that something is plugged into."""
    names = {each.name for each in fabric.switches}
    return sum(end in names for wire in fabric.wires for end in wire.ends)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="fat_tree_tiers",
        slides="12",
        says="A fat-tree has three tiers of switches.",
        figures="3 tiers",
        trial=Trial("hops", {}, {}, only=True),
        model="edge, aggregation, core, aggregation, edge",
        tolerance="exactly",
        judge=_three_tiers,
        assumptions=("k = 4: 16 hosts",),
    ),
    Claim(
        key="fat_tree_bisection",
        slides="12",
        says="A fat-tree is non-blocking: it has full bisection bandwidth.",
        figures="full bisection",
        trial=BISECTION,
        model="line rate over the least that a host can get by the links: 1",
        tolerance="the worst host gets 95 % of its line rate",
        judge=partial(evenly, "fat_tree"),
        assumptions=(
            "k = 4: 16 hosts",
            "paths are those of D-mod-k routing, or of ECMP hashes",
            "one permutation in which all hosts send to another pod or rack",
        ),
    ),
    Claim(
        key="fat_tree_paths",
        slides="12",
        says="A fat-tree's flows have all of its paths.",
        figures="non-blocking",
        trial=Trial("polarisation", {}, {}, cases=("same_seed", "openflow_1.3"), quick_cases=("same_seed",)),
        model="links in use when each flow takes one at random: m (1 - (1 - 1/m)^n)",
        tolerance="chance explains the spread: p of 0.01 or more",
        judge=_all_paths,
        assumptions=("k = 8: 128 hosts", "1,000 random flows"),
    ),
    Claim(
        key="fat_tree_faults",
        slides="12",
        says="A fat-tree tolerates more faults than leaf-spine.",
        figures="more",
        trial=FAILOVER,
        model="(k/2)^2 ways between pods, k/2 between leaves of as many uplinks",
        tolerance="more ways, a smaller loss by a highest switch, and a dead link costs what was in flight",
        judge=_tolerates,
        assumptions=("16 hosts each: k = 4, and 4 leaves with 2 spines",),
    ),
    Claim(
        key="fat_tree_cost",
        slides="12",
        says="A fat-tree costs more than leaf-spine.",
        figures="more",
        trial=BISECTION,
        model="5 k^2 / 4 switches for k^3 / 4 hosts; leaf-spine n / h leaves and h spines",
        tolerance="more switches and more ports for as many hosts at 1:1",
        judge=_costs,
        assumptions=("no price list: switches and ports are counted",),
    ),
)
