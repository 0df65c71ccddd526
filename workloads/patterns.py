"""Who sends to whom: (sender, receiver) pairs of each traffic pattern, from the hosts in order. Pure."""

from __future__ import annotations

import random
from collections import Counter
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


def flow_names(pairs: Sequence[Pair]) -> list[str]:
    """A name for each pair's flow: its sender where all go to one receiver, else both ends ("h2>h1"); from a pair's
    second flow on with its number among them ("h2>h1#2")."""
    alone = len({receiver for _, receiver in pairs}) == 1
    stems = [sender if alone else f"{sender}>{receiver}" for sender, receiver in pairs]
    counts: Counter[str] = Counter()
    names = []
    for stem in stems:
        counts[stem] += 1
        names.append(stem if counts[stem] == 1 else f"{stem}#{counts[stem]}")
    return names


def random_flows(hosts: Sequence[str], flows: int, seed: int) -> list[tuple[str, str, int]]:
    """`flows` times a random sender, another host, and a source port (ephemeral, RFC 6335); equal seeds give equal
    flows, and no two of them are the same."""
    dice = random.Random(f"{seed}/flows")
    found: dict[tuple[str, str, int], None] = {}
    while len(found) < flows:
        sender, receiver = dice.sample(list(hosts), 2)
        found[sender, receiver, dice.randint(49152, 65535)] = None
    return list(found)
