"""Slide 13: the gap between links inside servers and between them."""

from __future__ import annotations

from analysis import text
from analysis.claims.judging import answer, near, shown, together, told, untold
from analysis.claims.model import NOT_REPRODUCED, REPRODUCED, REPRODUCED_IF, Claim, Judged, Row, Trial
from analysis.claims.shared_runs import HIERARCHY
from analysis.fabric import Fabric
from analysis.kinds.hierarchy_points import (
    OVERLAPPED,
    RING,
    Point,
    between_rate,
    common_size,
    inside_rate,
    most_servers,
    pick,
    points,
)
from analysis.kinds.probes import probes
from analysis.kinds.slides_hierarchy import TOLERANCE, compared
from analysis.run import Run
from analysis.spec import GPUS_PER_SERVER

GAP, INSIDE, BETWEEN = 18.0, 7.2e12, 400e9  # of a server, bytes/s
INSIDE_S, BETWEEN_S = 5e-6, (1e-6, 2e-6)
ABOUT = 0.25  # the slide says about
_PROBES = "probes of measured.json"
_ONE_RAIL, _ACROSS_LEAVES = 2, 4  # links between servers
_WIRES = (
    "wires and switches alone: hosts' and GPUs' own time is none in virtual time",
    "a switch takes 400 ns, NVSwitch too; a cable 100 ns",
)
_PODS = {"topology": "gpu_pod", "servers": "2"}
_POD = Trial("hops", _PODS, _PODS, only=True)


def _gap(run: Run) -> Judged:
    """Both rates from the slopes of all-reduces, and the report's comparison with the slide."""
    found = points(run)
    alone, between = pick(found, 1, RING), between_rate(found)
    inside = None if alone is None else inside_rate(alone)
    if alone is None or inside is None or between is None:
        return untold("inside over between", GAP, "x")
    both, slopes = 2 * GPUS_PER_SERVER * inside, "slopes over four sizes"
    nics = GPUS_PER_SERVER * alone.nic_bps / 8
    rows = (
        near("inside a server, both directions", INSIDE, both, "bytes/s", TOLERANCE, slopes,
             2 * GPUS_PER_SERVER * alone.inside_bps / 8),
        near("between servers, each way", BETWEEN, between, "bytes/s", TOLERANCE, slopes, nics),
        near("inside over between", GAP, both / between, "x", TOLERANCE, slopes, INSIDE / BETWEEN),
        told("inside over between, each way", both / 2 / between, "x", slopes, alone.inside_bps / alone.nic_bps),
    )  # fmt: skip
    verdict, because = together([each for each in compared(found) if each.source == "slide 13"])
    if verdict == REPRODUCED_IF and not all(row.holds for row in rows[:-1]):
        verdict, because = NOT_REPRODUCED, "; ".join(f"{row.quantity}: {row.measured:.3g}" for row in rows)
    return Judged(verdict, because, rows, shown(run, "inside"))


def _needed(run: Run) -> Judged:
    """How much faster the hierarchical all-reduce is than a flat ring on the largest pod."""
    found = points(run)
    servers = most_servers(found)
    flat, layered = (pick(found, servers, way) for way in (RING, OVERLAPPED))
    size_bytes = None if flat is None or layered is None else common_size(flat, layered)
    if flat is None or layered is None or size_bytes is None or servers < 2:
        return untold("hierarchical over flat", 1.0, "x")
    rows = _needed_rows(flat, layered, size_bytes)
    gain, rate = rows[0].measured, text.rate(8 * flat.rows[-1].busbw)
    words = f"on {servers * GPUS_PER_SERVER} GPUs {text.size(size_bytes)} hierarchically are {text.times(gain)} as fast"
    words = f"{words} as by a flat ring, whose bus bandwidth is one NIC's, {rate}"
    verdict, because = answer(rows, lambda: words, lambda: words)
    return Judged(verdict, because, rows, shown(run, "ways"))


def _needed_rows(flat: Point, layered: Point, size_bytes: int) -> tuple[Row, ...]:
    gain = flat.times_s[size_bytes] / layered.times_s[size_bytes]
    modelled = flat.modelled_s(size_bytes) / layered.modelled_s(size_bytes)
    one_nic, calls = 1 / flat.setting.outer.beta_s, "calls of measured.json"
    return (
        Row("hierarchical over flat ring", None, modelled, gain, "x", "faster", gain > 1, calls),
        near("flat ring's bus bandwidth, beside one NIC's", one_nic, flat.rows[-1].busbw, "bytes/s", TOLERANCE, calls,
             one_nic),
    )  # fmt: skip


