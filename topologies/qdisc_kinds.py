"""How each kind of qdisc says its options to the kernel and is told them back: plain values to TCA_OPTIONS and
back (pure)."""

from __future__ import annotations

import struct
from typing import Protocol, Union

from topologies.netlink import attribute, attributes, nested, number

Value = Union[int, float, str, bool]

TCA_OPTIONS = 2
TICK_NS = 64  # PSCHED_SHIFT 6: the kernel tells times in units of 64 ns
PLUG_RELEASE_INDEFINITE, PLUG_LIMIT = 2, 3
_NETEM_LATENCY64 = 10
_TBF_PARMS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_RED_PARMS, _RED_STAB, _RED_MAX_P, _RED_FLAGS = 1, 2, 3, 4
_RED_ECN, _RED_NODROP = 1, 8
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
    """struct tc_netem_qopt, TCA_NETEM_LATENCY64."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        qopt = struct.pack("=6I", 0, int(options["limit_packets"]), 0, 0, 0, 0)
        return attribute(TCA_OPTIONS, qopt + attribute(_NETEM_LATENCY64, struct.pack("=q", int(options["delay_ns"]))))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        latency = attributes(data[24:])[_NETEM_LATENCY64]
        return {"delay_ns": struct.unpack("=q", latency)[0], "limit_packets": struct.unpack_from("=I", data, 4)[0]}


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


class _Plug:
    """struct tc_plug_qopt; the kernel tells nothing back."""

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        return attribute(TCA_OPTIONS, struct.pack("=iI", PLUG_LIMIT, int(options["limit_bytes"])))

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        return {}


class _Red:
    """struct tc_red_qopt with Wlog 0 and a table of 31s: the average that RED looks at is then the instantaneous queue.

    Between the thresholds Linux spaces random marks uniformly (Floyd and Jacobson's method 2), which about doubles the
    probability asked for; nothing here corrects for that, so only a step (kmin equal to kmax) is exact. Packets that
    cannot carry a mark are queued (TC_RED_NODROP), only the tail drops.
    """

    @staticmethod
    def encode(options: dict[str, Value]) -> bytes:
        flags = (_RED_ECN | _RED_NODROP) if options["ecn"] else 0
        thresholds_bytes = (int(options[name]) + _RED_ABOVE_BYTES for name in ("kmin_bytes", "kmax_bytes"))
        qopt = struct.pack("=IIIBBBB", int(options["limit_bytes"]), *thresholds_bytes, 0, 0, 0, 0)
        return nested(
            TCA_OPTIONS,
            attribute(_RED_PARMS, qopt),
            attribute(_RED_STAB, bytes([31]) * 256),
            number(_RED_MAX_P, _probability(float(options["pmax"]))),
            attribute(_RED_FLAGS, struct.pack("=II", flags, _RED_ECN | _RED_NODROP)),
        )

    @staticmethod
    def decode(data: bytes) -> dict[str, Value]:
        found = attributes(data)
        limit, kmin, kmax = struct.unpack_from("=III", found[_RED_PARMS])
        flags = struct.unpack_from("=I", found[_RED_FLAGS])[0] if _RED_FLAGS in found else found[_RED_PARMS][15]
        pmax = struct.unpack("=I", found[_RED_MAX_P])[0] / 2**32
        return {
            "kmin_bytes": kmin - _RED_ABOVE_BYTES,
            "kmax_bytes": kmax - _RED_ABOVE_BYTES,
            "pmax": pmax,
            "limit_bytes": limit,
            "ecn": bool(flags & _RED_ECN),
        }


def _probability(value: float) -> int:
    return min(round(value * 2**32), 2**32 - 1)


FORMATS: dict[str, type[Format]] = {
    "netem": _Netem,
    "tbf": _Tbf,
    "prio": _Prio,
    "bfifo": _Bfifo,
    "plug": _Plug,
    "red": _Red,
}
