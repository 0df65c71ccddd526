"""From profile to queue: builds the queue stack of a switch port or a NIC by netlink, and reads it back.
Nothing else speaks netlink to qdiscs.

A switch egress port (handles fixed, so that telemetry finds them):

    1: netem   link and pipeline delay; its limit never binds, because delay is not buffer. It has to be the root, so
               that packets cross the link before they are queued: they arrive when they should, but what is seen at the
               port (queue, marks, captures) is seen that delay later than at a switch
     2: tbf    line rate, burst of one frame
      3: prio  3:1 control (DSCP 48, pause frames), 3:2 lossless (DSCP 26), 3:3 lossy
       3:1  4: bfifo
       3:2  5: red (marks only) > 6: pfc (counts by ingress port, tells of XOFF and XON, can be held)
       3:3  7: red (marks, or drops early with plain RED) > 8: bfifo (tail drop at the configured bytes)
            no red without marking; a pfc without thresholds is a bfifo that can be held

A NIC:

    1: netem   link delay
     2: tbf    line rate
      3: prio  3:1 control (DSCP 48, pause frames, pure acknowledgements of TCP), 3:2 lossless, 3:3 all else
       3:1  4: bfifo
       3:2  6: rnic (a queue and a rate for each RoCE queue pair; can be held)
       3:3  8: bfifo; nothing is dropped

The line in front of the NIC is as long as the windows of its connections, because netem takes packets off their
sockets' account at once (skb_orphan_partial) and TCP's own limit to it (TSQ) sees nothing: where the NIC is the
bottleneck, round trips grow with it. Acknowledgements that stood in it would come late and in clumps, and starve the
other direction; fq_codel, which systemd gives to hosts, serves such sparse flows first, and so does the first band
here.

pfc and rnic are ours (lab/patches/0008 and 0009). A kernel without them has a bfifo in their place, which nobody can
hold or pace; one without prio has no classes, the lossy queue hangs on tbf; one without netem has no delay, tbf is the
root. What is asked for and cannot be had is an error, never left out. On the real clock the bucket of tbf holds more
than a frame, see `burst_bytes`.

Rates count frames as Linux does: with the Ethernet header, without FCS,
preamble and gap.

Sources: net/sched/sch_{netem,tbf,prio,fifo,red}.c and linux/pkt_sched.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from topologies.ground import LAB_VIRTUAL, Ground
from topologies.netlink import (
    NLM_F_CREATE,
    NLM_F_DUMP,
    NLM_F_EXCL,
    RTM_DELQDISC,
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
from topologies.profiles import LinkProfile, Lossless, Marking, SwitchProfile
from topologies.qdisc_kinds import FORMATS, TCA_OPTIONS, TICK_NS, Value, statistics

ROOT = 0xFFFFFFFF
NETEM, TBF, PRIO, CONTROL, LOSSLESS_RED, LOSSLESS, LOSSY_RED, LOSSY = (handle << 16 for handle in range(1, 9))
_BANDS = 3
CONTROL_DSCP, LOSSLESS_DSCP = 48, 26
DELAY_LINE_PACKETS = 10_000_000
NIC_QUEUE_BYTES = 1 << 30
CONTROL_QUEUE_BYTES = 1 << 20
_UNLIMITED_BYTES = (1 << 32) - 1
_ETHERTYPE_IP, _ETHERTYPE_MAC_CONTROL = 0x0800, 0x8808
# Words of an IP header without options and of the TCP header behind it, as (mask, value, offset): under 128 bytes in
# all, TCP, and of its flags ACK alone (ECE may be there too; data ends with PSH).
_PURE_ACK = ((0x0000FF80, 0, 0), (0x00FF0000, 6 << 16, 8), (0x00BF0000, 0x10 << 16, 32))

TCA_KIND, TCA_STATS2 = 1, 7
TCM = struct.Struct("=BxxxiIII")


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
            "handle": handle_text(self.handle),
            "parent": handle_text(self.parent),
            "options": self.options,
            **self.statistics,
        }


def handle_text(handle: int) -> str:
    """A handle in tc's notation: "7:", "3:3", "root"."""
    if handle == ROOT:
        return "root"
    minor = handle & 0xFFFF
    return f"{handle >> 16:x}:{minor:x}" if minor else f"{handle >> 16:x}:"


