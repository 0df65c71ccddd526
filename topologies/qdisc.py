"""From profile to queue: builds the queue stack of a switch port or a NIC by netlink, and reads it back.
Nothing else speaks netlink to qdiscs.

A switch egress port (handles fixed, so that telemetry finds them):

    1: netem   link and pipeline delay; its limit never binds, because delay is not buffer. It has to be the root, so
               that packets cross the link before they are queued: they arrive when they should, but what is seen at the
               port (queue, marks, captures) is seen that delay later than at a switch
     2: tbf    line rate, burst of one frame
      3: prio  by DSCP: 3:1 control, 3:2 lossless, 3:3 lossy
       3:1  4: bfifo
       3:2  5: red (marks only) > 6: plug (holds the class while it is paused)
       3:3  7: red (marks, or drops early with plain RED) > 8: bfifo (tail drop at the configured bytes)
            no red without marking

A NIC:

    1: netem   link delay
     2: tbf    line rate
      3: prio  pure acknowledgements first (3:1 4: bfifo), all else after them (3:2 5: bfifo); nothing is dropped

The line in front of the NIC is as long as the windows of its connections, because netem takes packets off their
sockets' account at once (skb_orphan_partial) and TCP's own limit to it (TSQ) sees nothing: where the NIC is the
bottleneck, round trips grow with it. Acknowledgements that stood in it would come late and in clumps, and starve the
other direction; fq_codel, which systemd gives to hosts, serves such sparse flows first, and so does the first band
here.

Rates count frames as Linux does: with the Ethernet header, without FCS,
preamble and gap.

Sources: net/sched/sch_{netem,tbf,prio,fifo,red,plug}.c and linux/pkt_sched.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from topologies.netlink import (
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_ECHO,
    NLM_F_EXCL,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    RTM_NEWTFILTER,
    Netlink,
    Request,
    attribute,
    attributes,
    nested,
    number,
    text,
)
from topologies.profiles import LinkProfile, Marking, SwitchProfile
from topologies.qdisc_kinds import FORMATS, PLUG_RELEASE_INDEFINITE, TCA_OPTIONS, TICK_NS, Value

ROOT = 0xFFFFFFFF
NETEM, TBF, PRIO, CONTROL, LOSSLESS_RED, LOSSLESS, LOSSY_RED, LOSSY = (handle << 16 for handle in range(1, 9))
NIC_ACKS, NIC_QUEUE = CONTROL, LOSSLESS_RED
_PORT_BANDS, _NIC_BANDS = 3, 2
CONTROL_DSCP, LOSSLESS_DSCP = 48, 26
DELAY_LINE_PACKETS = 10_000_000
NIC_QUEUE_BYTES = 1 << 30
CONTROL_QUEUE_BYTES = 1 << 20
_TIMER_LATENESS_NS = 16
# Words of an IP header without options and of the TCP header behind it, as (mask, value, offset): under 128 bytes in
# all, TCP, and of its flags ACK alone (ECE may be there too; data ends with PSH).
_PURE_ACK = ((0x0000FF80, 0, 0), (0x00FF0000, 6 << 16, 8), (0x00BF0000, 0x10 << 16, 32))

_TCA_KIND, _TCA_STATS2 = 1, 7
_TCM = struct.Struct("=BxxxiIII")


@dataclass(frozen=True)
class Qdisc:
    """One queueing discipline as asked for or as read back; handles are 32-bit (major << 16 | minor)."""

    kind: str
    handle: int
    parent: int
    options: dict[str, Value] = field(default_factory=dict)
    statistics: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Plain values for a run directory; handles in tc's notation ("7:", "3:3")."""
        return {
            "kind": self.kind,
            "handle": _handle_text(self.handle),
            "parent": _handle_text(self.parent),
            "options": self.options,
            **self.statistics,
        }


def _handle_text(handle: int) -> str:
    if handle == ROOT:
        return "root"
    minor = handle & 0xFFFF
    return f"{handle >> 16:x}:{minor:x}" if minor else f"{handle >> 16:x}:"


