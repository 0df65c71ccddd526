"""How each kind of qdisc says its options to the kernel and is told them back, plain values to TCA_OPTIONS and back;
and what it counts (pure)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol, Union

from topologies.netlink import attribute, attributes, nested, number

Value = Union[int, float, str, bool]

TCA_OPTIONS = 2
TICK_NS = 64  # PSCHED_SHIFT 6: the kernel tells times in units of 64 ns
# In TCA_STATS2; without TCA_STATS_PKT64 the packets are those of 32 bits in TCA_STATS_BASIC.
_STATS_BASIC, STATS_QUEUE, STATS_APP, _STATS_PACKETS64 = 1, 3, 4, 8
_STATS_BASIC_BYTES = 16  # struct gnet_stats_basic, padded
_NETEM_LATENCY64 = 10
_PFC_THRESHOLDS, _PFC_HOLD, _PFC_DISCARD = 1, 2, 3
_RNIC_LIMIT, _RNIC_HOLD, _RNIC_RATE, _RNIC_PAIR = 1, 2, 3, 4
_ALPHA_UNIT = 256
_TBF_PARMS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_RED_PARMS, _RED_STAB, _RED_MAX_P, _RED_FLAGS = 1, 2, 3, 4
_RED_ECN, _RED_NODROP, _RED_INDEPENDENT = 1, 8, 16
_RED_STOCK_MARKS = _RED_ECN | _RED_NODROP
_RED_MARKS = _RED_STOCK_MARKS | _RED_INDEPENDENT
# RED acts from its thresholds on (include/net/red.h, red_cmp_thresh), DCTCP and DCQCN above theirs.
_RED_ABOVE_BYTES = 1


class Format(Protocol):
    """How a kind's options become TCA_OPTIONS, and how they are told back."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        """The whole TCA_OPTIONS attribute."""

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        """Options from the payload of TCA_OPTIONS."""