def burst_bytes(link: LinkProfile, ground: Ground = LAB_VIRTUAL) -> int:
    """One frame, and what passes while a timer is late: time that the bucket cannot hold would be lost to the link."""
    return link.frame_bytes + link.rate_bps * ground.timer_lateness_ns // 8_000_000_000 + 1


def switch_port(
    link: LinkProfile, switch: SwitchProfile, pool: int = 0, ground: Ground = LAB_VIRTUAL
) -> tuple[Qdisc, ...]:
    """The stack of a switch egress port; `pool` is the number of its switch, whose ports share memory. Raises
    ValueError when the kernel lacks what the profiles ask for."""
    marking = None if switch.marking is None else switch.marking.at(link.rate_bps)
    lossless = _lossless(switch, pool, ground)
    lossy = Qdisc("bfifo", LOSSY, PRIO | 3, {"limit_bytes": switch.buffer_bytes})
    return (
        *_line(link, link.delay_ns + switch.delay_ns, ground),
        *_classes(
            ground,
            Qdisc("bfifo", CONTROL, PRIO | 1, {"limit_bytes": CONTROL_QUEUE_BYTES}),
            _marked(lossless, LOSSLESS_RED, marking, switch.buffer_bytes, ground, may_drop=False),
            _marked(lossy, LOSSY_RED, marking, switch.buffer_bytes, ground, may_drop=True),
        ),
    )


def nic(link: LinkProfile, ground: Ground = LAB_VIRTUAL) -> tuple[Qdisc, ...]:
    """The stack of a host's NIC: it delays and paces, and never drops. Raises ValueError when the kernel lacks what the
    profile asks for."""
    lossless = "rnic" if "rnic" in ground.kinds else "bfifo"
    return (
        *_line(link, link.delay_ns, ground),
        *_classes(
            ground,
            Qdisc("bfifo", CONTROL, PRIO | 1, {"limit_bytes": NIC_QUEUE_BYTES}),
            (Qdisc(lossless, LOSSLESS, PRIO | 2, {"limit_bytes": NIC_QUEUE_BYTES}),),
            (Qdisc("bfifo", LOSSY, PRIO | 3, {"limit_bytes": NIC_QUEUE_BYTES}),),
        ),
    )


def _line(link: LinkProfile, delay_ns: int, ground: Ground) -> tuple[Qdisc, ...]:
    tbf = Qdisc("tbf", TBF, NETEM | 1, {"rate_bps": link.rate_bps, "burst_bytes": burst_bytes(link, ground)})
    if "netem" in ground.kinds:
        return (Qdisc("netem", NETEM, ROOT, _delay_line(link, delay_ns)), tbf)
    if delay_ns or link.loss:
        raise ValueError(f"delay {delay_ns} ns, loss {link.loss}: the kernel has no netem, so both have to be 0")
    return (replace(tbf, parent=ROOT),)


def _classes(
    ground: Ground, control: Qdisc, lossless: tuple[Qdisc, ...], lossy: tuple[Qdisc, ...]
) -> tuple[Qdisc, ...]:
    """The three classes behind the rate limiter, or the lossy one alone where the kernel tells none apart."""
    if "prio" not in ground.kinds:
        return (replace(lossy[0], parent=TBF | 1), *lossy[1:])
    return (Qdisc("prio", PRIO, TBF | 1, {"bands": _BANDS, "default_band": 2}), control, *lossless, *lossy)


def _delay_line(link: LinkProfile, delay_ns: int) -> dict[str, Value]:
    loss_steps = round(link.loss * ((1 << 32) - 1))
    return {"delay_ns": delay_ns, "limit_packets": DELAY_LINE_PACKETS, "loss": loss_steps}


