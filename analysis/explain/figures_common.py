"""What the figures of an explanation have in common: values in bins that all share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.explain.model import FlowStory

BINS = 400  # across a figure: finer than its pixels are wide


def span_ns(stories: Sequence[FlowStory]) -> tuple[int, int]:
    """From the first begin to the last end."""
    return min(story.begin_ns for story in stories), max(story.end_ns for story in stories)


def edges_ns(stories: Sequence[FlowStory]) -> np.ndarray:
    """The edges (BINS + 1,) of equal bins over all of the stories, none shorter than the bins of their series; fewer
    then."""
    begin_ns, end_ns = span_ns(stories)
    finest_ns = max((story.series.bin_ns for story in stories if story.series is not None), default=1)
    bins = max(min(BINS, (end_ns - begin_ns) // finest_ns), 1)
    return begin_ns + np.linspace(0, max(end_ns - begin_ns, 1), bins + 1).astype(np.int64)


def rates_bps(story: FlowStory, edges: np.ndarray) -> np.ndarray:
    """Payload delivered, or where no acknowledgement tells of it sent, in bits/s between each two of the edges (n,): a
    bin's bytes are spread evenly over it."""
    series = story.series
    if series is None:
        return np.zeros(len(edges) - 1)
    counted = series.delivered_bytes if story.both_ways else series.sent_bytes
    told_ns = np.arange(len(counted) + 1, dtype=np.int64) * series.bin_ns
    total = np.concatenate([[0], np.cumsum(counted, dtype=np.float64)])
    return np.diff(np.interp(edges - series.begin_ns, told_ns, total)) * 8e9 / np.diff(edges)


def marks_of_rtt(story: FlowStory) -> tuple[np.ndarray, np.ndarray]:
    """The middles of a flow's bins that have a round trip (k,), in ns, and the round trips, in ns."""
    series = story.series
    if series is None:
        return np.zeros(0, np.int64), np.zeros(0)
    known = np.flatnonzero(~np.isnan(series.rtt_ns))
    return series.begin_ns + known * series.bin_ns + series.bin_ns // 2, series.rtt_ns[known]
