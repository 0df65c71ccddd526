"""Policies of the user's own: shares, pins, marks and seeds; refused where they route nothing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.policy import Orders, Policy, policy_class
from controller.routing import Network
from controller.state import FabricState
from experiments import fabrics, limits
from experiments.marks import marking
from experiments.spec import Spec, parse
from tests.conftest import ROOT
from tests.unit.test_plugins import plug_of, refused
from tests.unit.walk import Walker
from topologies import plugins
from topologies.describe import describe
from topologies.leaf_spine import LeafSpine
from topologies.plugins import Plug
from topologies.profiles import MarkingByRate

EXAMPLE = f"{ROOT}/examples/own_policy.py"
CLASS = "from controller.policy import Policy\nfrom dataclasses import replace\nclass made(Policy):\n    "


def example(name: str) -> Plug:
    return plugins.read(f"{EXAMPLE}:{name}", "policy")


def resolved(policy: str, **keys: Any) -> Spec:
    return limits.resolve(parse({"topology": "leaf_spine", "workload": "permutation", "policy": policy, **keys}))


def state_of(policy: Policy, **layout: Any) -> FabricState:
    return FabricState(Orders(describe(LeafSpine(**layout)), policy))


def groups(state: FabricState, switch: str, kind: str) -> list[tuple[int, ...]]:
    """The ports of a switch's groups of a kind, in order of buckets."""
    found = state.wanted[switch].groups.values()
    return sorted(tuple(bucket.port for bucket in group.buckets) for group in found if group.kind == kind)


class Weighted(Policy):
    """Three shares for the first of two spines."""

    def ways(self, network: Network, switch: str, target: str, ports: tuple[int, ...]) -> tuple[int, ...]:
        return (*ports, ports[0], ports[0])


def test_a_port_has_as_many_shares_as_it_is_named() -> None:
    state = state_of(Weighted(), leaves=2, spines=2, hosts_per_leaf=2)
    assert groups(state, "leaf1", "select") == [(3, 4, 3, 3)]
    walker = Walker(state.network, state.wanted)
    assert {walk.switches[1] for walk in walker.ways("h1", "h3")} == {"spine1", "spine2"}


def test_ways_are_asked_again_when_something_has_died() -> None:
    state = state_of(Weighted(), leaves=2, spines=3, hosts_per_leaf=2)
    assert state.port_is(("leaf1", 3), False)
    state.decide()
    assert groups(state, "leaf1", "select") == [(4, 5, 4, 4)]


def test_our_own_policy_changes_nothing() -> None:
    layout = {"leaves": 3, "spines": 2, "hosts_per_leaf": 2}
    assert state_of(policy_class(None)(), **layout).wanted == state_of(Policy(), **layout).wanted
    assert policy_class(None) is Policy


def test_elephants_do_not_share_uplinks() -> None:
    layout = {"leaves": 4, "spines": 4, "hosts_per_leaf": 4}
    state = state_of(policy_class(example("Elephants"))(), **layout)
    walker = Walker(state.network, state.wanted)
    hosts = list(state.network.hosts)
    used: Counter[tuple[str, str]] = Counter()
    for number, host in enumerate(hosts):
        (way,) = walker_with_sender(state, host).ways(host, hosts[(number + 8) % 16])
        used.update(zip(way.switches, way.switches[1:]))
    assert set(used.values()) == {1}
    assert len({way.switches for way in walker.ways("h1", "h6")}) == 4  # others are hashed as ever


def walker_with_sender(state: FabricState, sender: str) -> Walker:
    """A walker of packets from one sender: pins match by their source, which it does not look at."""
    address = state.network.hosts[sender].ip
    number = int.from_bytes(bytes(map(int, address.split("."))), "big")
    rules = {
        name: replace(
            each,
            flows=tuple(
                replace(flow, match=tuple(item for item in flow.match if item[0] != "ipv4_src"))
                for flow in each.flows
                if ("ipv4_src", number, -1) in flow.match or all(item[0] != "ipv4_src" for item in flow.match)
            ),
        )
        for name, each in state.wanted.items()
    }
    return Walker(state.network, rules)


def test_a_pin_gives_way_where_its_port_is_dead() -> None:
    state = state_of(policy_class(example("Elephants"))(), leaves=4, spines=4, hosts_per_leaf=4)
    dead = frozenset({("leaf1", 5), ("spine1", 1)})  # before the controller knows
    walker = walker_with_sender(state, "h1")
    walker.dies(dead)
    assert {way.host for way in walker.ways("h1", "h9")} == {"h9"}
    for port in dead:
        state.port_is(port, False)
    state.decide()
    walker = walker_with_sender(state, "h1")
    walker.dies(dead)
    ways = list(walker.ways("h1", "h9"))
    assert {way.host for way in ways} == {"h9"} and all(way.switches[1] != "spine1" for way in ways)