def burst_bytes(link: LinkProfile) -> int:
    """One frame, and what passes in the few nanoseconds by which a timer may be late: time that the bucket cannot
    hold would be lost to the link."""
    return link.frame_bytes + link.rate_bps * _TIMER_LATENESS_NS // 8_000_000_000 + 1


def switch_port(link: LinkProfile, switch: SwitchProfile) -> tuple[Qdisc, ...]:
    """The stack of a switch egress port."""
    return (
        *_line(link, link.delay_ns + switch.delay_ns),
        Qdisc("prio", PRIO, TBF | 1, {"bands": _PORT_BANDS, "default_band": 2}),
        Qdisc("bfifo", CONTROL, PRIO | 1, {"limit_bytes": CONTROL_QUEUE_BYTES}),
        *_marked(Qdisc("plug", LOSSLESS, PRIO | 2, {"limit_bytes": switch.buffer_bytes}), LOSSLESS_RED, switch, False),
        *_marked(Qdisc("bfifo", LOSSY, PRIO | 3, {"limit_bytes": switch.buffer_bytes}), LOSSY_RED, switch, True),
    )


def nic(link: LinkProfile) -> tuple[Qdisc, ...]:
    """The stack of a host's NIC: it delays and paces, and never drops."""
    return (
        *_line(link, link.delay_ns),
        Qdisc("prio", PRIO, TBF | 1, {"bands": _NIC_BANDS, "default_band": 1}),
        Qdisc("bfifo", NIC_ACKS, PRIO | 1, {"limit_bytes": NIC_QUEUE_BYTES}),
        Qdisc("bfifo", NIC_QUEUE, PRIO | 2, {"limit_bytes": NIC_QUEUE_BYTES}),
    )


def _line(link: LinkProfile, delay_ns: int) -> tuple[Qdisc, Qdisc]:
    return (
        Qdisc("netem", NETEM, ROOT, {"delay_ns": delay_ns, "limit_packets": DELAY_LINE_PACKETS}),
        Qdisc("tbf", TBF, NETEM | 1, {"rate_bps": link.rate_bps, "burst_bytes": burst_bytes(link)}),
    )


def _marked(queue: Qdisc, red_handle: int, switch: SwitchProfile, may_drop: bool) -> tuple[Qdisc, ...]:
    """`queue` behind a marker, or alone when the switch does not mark, or would drop where it may not."""
    if switch.marking is None or (switch.marking.drop and not may_drop):
        return (queue,)
    options = _red_options(switch.marking, switch.buffer_bytes)
    return (Qdisc("red", red_handle, queue.parent, options), replace(queue, parent=red_handle | 1))


def _red_options(marking: Marking, buffer_bytes: int) -> dict[str, Value]:
    return {
        "kmin_bytes": marking.kmin_bytes,
        "kmax_bytes": marking.kmax_bytes,
        "pmax": marking.pmax,
        "limit_bytes": buffer_bytes,
        "ecn": not marking.drop,
    }


def install(ifindex: int, stack: tuple[Qdisc, ...]) -> Iterator[Request]:
    """Requests that build `stack` on an interface, for `Netlink.execute`."""
    for qdisc in stack:
        yield _new(ifindex, qdisc)
        if qdisc.kind == "plug":
            yield plug(ifindex, PLUG_RELEASE_INDEFINITE)
        if qdisc.kind == "prio":
            yield from _classifiers(ifindex, int(qdisc.options["bands"]))


def _classifiers(ifindex: int, bands: int) -> Iterator[Request]:
    """A port's three bands are told apart by DSCP, a NIC's two by what is a pure acknowledgement."""
    if bands == _NIC_BANDS:
        yield _classify(ifindex, _PURE_ACK, 1, "pure acknowledgements")
        return
    for band, dscp in ((1, CONTROL_DSCP), (2, LOSSLESS_DSCP)):
        yield _classify(ifindex, ((0x00FC0000, dscp << 18, 0),), band, f"DSCP {dscp}")


