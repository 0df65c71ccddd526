"""The time stamps of pcapng, of any resolution that an interface may have, as nanoseconds."""

from __future__ import annotations

import numpy as np

MICROSECONDS = 6  # if_tsresol of an interface that does not tell
_IS_BINARY = 0x80  # if_tsresol: a negative power of 2 instead of 10
_LATEST_NS = 1 << 62  # year 2116; what a damaged file says beyond it would overflow where times are subtracted
_NS_PER_S = 10**9


def to_ns(units: np.ndarray, resolution: int, offset_s: int = 0) -> np.ndarray:
    """Time stamps (n,), uint64 in an interface's units, as ns since the epoch, rounded down and at most in the year
    2116; `resolution` is its if_tsresol, `offset_s` its if_tsoffset."""
    power = resolution & ~_IS_BINARY
    times_ns = _from_binary(units, power) if resolution & _IS_BINARY else _from_decimal(units, power)
    offset_ns = max(min(offset_s * _NS_PER_S, _LATEST_NS), -_LATEST_NS)
    return np.clip(times_ns.astype(np.int64) + offset_ns, -_LATEST_NS, _LATEST_NS)


def _from_decimal(units: np.ndarray, digits: int) -> np.ndarray:
    if digits <= 9:
        factor = 10 ** (9 - digits)
        return np.minimum(units, np.uint64(_LATEST_NS // factor)) * np.uint64(factor)
    divisor = 10 ** (digits - 9)
    return np.minimum(units // np.uint64(divisor) if divisor < 1 << 64 else units * np.uint64(0), np.uint64(_LATEST_NS))


def _from_binary(units: np.ndarray, bits: int) -> np.ndarray:
    """Seconds and fraction apart: the fraction times 10^9 overflows 64 bits, so that its halves are multiplied."""
    seconds = units >> np.uint64(bits) if bits < 64 else units * np.uint64(0)
    fraction = units - (seconds << np.uint64(bits) if bits < 64 else seconds)
    whole_ns = np.minimum(seconds, np.uint64(_LATEST_NS // _NS_PER_S - 1)) * np.uint64(_NS_PER_S)
    if bits <= 32:
        return whole_ns + (fraction * np.uint64(_NS_PER_S) >> np.uint64(bits))
    low = (fraction & np.uint64(0xFFFFFFFF)) * np.uint64(_NS_PER_S) >> np.uint64(32)
    high = (fraction >> np.uint64(32)) * np.uint64(_NS_PER_S)
    return whole_ns + (high + low >> np.uint64(min(bits - 32, 63)))
