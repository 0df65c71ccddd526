"""A time axis for captures that are silent most of the time: long silences are cut short, and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from analysis import text
from analysis.explain.model import FlowStory
from analysis.figures.style import INK, SMALL, label, time_unit
from analysis.transport.spans import Span

_CUT_SHARE = 0.4  # of the whole time: silences that take less together are left as they are
_LEAST_SHARE = 0.02  # of the whole time: a shorter silence is none
_GAP_PLACES = 0.03  # how wide a silence that is cut short is drawn, of what is left
_TICKS, _MOST_TOLD = 7, 8
_BAND = "#EEEEEE"
CUT = " Grey: nothing was captured for as long as it says; the time axis is cut short there."


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """From times to places: `times_ns` (2n,) and `places` (2n,) of the begins and ends of n spans with traffic, places
    in ns of the axis, on which a silence between two spans is short."""

    times_ns: np.ndarray
    places: np.ndarray

    @property
    def is_cut(self) -> bool:
        """Whether any silence is cut short."""
        return len(self.times_ns) > 2

    @property
    def width(self) -> float:
        """Of the whole axis, in ns."""
        return float(self.places[-1]) or 1.0

    def place(self, times_ns: np.ndarray) -> np.ndarray:
        """Where these times (n,) are."""
        return np.interp(times_ns - self.times_ns[0], self.times_ns - self.times_ns[0], self.places)

    @property
    def silences(self) -> list[Span]:
        """What is cut short, from and to."""
        return [*zip(self.times_ns[1:-1:2].tolist(), self.times_ns[2::2].tolist())]

    def draw(self, axes: Axes) -> None:
        """The axis: its limits, ticks named by the time since the begin, and the silences as bands."""
        scale, unit = time_unit(max(int(self.times_ns[-1] - self.times_ns[0]), 1))
        axes.set_xlim(0, self.width * 1.01)
        for begin_ns, end_ns in self.silences:
            begin, end = self.place(np.array([begin_ns, end_ns]))
            axes.axvspan(begin, end, color=_BAND, zorder=0)
            if len(self.silences) <= _MOST_TOLD:
                words = text.seconds((end_ns - begin_ns) / 1e9)
                place = axes.get_xaxis_transform()
                axes.text((begin + end) / 2, 0.5, words, transform=place, rotation=90, ha="center", va="center",
                          fontsize=SMALL - 1, color=INK)  # fmt: skip
        ticks = self._ticks()
        shown = [text.digits(round((time_ns - self.times_ns[0]) / scale, 4)) for time_ns in ticks.tolist()]
        axes.set_xticks(self.place(ticks), shown)
        label(axes, f"time since the first packet ({unit})", "")

    def _ticks(self) -> np.ndarray:
        """Round times, or, of an axis that is cut, the begins of the spans that are far enough apart."""
        if not self.is_cut:
            lasted = float(self.times_ns[-1] - self.times_ns[0]) or 1.0
            step = _round_step(lasted / _TICKS)
            return self.times_ns[0] + np.arange(0, lasted * (1 + 1e-9), step).astype(np.int64)
        chosen: list[int] = []
        for time_ns, place in zip(self.times_ns[::2].tolist(), self.places[::2].tolist()):
            if not chosen or place - float(self.place(np.array([chosen[-1]]))[0]) >= self.width / _TICKS * 0.8:
                chosen.append(time_ns)
        return np.array(chosen)


def _round_step(least: float) -> float:
    """The next 1, 2 or 5 of a power of ten."""
    decade = 10.0 ** np.floor(np.log10(least))
    return float(next(step * decade for step in (1, 2, 5, 10) if step * decade >= least))


def axis_of(begin_ns: int, end_ns: int, spans: np.ndarray) -> TimeAxis:
    """An axis from begin to end with traffic in the spans (n, 2), which may overlap and be in any order."""
    ordered = spans[np.argsort(spans[:, 0], kind="stable")] if len(spans) else np.array([[begin_ns, end_ns]])
    starts = np.concatenate([[begin_ns], ordered[:, 0], [end_ns]])
    reached = np.maximum.accumulate(np.concatenate([[begin_ns], ordered[:, 1]]))
    gaps = np.flatnonzero(starts[1:] - reached > (end_ns - begin_ns) * _LEAST_SHARE)
    silent_ns = int((starts[1:] - reached)[gaps].sum())
    if not _CUT_SHARE * (end_ns - begin_ns) <= silent_ns < end_ns - begin_ns:
        return TimeAxis(np.array([begin_ns, end_ns]), np.array([0.0, float(end_ns - begin_ns)]))
    firsts = np.concatenate([[begin_ns], starts[gaps + 1]])
    lasts = np.concatenate([reached[gaps], [end_ns]])
    lengths = (lasts - firsts).astype(float)
    gap = max(float(lengths.sum()), 1.0) * _GAP_PLACES
    begins = np.concatenate([[0.0], np.cumsum(lengths + gap)[:-1]])
    return TimeAxis(np.column_stack([firsts, lasts]).ravel(), np.column_stack([begins, begins + lengths]).ravel())


def axis_of_packets(times_ns: np.ndarray, begin_ns: int, end_ns: int) -> TimeAxis:
    """An axis whose traffic is packets at these times (n,)."""
    return axis_of(begin_ns, end_ns, np.column_stack([times_ns, times_ns]))


def axis_of_flows(stories: Sequence[FlowStory], begin_ns: int, end_ns: int) -> TimeAxis:
    """An axis whose traffic is what the flows' series have: a silence is known to a bin."""
    spans = [np.zeros((0, 2), np.int64)]
    for series in (story.series for story in stories):
        if series is not None:
            moved = np.flatnonzero((series.sent_bytes > 0) | (series.delivered_bytes > 0))
            begins = series.begin_ns + moved * series.bin_ns
            spans.append(np.column_stack([begins, begins + series.bin_ns]))
    return axis_of(begin_ns, end_ns, np.clip(np.concatenate(spans), begin_ns, end_ns))