def _tc_message(ifindex: int, handle: int, parent: int, info: int = 0) -> bytes:
    return _TCM.pack(0, ifindex, handle, parent, info)


def _new(ifindex: int, qdisc: Qdisc) -> Request:
    body = (
        _tc_message(ifindex, qdisc.handle, qdisc.parent)
        + text(_TCA_KIND, qdisc.kind)
        + FORMATS[qdisc.kind].encode(qdisc.options)
    )
    return Request(
        RTM_NEWQDISC,
        NLM_F_CREATE | NLM_F_EXCL,
        body,
        f"add {qdisc.kind} {_handle_text(qdisc.handle)} to interface {ifindex}",
    )


def _classify(ifindex: int, keys: tuple[tuple[int, int, int], ...], band: int, what: str) -> Request:
    """A u32 filter: packets of which each key's word, at its offset in the IP header, has its value under its mask, to
    prio band `band` (net/sched/cls_u32.c)."""
    ethertype_ip = 0x0800
    packed = b"".join(struct.pack("!II", mask, value) + struct.pack("=ii", offset, 0) for mask, value, offset in keys)
    selector = struct.pack("=BBBxHHhhI", 1, 0, len(keys), 0, 0, 0, 0, 0) + packed
    body = _tc_message(ifindex, 0, PRIO, band << 16 | struct.unpack("=H", struct.pack("!H", ethertype_ip))[0]) + text(
        _TCA_KIND, "u32"
    )
    body += nested(TCA_OPTIONS, number(1, PRIO | band), attribute(5, selector))
    return Request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body, f"classify {what} on interface {ifindex}")


def plug(ifindex: int, action: int) -> Request:
    """Hold (TCQ_PLUG_BUFFER) or release the lossless class of a port."""
    body = (
        _tc_message(ifindex, LOSSLESS, 0)
        + text(_TCA_KIND, "plug")
        + attribute(TCA_OPTIONS, struct.pack("=iI", action, 0))
    )
    return Request(RTM_NEWQDISC, 0, body, f"plug action {action} on interface {ifindex}")


def read(netlink: Netlink, ifindex: int) -> list[Qdisc]:
    """Every qdisc of one interface with its options and counters, as the kernel tells them."""
    return read_all(netlink).get(ifindex, [])


def read_all(netlink: Netlink) -> dict[int, list[Qdisc]]:
    """Every qdisc of the netlink socket's namespace by interface index."""
    found: dict[int, list[Qdisc]] = {}
    for body in netlink.query(Request(RTM_GETQDISC, NLM_F_DUMP, _tc_message(0, 0, 0), "list qdiscs")):
        ifindex, qdisc = _decode(body)
        if qdisc.kind in FORMATS:
            found.setdefault(ifindex, []).append(qdisc)
    return found


def _decode(body: bytes) -> tuple[int, Qdisc]:
    _, ifindex, handle, parent, _ = _TCM.unpack_from(body)
    found = attributes(body[_TCM.size :])
    kind = found[_TCA_KIND].rstrip(b"\0").decode()
    options = FORMATS[kind].decode(found.get(TCA_OPTIONS, b"")) if kind in FORMATS else {}
    return ifindex, Qdisc(kind, handle, parent, options, _statistics(kind, found.get(_TCA_STATS2, b"")))


def _statistics(kind: str, data: bytes) -> dict[str, int]:
    """TCA_STATS2: gnet_stats_basic, gnet_stats_queue, and RED's own (tc_red_xstats)."""
    found = attributes(data)
    (count,) = struct.unpack_from("=Q", found.get(1, bytes(8)))
    packets = struct.unpack_from(
        "=Q" if 8 in found else "=I", found[8] if 8 in found else found.get(1, bytes(16)), 0 if 8 in found else 8
    )[0]
    queued, backlog, drops, _, overlimits = struct.unpack_from("=5I", found.get(_STATS_QUEUE, bytes(20)))
    values = {
        "bytes": count,
        "packets": packets,
        "drops": drops,
        "overlimits": overlimits,
        "backlog_packets": queued,
        "backlog_bytes": backlog,
    }
    if kind == "red" and _STATS_APP in found:
        values["early"], _, _, values["marked"] = struct.unpack_from("=4I", found[_STATS_APP])
    return values


