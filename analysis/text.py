"""Measured quantities as people read them: three significant digits and a unit. (The exact forms of a spec
are in topologies.units.)"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_RATE = ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s"))
_SIZE = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B"))
NOTHING = "—"


def digits(value: float) -> str:
    """A number with three significant digits, thousands separated, never in exponent form: 0.647, 20.8, 588,
    46,336."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.10g}"


def _scaled(value: float | None, units: tuple[tuple[float, str], ...]) -> str:
    """`value` in the largest unit that leaves at least 1 of it (three digits can round up into it)."""
    if value is None:
        return NOTHING
    for size, name in units:
        if abs(float(f"{value / size:.3g}")) >= 1:
            return f"{digits(value / size)} {name}"
    return f"{digits(value / units[-1][0])} {units[-1][1]}"


def seconds(value: float | None) -> str:
    """A duration: "208 ms"; a dash for None."""
    return _scaled(value, _TIME)


def rate(value: float | None) -> str:
    """Bits per second: "646 Mb/s"; a dash for None."""
    return _scaled(value, _RATE)


def size(value: float | None) -> str:
    """Bytes, decimal: "600 KB"; a dash for None."""
    return _scaled(value, _SIZE)


def count(value: float | None) -> str:
    """A whole number with its thousands separated; a dash for None."""
    return NOTHING if value is None else f"{value:,.0f}"


def times(value: float | None) -> str:
    """A factor: "588x"; a dash for None."""
    return NOTHING if value is None else f"{digits(value)}x"


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 stall", "53 stalls"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def beside(told: Sequence[str]) -> str:
    """What the cases of a run show, as one sentence; empty without any."""
    return f"Beside it, {'; '.join(told)}." if told else ""


def natural(name: str) -> list[tuple[str, int]]:
    """Sort key that puts h2 before h10."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d*)", name)]