def test_by_paths_counts_the_ways_behind_a_port() -> None:
    own = f"{ROOT}/examples/own_topology.py:jellyfish"
    spec = resolved(f"{EXAMPLE}:ByPaths", topology=own, switches=12, k=3, hosts_per_leaf=1)
    fabric = describe(fabrics.topology(spec))
    plain, by_paths = (FabricState(Orders(fabric, kind())) for kind in (Policy, policy_class(example("ByPaths"))))
    shares = [Counter(ports) for name in by_paths.wanted for ports in groups(by_paths, name, "select")]
    assert any(len(set(each.values())) > 1 for each in shares)
    assert {name: {frozenset(each) for each in groups(by_paths, name, "select")} for name in by_paths.wanted} == {
        name: {frozenset(each) for each in groups(plain, name, "select")} for name in plain.wanted
    }


def test_early_marks_are_half_of_the_usual_on_every_rate() -> None:
    usual, early = (
        marking(resolved(policy, queue="dctcp", uplink_rate="800Gbps")) for policy in ("none", f"{EXAMPLE}:EarlyMarks")
    )
    assert isinstance(usual, MarkingByRate) and isinstance(early, MarkingByRate)
    for (rate_bps, curve), (same_bps, half) in zip(usual.curves, early.curves):
        assert (rate_bps, curve.kmin_bytes // 2) == (same_bps, half.kmin_bytes)


def test_a_threshold_that_is_set_goes_before_the_policy() -> None:
    spec = resolved(f"{EXAMPLE}:EarlyMarks", queue="dctcp", kmin="90KB", kmax="90KB")
    assert spec.kmin_bytes == 90_000
    auto = resolved(f"{EXAMPLE}:EarlyMarks", queue="dctcp")
    assert limits.resolve(auto) == auto  # what is derived does not shrink when it is run again


def test_orders_take_the_code_to_the_controller() -> None:
    spec = resolved(f"{EXAMPLE}:Elephants")
    orders = fabrics.orders(spec, describe(fabrics.topology(spec)))
    again = Orders.from_json(json.loads(json.dumps(orders.as_json())))
    assert type(again.policy).__name__ == "Elephants"
    assert again == orders
    assert FabricState(again).wanted == FabricState(orders).wanted
    assert "own" not in fabrics.orders(resolved("none"), describe(fabrics.topology(resolved("none")))).as_json()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def ways(self, network, switch, target, ports): return ()", "ways from leaf1 to leaf2: () is given; allowed"),
        (
            "def ways(self, network, switch, target, ports): return [99]",
            "(99,) is given; allowed: ports of (5, 6, 7, 8)",
        ),
        ("def ways(self, network): return ()", "raises TypeError"),
        ("def pinned(self, network, switch): return {('h1', 'x'): 1}", "pinned at leaf1: h1, x is given"),
        ("def hash_seed(self, dpid): return -1", "hash_seed: -1 is given; allowed: 64 bits"),
        ("def hash_seed(self, dpid): return 1 / 0", "own.py:4 raises ZeroDivisionError"),
    ],
)
def test_a_policy_that_routes_nothing_is_refused(tmp_path: Path, body: str, said: str) -> None:
    assert said in refused("policy", tmp_path, CLASS + body, hosts_per_leaf=4, leaves=2)


def test_a_curve_that_is_none_is_refused(tmp_path: Path) -> None:
    line = refused("policy", tmp_path, f"{CLASS}def curve(self, rate_bps, usual): return 5", queue="dctcp")
    assert "gives 5 as a curve; allowed: a topologies.profiles.Marking" in line


def test_one_switch_has_no_policy(tmp_path: Path) -> None:
    with pytest.raises(
        plugins.BadRequest, match=r"^policy: .*ByPaths is given with topology=star; allowed: with topology="
    ):
        limits.resolve(parse({"policy": f"{EXAMPLE}:ByPaths"}))


def test_a_policy_of_ones_own_has_the_runs_seed(tmp_path: Path) -> None:
    text = f"{CLASS}def hash_seed(self, dpid): return self.seed * 1000 + dpid"
    spec = resolved(plug_of(tmp_path, text), seed=7)
    state = FabricState(fabrics.orders(spec, describe(fabrics.topology(spec))))
    seeds = {group.seed for rules in state.wanted.values() for group in rules.groups.values() if group.kind == "select"}
    assert seeds and all(7000 < seed < 7100 for seed in seeds)