class _Netem:
    """struct tc_netem_qopt, TCA_NETEM_LATENCY64; `loss`: a probability in steps of 2^-32."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        qopt = struct.pack("=6I", 0, int(options["limit_packets"]), int(options["loss"]), 0, 0, 0)
        return attribute(TCA_OPTIONS, qopt + attribute(_NETEM_LATENCY64, struct.pack("=q", int(options["delay_ns"]))))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        latency = attributes(data[24:])[_NETEM_LATENCY64]
        limit_packets, loss = struct.unpack_from("=2I", data, 4)
        return {"delay_ns": struct.unpack("=q", latency)[0], "limit_packets": limit_packets, "loss": loss}


class _Tbf:
    """struct tc_tbf_qopt, TCA_TBF_RATE64, TCA_TBF_BURST. The queue is the child's, so the limit is 0."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        rate_bytes_ps = int(options["rate_bps"]) // 8
        ethernet = 1  # link layer: no rate table wanted
        spec = struct.pack("=BBHhHI", 0, ethernet, 0, 0, 0, min(rate_bytes_ps, 0xFFFFFFFF))
        qopt = spec + bytes(12) + struct.pack("=III", 0, 0, 0)
        return nested(
            TCA_OPTIONS,
            attribute(_TBF_PARMS, qopt),
            attribute(_TBF_RATE64, struct.pack("=Q", rate_bytes_ps)),
            number(_TBF_BURST, int(options["burst_bytes"])),
        )

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        found = attributes(data)
        rate_bytes_ps = struct.unpack_from("=I", found[_TBF_PARMS], 8)[0]
        if _TBF_RATE64 in found:
            rate_bytes_ps = struct.unpack("=Q", found[_TBF_RATE64])[0]
        ticks = struct.unpack_from("=I", found[_TBF_PARMS], 28)[0]
        return {"rate_bps": rate_bytes_ps * 8, "burst_bytes": ticks * TICK_NS * rate_bytes_ps // 10**9}


class _Prio:
    """struct tc_prio_qopt: every priority to the default band, the filters decide otherwise."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        return attribute(TCA_OPTIONS, struct.pack("=i16B", int(options["bands"]), *[int(options["default_band"])] * 16))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        bands, *priomap = struct.unpack_from("=i16B", data)
        return {"bands": bands, "default_band": priomap[0]}


class _Bfifo:
    """struct tc_fifo_qopt."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        return attribute(TCA_OPTIONS, struct.pack("=I", int(options["limit_bytes"])))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        return {"limit_bytes": struct.unpack_from("=I", data)[0]}


class _Pfc:
    """struct tc_pfc_thresholds (lab/patches/0008). `at_egress`: counted in this queue, not by ingress port. alpha is in
    1/256 of the pool's free bytes; 0 for a fixed XOFF."""

    _THRESHOLDS = struct.Struct("=8I")

    @classmethod
    def encode(cls, options: dict[str, Value]) -> bytes:
        xoff, xon = int(options["xoff_bytes"]), int(options["xon_bytes"])
        packed = cls._THRESHOLDS.pack(
            int(options["limit_bytes"]),
            xoff,
            xoff - xon,
            int(options["headroom_bytes"]),
            int(options["at_egress"]),
            round(float(options["alpha"]) * _ALPHA_UNIT),
            int(options["pool"]),
            int(options["pool_bytes"]),
        )
        return nested(TCA_OPTIONS, attribute(_PFC_THRESHOLDS, packed))

    @classmethod
    def decode(cls, data: bytes) -> dict[str, Value]:
        found = attributes(data)
        limit, xoff, gap, headroom, at, alpha, pool, pool_bytes = cls._THRESHOLDS.unpack(found[_PFC_THRESHOLDS])
        return {
            "limit_bytes": limit,
            "xoff_bytes": xoff,
            "xon_bytes": xoff - gap,
            "headroom_bytes": headroom,
            "at_egress": bool(at),
            "alpha": alpha / _ALPHA_UNIT,
            "pool": pool,
            "pool_bytes": pool_bytes,
        }


class _Rnic:
    """TCA_RNIC_LIMIT (lab/patches/0009)."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        return nested(TCA_OPTIONS, number(_RNIC_LIMIT, int(options["limit_bytes"])))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        return {"limit_bytes": struct.unpack("=I", attributes(data)[_RNIC_LIMIT])[0]}


def pfc_order(held: bool | None = None, discards: bool | None = None) -> bytes:
    """TCA_OPTIONS that hold or release a pfc queue, or have it discard or not."""
    orders = ((_PFC_HOLD, held), (_PFC_DISCARD, discards))
    return nested(TCA_OPTIONS, *(number(kind, int(order)) for kind, order in orders if order is not None))


def rnic_hold(held: bool) -> bytes:
    """TCA_OPTIONS that hold or release an rnic queue."""
    return nested(TCA_OPTIONS, number(_RNIC_HOLD, int(held)))


def rnic_rate(destination: bytes, qpn: int, rate_bps: int | None) -> bytes:
    """TCA_OPTIONS that set the rate of the queue pair with this destination (4 bytes of address, queue pair number);
    None: as fast as the line."""
    rate_bytes_ps = 0 if rate_bps is None else max(1, rate_bps // 8)
    return nested(TCA_OPTIONS, attribute(_RNIC_RATE, destination + struct.pack("=IQ", qpn, rate_bytes_ps)))


def rnic_pairs(data: bytes) -> Iterator[tuple[bytes, int, int, int, int]]:
    """From the payload of TCA_OPTIONS, for each queue pair: destination address, queue pair number, rate in bytes/s (0:
    none), bytes sent, bytes waiting."""
    begin = 0
    while begin + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, begin)
        if kind & 0x3FFF == _RNIC_PAIR:
            yield struct.unpack_from("=4sIQQI", data, begin + 4)
        begin += max(4, (length + 3) & ~3)


class _Red:
    """struct tc_red_qopt with Wlog 0 and a table of 31s: the average that RED looks at is then the instantaneous queue.

    Between the thresholds Linux spaces what it drops evenly (Floyd and Jacobson's method 2), which about doubles the
    probability asked for. Marks are DCQCN's: each packet by a draw of its own, with the probability of the line
    (TC_RED_INDEPENDENT, lab/patches/0007); a stock kernel spaces them too (`spaced`). Packets that cannot carry a mark
    are queued (TC_RED_NODROP), only the tail drops.
    """

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        marks = _RED_STOCK_MARKS if options.get("spaced") else _RED_MARKS
        flags = struct.pack("=II", marks if options["ecn"] else 0, marks)
        return nested(TCA_OPTIONS, *_red_curve(options, 0), attribute(_RED_FLAGS, flags))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        found = attributes(data)
        limit, kmin, kmax = struct.unpack_from("=III", found[_RED_PARMS])
        flags = struct.unpack_from("=I", found[_RED_FLAGS])[0] if _RED_FLAGS in found else found[_RED_PARMS][15]
        pmax = struct.unpack("=I", found[_RED_MAX_P])[0] / 2**32
        is_marking = flags & _RED_STOCK_MARKS == _RED_STOCK_MARKS
        return {
            "kmin_bytes": kmin - _RED_ABOVE_BYTES,
            "kmax_bytes": kmax - _RED_ABOVE_BYTES,
            "pmax": pmax,
            "limit_bytes": limit,
            "ecn": is_marking,
            **({"spaced": True} if is_marking and not flags & _RED_INDEPENDENT else {}),
        }


def red_change(options: dict[str, Value]) -> bytes:
    """TCA_OPTIONS that give a red queue another curve, and leave how it marks (flags that only TCA_RED_FLAGS holds) as
    it is."""
    return nested(TCA_OPTIONS, *_red_curve(options, _RED_ECN if options["ecn"] else 0))


def _red_curve(options: dict[str, Value], flags: int) -> tuple[bytes, ...]:
    thresholds_bytes = (int(options[name]) + _RED_ABOVE_BYTES for name in ("kmin_bytes", "kmax_bytes"))
    qopt = struct.pack("=IIIBBBB", int(options["limit_bytes"]), *thresholds_bytes, 0, 0, 0, flags)
    return (
        attribute(_RED_PARMS, qopt),
        attribute(_RED_STAB, bytes([31]) * 256),
        number(_RED_MAX_P, _probability(float(options["pmax"]))),
    )


def _probability(value: float) -> int:
    return min(round(value * 2**32), 2**32 - 1)


FORMATS: dict[str, type[Format]] = {
    "netem": _Netem,
    "tbf": _Tbf,
    "prio": _Prio,
    "bfifo": _Bfifo,
    "pfc": _Pfc,
    "rnic": _Rnic,
    "red": _Red,
}


# headroom_drops, xoffs and all counts of bytes are of the packets that came in by this port.
_PFC_COUNTERS = (
    "held_ns",
    "headroom_drops",
    "discards",
    "xoffs",
    "ingress_bytes",
    "headroom_bytes",
    "max_ingress_bytes",
    "max_headroom_bytes",
)


def statistics(kind: str, data: bytes) -> dict[str, int]:
    """TCA_STATS2: gnet_stats_basic, gnet_stats_queue, and a kind's own (tc_red_xstats, tc_pfc_xstats, rnic's)."""
    found = attributes(data)
    count, packets = struct.unpack_from("=QI", found.get(_STATS_BASIC, bytes(_STATS_BASIC_BYTES)))
    if _STATS_PACKETS64 in found:
        (packets,) = struct.unpack_from("=Q", found[_STATS_PACKETS64])
    queued, backlog, drops, _, overlimits = struct.unpack_from("=5I", found.get(STATS_QUEUE, bytes(20)))
    values = {
        "bytes": count,
        "packets": packets,
        "drops": drops,
        "overlimits": overlimits,
        "backlog_packets": queued,
        "backlog_bytes": backlog,
    }
    if kind == "red" and STATS_APP in found:
        values["early"], _, _, values["marked"] = struct.unpack_from("=4I", found[STATS_APP])
    if kind == "pfc" and STATS_APP in found:
        values.update(zip(_PFC_COUNTERS, struct.unpack("=4Q4I", found[STATS_APP])))
    if kind == "rnic" and STATS_APP in found:
        (values["held_ns"],) = struct.unpack("=Q", found[STATS_APP])
    return values
