"""The packets of a capture as a pandas table: addresses in words, one column per number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.capture.packets import COLUMNS, Packets

if TYPE_CHECKING:
    from pandas import DataFrame

_SACK_EDGES = ("sack_left", "sack_right", "sack2_left", "sack2_right")
_MAC_SHIFTS = range(40, -8, -8)


def packets_frame(packets: Packets, absolute: bool = False) -> DataFrame:
    """One row per packet, the columns of `Packets`; `time_s` counts from the first packet, or with `absolute` there is
    `time` (UTC, datetime64[ns]) in its place. Of a packet's several numbers each is a column: `pause_quanta_3`."""
    from pandas import DataFrame

    return DataFrame({**_times(packets, absolute), **_columns(packets)})


def _times(packets: Packets, absolute: bool) -> dict[str, Any]:
    from pandas import to_datetime

    first_ns = packets.time_ns[:1].sum()
    told = to_datetime(packets.time_ns, utc=True) if absolute else (packets.time_ns - first_ns) / 1e9
    return {"number": packets.number, "time_ns": packets.time_ns, "time" if absolute else "time_s": told}


def _columns(packets: Packets) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in COLUMNS:
        values = getattr(packets, name)
        if name in ("src_ip", "dst_ip"):
            found[name] = _in_words(values, packets.address, packets.ip_version)
        elif name == "src_mac":
            found[name] = _in_words(values, _mac)
        elif values.ndim > 1:
            found.update(zip(_names(name, values.shape[1]), values.T))
        elif name not in ("number", "time_ns"):
            found[name] = values
    return found


def _names(name: str, width: int) -> tuple[str, ...]:
    return _SACK_EDGES if name == "sack_edges" else tuple(f"{name}_{place}" for place in range(width))


def _in_words(numbers: np.ndarray, words: Callable[[int], str], known: np.ndarray | None = None) -> Any:
    """The numbers (n,) in words, each different one put into words once; missing where `known` is 0."""
    from pandas import Categorical

    kinds, places = np.unique(numbers, return_inverse=True)
    codes = places if known is None else np.where(known > 0, places, -1)
    return Categorical.from_codes(codes, [words(number) for number in kinds.tolist()])


def _mac(number: int) -> str:
    return ":".join(f"{number >> shift & 0xFF:02x}" for shift in _MAC_SHIFTS)
