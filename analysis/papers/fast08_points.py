"""What Phanishayee et al. published of incast (FAST 2008): goodput by number of servers, as numbers alone."""

from __future__ import annotations

from collections.abc import Mapping

SERVERS = (4, 8, 16, 32, 64)
RATE_BPS, RTO_NS = 10**9, 200_000_000
# Buffer -> goodput in Mb/s at each of SERVERS, NewReno, SRU 256 KB.
PUBLISHED_MBPS: Mapping[str, tuple[int, ...]] = {
    "32KB": (647, 101, 127, 137, 171),
    "64KB": (986, 528, 152, 178, 274),
    "128KB": (986, 993, 175, 242, 304),
    "256KB": (986, 993, 997, 307, 370),
    "512KB": (986, 993, 997, 998, 498),
}
# The same for plain Reno at 64 KB: Linux without SACK is nearest to it, for its NewReno cannot find a lost
# retransmission.
PUBLISHED_RENO_MBPS = (976, 78, 81, 102, 131)
# Servers and SRUs of the curves that the paper's formula of one timeout a block is drawn for, at 64 KB.
SRU_SERVERS = (8, 16, 32)
SRU_BYTES = (10_000, 256_000, 1_000_000, 8_000_000)
