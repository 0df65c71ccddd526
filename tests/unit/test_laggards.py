"""Hosts that are worse than the others: what a text says, and what no text may say."""

from __future__ import annotations

import pytest

from experiments import laggards
from topologies.units import BadRequest


def test_hosts_and_values_are_read_in_order() -> None:
    assert laggards.parse_slow_hosts("h3:2,h1:1.5", "slow_host") == (("h3", 2.0), ("h1", 1.5))
    assert laggards.parse_slow_links("h3:10Gbps, h12:100Mbps", "slow_link") == (("h3", 10**10), ("h12", 10**8))
    assert laggards.parse_lossy_links("h3:0.001", "lossy_link") == (("h3", 0.001),)
    assert laggards.parse_lossy_links("none", "lossy_link") == ()


@pytest.mark.parametrize(
    "text", ["h3", "h3:", "h3:0", "h3:-2", "h3:two", "h3:2,", "h3:2,h3:3", "leaf1:2", "h03:2", None]
)
def test_what_is_no_slow_host_is_refused(text: object) -> None:
    with pytest.raises(BadRequest, match=r"^slow_host: .+ is not understood; allowed: HOST:TIMES, .+; or none$"):
        laggards.parse_slow_hosts(text, "slow_host")


def test_hosts_must_be_there() -> None:
    laggards.check_hosts("slow_link", (("h2", 1),), ["h1", "h2"])
    with pytest.raises(BadRequest, match=r"^slow_link: there is no host h3; allowed: h1 to h2$"):
        laggards.check_hosts("slow_link", (("h2", 1), ("h3", 1)), ["h1", "h2"])
