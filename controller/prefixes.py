"""Few routes that say the same as many: an IPv4 table shrunk to the least number of prefixes.

ORTC (Draves, King, Venkatachary and Zill, INFOCOM 1999): a prefix tree is searched twice, upwards for the values that
each subtree could take from above, downwards to set a value only where the one inherited is not among them. Addresses
that no route names may go anywhere: they cost no entry. A lookup takes the longest prefix.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

Ports = tuple[int, ...]  # where packets go: any of these, nowhere when empty
Prefix = tuple[int, int]  # network as a 32-bit number, prefix length
BITS = 32


def parse_prefix(text: str) -> Prefix:
    """("10.1.2.0/24") -> network and length; an address alone is a /32."""
    network, _, length = text.partition("/")
    return int.from_bytes(socket.inet_aton(network), "big"), int(length or BITS)


def format_address(number: int) -> str:
    """Dotted text of a 32-bit number."""
    return socket.inet_ntoa(number.to_bytes(4, "big"))


def mask_of(length: int) -> int:
    """The 32-bit mask of a prefix length."""
    return (0xFFFFFFFF << (BITS - length)) & 0xFFFFFFFF


class _Node:
    """A node of the prefix tree: its route, if it has one, and the values that it could take from above (None: any)."""

    __slots__ = ("children", "could", "route")

    def __init__(self) -> None:
        self.children: list[_Node | None] = [None, None]
        self.route: Ports | None = None
        self.could: frozenset[Ports] | None = None


def shrink(routes: Mapping[Prefix, Ports], below: Prefix) -> dict[Prefix, Ports]:
    """The fewest prefixes that give every address of every route the value that `routes` gives it (longest prefix
    first). All routes lie within `below`; equal tables shrink equally."""
    root = _tree(routes, below)
    _upwards(root, None)
    found: dict[Prefix, Ports] = {}
    _downwards(root, below, None, None, found)
    return found


def _tree(routes: Mapping[Prefix, Ports], below: Prefix) -> _Node:
    root = _Node()
    for (network, length), value in routes.items():
        node = root
        for bit in range(BITS - 1 - below[1], BITS - 1 - length, -1):
            side = network >> bit & 1
            child = node.children[side]
            if child is None:
                child = node.children[side] = _Node()
            node = child
        node.route = value
    return root


def _upwards(node: _Node, above: Ports | None) -> None:
    """Set `could` of the whole subtree; `above`: the value of the nearest route above, None where there is none."""
    own = above if node.route is None else node.route
    alone = None if own is None else frozenset((own,))
    if node.children == [None, None]:
        node.could = alone
        return
    sides = []
    for child in node.children:
        if child is not None:
            _upwards(child, own)
        sides.append(alone if child is None else child.could)
    node.could = _common(*sides)


def _common(left: frozenset[Ports] | None, right: frozenset[Ports] | None) -> frozenset[Ports] | None:
    """What both could take, or else what either could; None is anything."""
    if left is None or right is None:
        return left if right is None else right
    return left & right or left | right


def _downwards(
    node: _Node, prefix: Prefix, inherited: Ports | None, above: Ports | None, found: dict[Prefix, Ports]
) -> None:
    """Fill `found`; `inherited`: what a lookup in it would give here so far; `above`: the nearest route above."""
    own = above if node.route is None else node.route
    if node.could is not None and inherited not in node.could:
        inherited = found[prefix] = min(node.could)
    if node.children == [None, None]:
        return
    network, length = prefix
    for side, child in enumerate(node.children):
        there = (network | side << (BITS - 1 - length), length + 1)
        if child is not None:
            _downwards(child, there, inherited, own, found)
        elif own is not None and inherited != own:
            found[there] = own
