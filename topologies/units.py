"""The only reader and writer of quantities such as "400Gbps", "600KB" or "1us".

Rates are bits per second with decimal prefixes (IEEE 802.3 usage); sizes are bytes, decimal (KB) or binary
(KiB, IEC 80000-13); durations are nanoseconds. A quantity that is not a whole number of its base unit is
refused: nothing is rounded silently.
"""

from __future__ import annotations

import re
from fractions import Fraction


class BadRequest(ValueError):
    """A request that cannot be met as given: one line that names the field, what was given and what is allowed
    (exit status 2)."""


def in_one_line(words: object) -> str:
    """Words, such as those of an error, without line breaks and runs of spaces."""
    return " ".join(str(words).split())


def named_error(error: BaseException) -> str:
    """An error in one line: its kind and what it says, if it says anything."""
    said = in_one_line(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


_RATE_BPS = {"bps": 1, "Kbps": 10**3, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}
_SIZE_BYTES = {
    "B": 1,
    "KB": 10**3,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_DURATION_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)\s*")


def _parse(text: object, field: str, units: dict[str, int], base: str) -> int:
    """Whole number of base units in `text`; raises BadRequest naming `field`."""
    allowed = f"a number and a unit, one of {', '.join(units)}"
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None or match.group(2) not in units:
        raise BadRequest(f"{field}: {text!r} is not understood{_hint(str(text), units)}; allowed: {allowed}")
    value = Fraction(match.group(1)) * units[match.group(2)]
    if value.denominator != 1:
        raise BadRequest(f"{field}: {text!r} is not a whole number of {base}; allowed: {allowed}")
    return int(value)


def _hint(text: str, units: dict[str, int]) -> str:
    """What a number with a unit cut short or in other letters may have meant."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return ""
    number, given = match.groups()
    similar = (unit for unit in units if unit.lower().startswith(given.lower()))
    meant = next((unit for unit in similar if (Fraction(number) * units[unit]).denominator == 1), None)
    return f" (did you mean {number}{meant}?)" if meant else ""


def parse_rate_bps(text: object, field: str = "rate") -> int:
    """Bits per second in a text such as "400Gbps"; raises BadRequest when it is no rate."""
    return _parse(text, field, _RATE_BPS, "bits per second")


def parse_bytes(text: object, field: str = "bytes") -> int:
    """Bytes in a text such as "600KB" (decimal) or "256KiB" (binary); raises BadRequest when it is no size."""
    return _parse(text, field, _SIZE_BYTES, "bytes")


def parse_duration_ns(text: object, field: str = "duration") -> int:
    """Nanoseconds in a text such as "1us" or "200ms"; raises BadRequest when it is no duration."""
    return _parse(text, field, _DURATION_NS, "nanoseconds")


def _format(value: int, units: dict[str, int], names: tuple[str, ...]) -> str:
    """`value` in the largest of `names` that leaves it exact with two decimals at most."""
    for name in reversed(names):
        hundredths, rest = divmod(value * 100, units[name])
        if rest == 0 and hundredths >= 100:
            return f"{hundredths // 100}.{hundredths % 100:02d}".rstrip("0").rstrip(".") + name
    return f"{value}{names[0]}"


def format_rate(rate_bps: int) -> str:
    """Text that parse_rate_bps reads back to the same value, such as "400Gbps"."""
    return _format(rate_bps, _RATE_BPS, ("bps", "Kbps", "Mbps", "Gbps", "Tbps"))


def format_bytes(size_bytes: int) -> str:
    """Text that parse_bytes reads back to the same value; binary units where they are the shorter exact form."""
    binary = _format(size_bytes, _SIZE_BYTES, ("B", "KiB", "MiB", "GiB"))
    decimal = _format(size_bytes, _SIZE_BYTES, ("B", "KB", "MB", "GB"))
    return binary if binary.count(".") == 0 and len(binary) <= len(decimal) and binary[-2] == "i" else decimal


def format_duration(duration_ns: int) -> str:
    """Text that parse_duration_ns reads back to the same value, such as "1.5us"."""
    return _format(duration_ns, _DURATION_NS, ("ns", "us", "ms", "s"))
