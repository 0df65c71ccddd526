"""Measured quantities as people read them: three significant digits and a unit. (The exact forms of a spec
are in topologies.units.)"""

from __future__ import annotations

import re
from collections.abc import Sequence

_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_RATE = ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s"))
_SIZE = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B"))
NOTHING = "—"


class Quantity(str):
    """A quantity in words that still knows its value, in base units (None: there is none): tables sort by it."""

    value: float | None

    def __new__(cls, words: str, value: float | None) -> Quantity:
        """The words, and what they stand for."""
        told = super().__new__(cls, words)
        told.value = value
        return told

    def __getnewargs__(self) -> tuple[str, float | None]:  # type: ignore[override]
        """What a copy is made of."""
        return str(self), self.value


def _digits(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.10g}"


def digits(value: float) -> Quantity:
    """A number with three significant digits, thousands separated, never in exponent form: 0.647, 20.8, 588,
    46,336."""
    return Quantity(_digits(value), value)


def _scaled(value: float | None, units: tuple[tuple[float, str], ...]) -> Quantity:
    """`value` in the largest unit that leaves at least 1 of it (three digits can round up into it)."""
    if value is None:
        return Quantity(NOTHING, None)
    fitting = (unit for unit in units if abs(float(f"{value / unit[0]:.3g}")) >= 1)
    size, name = next(fitting, units[-1])
    return Quantity(f"{_digits(value / size)} {name}", value)


def seconds(value: float | None) -> Quantity:
    """A duration: "208 ms"; a dash for None."""
    return _scaled(value, _TIME)


def rate(value: float | None) -> Quantity:
    """Bits per second: "646 Mb/s"; a dash for None."""
    return _scaled(value, _RATE)


def size(value: float | None) -> Quantity:
    """Bytes, decimal: "600 KB"; a dash for None."""
    return _scaled(value, _SIZE)


def count(value: float | None) -> Quantity:
    """A whole number with its thousands separated; a dash for None."""
    return Quantity(NOTHING if value is None else f"{value:,.0f}", value)


def times(value: float | None) -> Quantity:
    """A factor: "588x"; a dash for None."""
    return Quantity(NOTHING if value is None else f"{_digits(value)}x", value)


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 stall", "53 stalls"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def beside(told: Sequence[str]) -> str:
    """What the cases of a run show, as one sentence; empty without any."""
    return f"Beside it, {'; '.join(told)}." if told else ""


def natural(name: str) -> list[tuple[str, int]]:
    """Sort key that puts h2 before h10."""
    return [(word, int(digits or 0)) for word, digits in re.findall(r"(\D*)(\d*)", name)]