def _lossless(switch: SwitchProfile, pool: int, ground: Ground) -> Qdisc:
    """The lossless class's queue; a pfc without thresholds does what a bfifo does."""
    if "pfc" in ground.kinds:
        return Qdisc("pfc", LOSSLESS, PRIO | 2, _pfc_options(switch.lossless, switch.buffer_bytes, pool))
    if switch.lossless is not None:
        raise ValueError("PFC: the kernel has no pfc queue, so no class is lossless")
    return Qdisc("bfifo", LOSSLESS, PRIO | 2, {"limit_bytes": switch.buffer_bytes})


def _pfc_options(lossless: Lossless | None, buffer_bytes: int, pool: int) -> dict[str, Value]:
    """Where bytes are counted at the ingress the queue itself has no end: headroom does, port by port."""
    if lossless is None:
        lossless = Lossless(xoff_bytes=0, xon_bytes=0, headroom_bytes=0, at="egress")
    at_egress = lossless.at == "egress"
    return {
        "limit_bytes": buffer_bytes if at_egress else _UNLIMITED_BYTES,
        "xoff_bytes": lossless.xoff_bytes,
        "xon_bytes": lossless.xon_bytes,
        "headroom_bytes": lossless.headroom_bytes,
        "at_egress": at_egress,
        "alpha": lossless.alpha or 0.0,
        "pool": pool,
        "pool_bytes": lossless.pool_bytes or 0,
    }


def _marked(
    queue: Qdisc, red_handle: int, marking: Marking | None, buffer_bytes: int, ground: Ground, may_drop: bool
) -> tuple[Qdisc, ...]:
    """`queue` behind a marker, or alone when the switch does not mark, or would drop where it may not."""
    if marking is None or (marking.drop and not may_drop):
        return (queue,)
    if "red" not in ground.kinds:
        raise ValueError("marking: the kernel has no red queue")
    options = red_options(marking, buffer_bytes)
    if not ground.is_patched:
        options["spaced"] = True
    return (Qdisc("red", red_handle, queue.parent, options), replace(queue, parent=red_handle | 1))


def red_options(marking: Marking, buffer_bytes: int) -> dict[str, Value]:
    """A marking curve as RED's options."""
    return {
        "kmin_bytes": marking.kmin_bytes,
        "kmax_bytes": marking.kmax_bytes,
        "pmax": marking.pmax,
        "limit_bytes": buffer_bytes,
        "ecn": not marking.drop,
    }


def install(ifindex: int, stack: tuple[Qdisc, ...], is_nic: bool = False) -> Iterator[Request]:
    """Requests that build `stack` on an interface, for `Netlink.execute`."""
    for qdisc in stack:
        yield _new(ifindex, qdisc)
        if qdisc.kind == "prio":
            yield from _classifiers(ifindex, is_nic)


def uninstall(ifindex: int) -> Request:
    """Remove the stack of an interface, whatever it is."""
    return Request(RTM_DELQDISC, 0, tc_message(ifindex, 0, ROOT), f"remove the queues of interface {ifindex}")


def _classifiers(ifindex: int, is_nic: bool) -> Iterator[Request]:
    """Which packets go to the control and to the lossless band. A NIC takes TCP's pure acknowledgements for control."""
    yield _classify(ifindex, ((0, 0, 0),), 1, 1, "pause frames", _ETHERTYPE_MAC_CONTROL)
    yield _classify(ifindex, _of_dscp(CONTROL_DSCP), 1, 2, f"DSCP {CONTROL_DSCP}")
    if is_nic:
        yield _classify(ifindex, _PURE_ACK, 1, 3, "pure acknowledgements")
    yield _classify(ifindex, _of_dscp(LOSSLESS_DSCP), 2, 4, f"DSCP {LOSSLESS_DSCP}")


def _of_dscp(dscp: int) -> tuple[tuple[int, int, int], ...]:
    return ((0x00FC0000, dscp << 18, 0),)


def tc_message(ifindex: int, handle: int, parent: int, info: int = 0) -> bytes:
    """struct tcmsg: what a message about a qdisc or filter begins with."""
    return TCM.pack(0, ifindex, handle, parent, info)


