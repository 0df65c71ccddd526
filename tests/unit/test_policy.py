"""Hash seeds, and orders on their way to the controller's process."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.policy import (
    CLOCKWISE,
    CONTROLLER,
    D_MOD_K,
    ECMP,
    PER_SWITCH,
    SAME,
    SWITCH,
    UP_DOWN,
    Orders,
    Policy,
)
from topologies.describe import FabricDescription, describe
from topologies.fat_tree import FatTree
from topologies.gpu_pod import GpuPod
from topologies.leaf_spine import LeafSpine
from topologies.profiles import LinkProfile, Marking
from topologies.ring import Ring

CURVES = st.builds(Marking, st.integers(0), st.integers(0), st.floats(0, 1), st.booleans())
POLICIES = st.builds(
    Policy,
    routing=st.sampled_from([ECMP, D_MOD_K, CLOCKWISE, UP_DOWN]),
    hash_seeds=st.sampled_from([PER_SWITCH, SAME]),
    fast_failover=st.booleans(),
    latency_ns=st.integers(0, 10**12),
    seed=st.integers(),
    marking=st.sampled_from([SWITCH, CONTROLLER]),
    thresholds=st.lists(st.tuples(st.integers(1), CURVES), max_size=3).map(tuple),
)
LINK = LinkProfile(400 * 10**9, 1_000, 1500)
FABRICS = st.sampled_from(
    [
        describe(LeafSpine(leaves=3, link=LINK, uplink=LINK)),
        describe(FatTree(k=4, hosts=11)),
        describe(GpuPod(servers=2)),
        describe(Ring(switches=5)),
    ]
)


@given(POLICIES, st.integers(1, 2**64 - 1))
def test_equal_policies_give_equal_seeds_of_64_bits(policy: Policy, dpid: int) -> None:
    assert policy.hash_seed(dpid) == replace(policy).hash_seed(dpid)
    assert 0 <= policy.hash_seed(dpid) < 2**64


@given(st.integers())
def test_every_switch_has_a_seed_of_its_own_unless_all_shall_have_the_same(seed: int) -> None:
    dpids = range(1, 321)  # the switches of a fat-tree of 16 ports
    assert len({Policy(seed=seed).hash_seed(dpid) for dpid in dpids}) == 320
    assert len({Policy(seed=seed, hash_seeds=SAME).hash_seed(dpid) for dpid in dpids}) == 1


@given(st.integers(), st.integers())
def test_the_runs_seed_is_in_every_hash_seed(one: int, other: int) -> None:
    for kind in (PER_SWITCH, SAME):
        seeds = [Policy(hash_seeds=kind, seed=seed).hash_seed(1) for seed in (one, other)]
        assert (seeds[0] == seeds[1]) == (one == other)


def test_seeds_are_the_same_on_every_python() -> None:
    """Recorded: other seeds would change every run."""
    assert [Policy(seed=1).hash_seed(dpid) for dpid in (1, 2)] == [6968912731680275319, 17411036309097321799]


@given(FABRICS, POLICIES)
def test_orders_are_read_back(fabric: FabricDescription, policy: Policy) -> None:
    orders = Orders(fabric, policy)
    assert Orders.from_json(json.loads(json.dumps(orders.as_json()))) == orders
