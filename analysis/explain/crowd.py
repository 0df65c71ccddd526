"""Flows taken together: each once, by the host that receives them, and the most that its link carried."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analysis.explain.model import SENDER, FlowStory

FEWEST_SENDERS = 2  # to one receiver: with fewer there is no incast
_ROUND_TRIPS = 8
_LONGEST_NS = 1 << 62


def host_of(endpoint: str) -> str:
    """The host of "address:port"."""
    return endpoint.rpartition(":")[0]


def by_receiver(flows: Iterable[FlowStory]) -> dict[str, list[FlowStory]]:
    """The flows of each receiving host, those first that most send to."""
    found: dict[str, list[FlowStory]] = {}
    for flow in flows:
        found.setdefault(host_of(flow.destination), []).append(flow)
    return dict(sorted(found.items(), key=lambda item: -len({host_of(flow.source) for flow in item[1]})))


def best_rate(flows: Iterable[FlowStory]) -> tuple[float, int] | None:
    """The most bits per second that all flows together carried in one bin of time, and the bin's length in ns; None
    without a time series. At senders what was delivered counts, elsewhere what passed. Bins are of several round trips,
    since an acknowledgement can tell of that much at once, and no shorter than the longest of the flows' own."""
    told = [(flow, flow.series) for flow in flows if flow.series is not None]
    if not told:
        return None
    # A damaged capture may hold round trips of a century.
    length_ns = min(max(max(each.bin_ns, _ROUND_TRIPS * (flow.rtt_median_ns or 0)) for flow, each in told), _LONGEST_NS)
    bins, sums = [], []
    for flow, series in told:
        is_delivered = flow.position == SENDER and bool(series.delivered_bytes.any())
        passed = series.delivered_bytes if is_delivered else series.sent_bytes
        bins.append((series.begin_ns + series.bin_ns * np.arange(len(passed))) // length_ns)
        sums.append(passed)
    _, places = np.unique(np.concatenate(bins), return_inverse=True)
    total = np.bincount(places, weights=np.concatenate(sums))
    return float(total.max()) * 8e9 / length_ns, length_ns
