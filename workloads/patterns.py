"""Who sends to whom: (sender, receiver) pairs of each traffic pattern, from the hosts in order. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

Pair = tuple[str, str]


def incast(hosts: Sequence[str], senders: int) -> list[Pair]:
    """The second host and those after it to the first."""
    return [(sender, hosts[0]) for sender in hosts[1 : senders + 1]]


def permutation(hosts: Sequence[str]) -> list[Pair]:
    """Each host to the one half of all hosts further on: every host sends once and receives once, and with an even
    number every flow crosses the middle of the fabric. Hosts in the same place of their racks and pods are partners,
    so that D-mod-k routing gives every flow links of its own."""
    return [(host, hosts[(index + len(hosts) // 2) % len(hosts)]) for index, host in enumerate(hosts)]


def all_to_all(hosts: Sequence[str]) -> list[Pair]:
    """Every ordered pair; sender by sender, each beginning with the host after itself."""
    count = len(hosts)
    return [(hosts[index], hosts[(index + step) % count]) for index in range(count) for step in range(1, count)]


def random_flows(hosts: Sequence[str], flows: int, seed: int) -> list[tuple[str, str, int]]:
    """`flows` times a random sender, another host, and a source port (ephemeral, RFC 6335); equal seeds give equal
    flows, and no two of them are the same."""
    dice = random.Random(f"{seed}/flows")
    found: dict[tuple[str, str, int], None] = {}
    while len(found) < flows:
        sender, receiver = dice.sample(list(hosts), 2)
        found[sender, receiver, dice.randint(49152, 65535)] = None
    return list(found)
