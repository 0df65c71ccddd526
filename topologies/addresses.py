"""Who is called what: the addresses of a routed fabric.

Every switch with hosts (a rack) owns a /24 of 10.0.0.0/8, and its hosts are .1, .2, ... in it, so that a switch further
up needs one route per rack, not one per host. Hosts send everything to one gateway address, which the first switch
answers for, as the leaf of a routed data centre does.
"""

from __future__ import annotations

SUBNET, PREFIX_LENGTH = "10.0.0.0", 8
GATEWAY = "10.255.255.254"
ROUTER_MAC = "02:ff:ff:ff:ff:fe"
MOST_RACK_HOSTS = 254
MOST_RACKS = 254  # in a pod, or in a fabric without pods


def flat_host(number: int) -> str:
    """Address of host `number` (from 1) of a fabric without racks: 10.0.0.1, ..., 10.0.4.0 for the 1,024th."""
    return f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"


def interface(node: str, port: int) -> str:
    """The interface of a switch's port: "leaf1-eth3"."""
    return f"{node}-eth{port}"


def host_mac(number: int) -> str:
    """MAC of host number `number` (from 1) as Mininet's autoSetMacs gives it: 00:00:00:00:00:05 is h5."""
    return number.to_bytes(6, "big").hex(":")


def rack_subnet(pod: int, rack: int) -> str:
    """The /24 of rack `rack` (from 1) in pod `pod` (0: a fabric without pods), as "10.1.2.0/24"."""
    return f"10.{pod}.{rack}.0/24"


def rack_host(subnet: str, number: int) -> str:
    """Address of host `number` (from 1) of a rack's subnet."""
    return f"{subnet.rpartition('.')[0]}.{number}"