def _inside(run: Run) -> Judged:
    """A datagram from GPU to GPU of one server."""
    inside_s = _longest_s(run, inside=True)
    if inside_s is None:
        return untold("inside a server", INSIDE_S, "s")
    modelled_s = (2 * run.parameters.link_delay_ns + run.parameters.switch_delay_ns) / 1e9
    row = near("inside a server", INSIDE_S, inside_s, "s", ABOUT, _PROBES, modelled_s)
    words = f"{text.seconds(inside_s)} over two links and one switch"
    verdict, because = answer((row,), lambda: words, lambda: words)
    return Judged(verdict, because, (row,), shown(run, "delays"))


def _between(run: Run) -> Judged:
    """A datagram between servers: on one rail, and across rails."""
    rail_s, across_s = (_longest_s(run, inside=False, links=links) for links in (_ONE_RAIL, _ACROSS_LEAVES))
    if rail_s is None or across_s is None:
        return untold("between servers, across rails", BETWEEN_S[1], "s")
    rows = (_between_row("on one rail", 1, rail_s, run), _between_row("across rails", 3, across_s, run))
    words = f"{text.seconds(rail_s)} on one rail, {text.seconds(across_s)} across rails"
    if all(row.holds for row in rows):
        return Judged(REPRODUCED, words, rows, shown(run, "delays"))
    if rows[1].holds:
        because = f"the message crosses rails, over three switches: {words}"
        return Judged(REPRODUCED_IF, because, rows, shown(run, "delays"))
    return Judged(NOT_REPRODUCED, words, rows, shown(run, "delays"))


def _between_row(where: str, switches: int, measured_s: float, run: Run) -> Row:
    (low, high), spec = BETWEEN_S, run.parameters
    modelled_s = ((switches + 1) * spec.link_delay_ns + switches * spec.switch_delay_ns) / 1e9
    what, holds = f"between servers, {where}", low <= measured_s <= high
    return Row(what, high, modelled_s, measured_s, "s", "1 to 2 us", holds, _PROBES)


def _servers_of(run: Run) -> dict[str, str]:
    """GPU -> its server's switch."""
    servers = Fabric.of(run.fabric).servers() if run.fabric else {}
    return {gpu: name for name, gpus in servers.items() for gpu in gpus}


def _longest_s(run: Run, inside: bool, links: int | None = None) -> float | None:
    """The longest time of a datagram inside a server or between servers, over so many links (default: any)."""
    where = _servers_of(run)
    times_ns = [
        probe.delay_ns
        for probe in probes(run)
        if (where.get(probe.sender) == where.get(probe.receiver)) == inside and links in (None, probe.links)
    ]
    return max(times_ns) / 1e9 if where and times_ns else None


CLAIMS: tuple[Claim, ...] = (
    Claim(
        key="server_gap",
        slides="13",
        says="Inside a server 7.2 TB/s, between servers 400 GB/s: an 18-fold gap.",
        figures="7.2 TB/s (8 GPUs, NVLink 4.0), 400 GB/s (8 x 400 Gb/s), 18",
        trial=HIERARCHY,
        model="8 x 900 GB/s over 8 x 50 GB/s",
        tolerance=f"within {TOLERANCE:.0%}",
        judge=_gap,
        assumptions=("NVLink is a link of 450 GB/s each way; rates are slopes of all-reduces over four sizes",),
    ),
    Claim(
        key="latency_inside",
        slides="13",
        says="Inside a server a message takes about 5 us.",
        figures="5 us",
        trial=_POD,
        model="2 links and a switch",
        tolerance=f"within {ABOUT:.0%}: the slide says about",
        judge=_inside,
        assumptions=_WIRES,
    ),
    Claim(
        key="latency_between",
        slides="13",
        says="Between servers a message takes 1 to 2 us by RDMA.",
        figures="1 to 2 us",
        trial=_POD,
        model="2 links and a switch on a rail, 4 links and 3 switches across rails",
        tolerance="in the range",
        judge=_between,
        assumptions=_WIRES,
    ),
    Claim(
        key="hierarchy_needed",
        slides="13",
        says="The gap makes hierarchical strategies necessary.",
        figures="",
        trial=HIERARCHY,
        model="a flat ring leaves each server by one NIC: 2 (n-1)/n S / b; hierarchically all 8 carry S/8 each",
        tolerance=f"faster than a flat ring, which has one NIC's bandwidth within {TOLERANCE:.0%}",
        judge=_needed,
    ),
)