def _new(ifindex: int, qdisc: Qdisc) -> Request:
    body = (
        tc_message(ifindex, qdisc.handle, qdisc.parent)
        + text(TCA_KIND, qdisc.kind)
        + FORMATS[qdisc.kind].encode(qdisc.options)
    )
    return Request(
        RTM_NEWQDISC,
        NLM_F_CREATE | NLM_F_EXCL,
        body,
        f"add {qdisc.kind} {handle_text(qdisc.handle)} to interface {ifindex}",
    )


def _classify(
    ifindex: int,
    keys: tuple[tuple[int, int, int], ...],
    band: int,
    order: int,
    what: str,
    ethertype: int = _ETHERTYPE_IP,
) -> Request:
    """A u32 filter, the `order`-th that is asked: packets of which each key's word, at its offset behind the Ethernet
    header, has its value under its mask, to prio band `band` (net/sched/cls_u32.c)."""
    packed = b"".join(struct.pack("!II", mask, value) + struct.pack("=ii", offset, 0) for mask, value, offset in keys)
    selector = struct.pack("=BBBxHHhhI", 1, 0, len(keys), 0, 0, 0, 0, 0) + packed
    info = order << 16 | socket.htons(ethertype)
    body = tc_message(ifindex, 0, PRIO, info) + text(TCA_KIND, "u32")
    body += nested(TCA_OPTIONS, number(1, PRIO | band), attribute(5, selector))
    return Request(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body, f"classify {what} on interface {ifindex}")


def read(netlink: Netlink, ifindex: int) -> list[Qdisc]:
    """Every qdisc of one interface with its options and counters, as the kernel tells them."""
    return read_all(netlink).get(ifindex, [])


def read_all(netlink: Netlink) -> dict[int, list[Qdisc]]:
    """Every qdisc of the netlink socket's namespace by interface index."""
    found: dict[int, list[Qdisc]] = {}
    for body in netlink.query(Request(RTM_GETQDISC, NLM_F_DUMP, tc_message(0, 0, 0), "list qdiscs")):
        ifindex, qdisc = _decode(body)
        if qdisc.kind in FORMATS:
            found.setdefault(ifindex, []).append(qdisc)
    return found


def _decode(body: bytes) -> tuple[int, Qdisc]:
    _, ifindex, handle, parent, _ = TCM.unpack_from(body)
    found = attributes(body[TCM.size :])
    kind = found[TCA_KIND].rstrip(b"\0").decode()
    options = FORMATS[kind].decode(found.get(TCA_OPTIONS, b"")) if kind in FORMATS else {}
    return ifindex, Qdisc(kind, handle, parent, options, statistics(kind, found.get(TCA_STATS2, b"")))


def differences(asked: tuple[Qdisc, ...], got: list[Qdisc], link: LinkProfile) -> list[str]:
    """What the kernel holds against what was asked: one line per difference, empty when the stack is as wanted.

    RED's limit is left out: it only sizes a queue of RED's own, and is 0 once the curve has been changed.
    """
    by_handle = {qdisc.handle: qdisc for qdisc in got}
    lines = []
    for qdisc in asked:
        real = by_handle.get(qdisc.handle)
        if real is None or real.kind != qdisc.kind or (real.parent != qdisc.parent):
            lines.append(f"{qdisc.kind} {handle_text(qdisc.handle)} at {handle_text(qdisc.parent)} is missing")
            continue
        lines += [
            f"{qdisc.kind} {handle_text(qdisc.handle)}: {name} is {real.options[name]}, asked {value}"
            for name, value in qdisc.options.items()
            if name in real.options
            and (qdisc.kind, name) != _NOT_KEPT
            and not _close(name, value, real.options[name], link)
        ]
    return lines


_NOT_KEPT = ("red", "limit_bytes")


def _close(name: str, asked: Value, real: Value, link: LinkProfile) -> bool:
    """Equal, but for what the kernel tells in coarse units: TBF's burst in ticks of 64 ns, probabilities in 2^-32."""
    if name == "burst_bytes":
        return abs(int(asked) - int(real)) <= link.rate_bps * TICK_NS // 8_000_000_000 + 1
    if name == "pmax":
        return abs(float(asked) - float(real)) < 1e-6
    if name == "alpha":
        return abs(float(asked) - float(real)) <= 1 / 512
    return asked == real