def differences(asked: tuple[Qdisc, ...], got: list[Qdisc], link: LinkProfile) -> list[str]:
    """What the kernel holds against what was asked: one line per difference, empty when the stack is as wanted."""
    by_handle = {qdisc.handle: qdisc for qdisc in got}
    lines = []
    for qdisc in asked:
        real = by_handle.get(qdisc.handle)
        if real is None or real.kind != qdisc.kind or (real.parent != qdisc.parent):
            lines.append(f"{qdisc.kind} {_handle_text(qdisc.handle)} at {_handle_text(qdisc.parent)} is missing")
            continue
        lines += [
            f"{qdisc.kind} {_handle_text(qdisc.handle)}: {name} is {real.options[name]}, asked {value}"
            for name, value in qdisc.options.items()
            if name in real.options and not _close(name, value, real.options[name], link)
        ]
    return lines


def _close(name: str, asked: Value, real: Value, link: LinkProfile) -> bool:
    """Equal, but for what the kernel tells in coarse units: TBF's burst in ticks of 64 ns, probabilities in 2^-32."""
    if name == "burst_bytes":
        return abs(int(asked) - int(real)) <= link.rate_bps * TICK_NS // 8_000_000_000 + 1
    if name == "pmax":
        return abs(float(asked) - float(real)) < 1e-6
    return asked == real


class Probe:
    """Reads one qdisc again and again with as little work as possible: one prepared request, fixed places in
    the answer."""

    def __init__(self, ifindex: int, handle: int) -> None:
        self._netlink = Netlink()
        self._request = self._netlink.prepare(
            Request(RTM_GETQDISC, NLM_F_ECHO, _tc_message(ifindex, handle, 0), f"read qdisc {_handle_text(handle)}")
        )
        self._length = 0
        self._queue_at = 0
        self._red_at: int | None = None

    def read(self) -> tuple[int, int, int, int]:
        """Queue in bytes and packets, drops and marks since the qdisc was made."""
        answer = self._netlink.exchange(self._request)
        if len(answer) != self._length:
            self._locate(answer)
        packets, backlog_bytes, drops = _QUEUE.unpack_from(answer, self._queue_at)
        marks = _MARKED.unpack_from(answer, self._red_at)[0] if self._red_at is not None else 0
        return backlog_bytes, packets, drops, marks

    def _locate(self, answer: bytes) -> None:
        """Where gnet_stats_queue and tc_red_xstats lie in an answer of this length."""
        top = _places(answer, 16 + _TCM.size, len(answer))
        if _TCA_STATS2 not in top:
            raise OSError("the kernel does not tell this qdisc's counters")
        inner = _places(answer, *top[_TCA_STATS2])
        self._length, self._queue_at = len(answer), inner[_STATS_QUEUE][0]
        is_red = answer[slice(*top[_TCA_KIND])].startswith(b"red\0")
        self._red_at = inner[_STATS_APP][0] + _RED_MARKED_OFFSET if is_red else None

    def close(self) -> None:
        """Close the netlink socket."""
        self._netlink.close()


_QUEUE, _MARKED = struct.Struct("=III"), struct.Struct("=I")
_STATS_QUEUE, _STATS_APP = 3, 4
_RED_MARKED_OFFSET = 12


def _places(data: bytes, begin: int, end: int) -> dict[int, tuple[int, int]]:
    """Attribute number -> where its payload begins and ends."""
    found = {}
    while begin + 4 <= end:
        length, kind = struct.unpack_from("=HH", data, begin)
        found[kind & 0x3FFF] = (begin + 4, begin + length)
        begin += max(4, (length + 3) & ~3)
    return found
