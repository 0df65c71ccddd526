"""iperf3: how each client is asked to send, beside `senders`, `duration` and `jitter`."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.keys.key import IPERF3, doing, key
from experiments.kinds import AUTO, COUNT, SPAN, optional


@dataclass(frozen=True)
class Iperf3Keys:
    """iperf3: how each client is asked to send."""

    iperf3_streams: int | None = key(
        "iperf3_streams",
        optional(COUNT),
        AUTO,
        "TCP streams of each client, side by side (iperf3 -P)",
        doing(IPERF3),
        auto=1,
    )
    iperf3_interval_ns: int | None = key(
        "iperf3_interval",
        optional(SPAN),
        AUTO,
        "how often a client and a server note what has passed (iperf3 -i)",
        doing(IPERF3),
        auto="1s",
    )
