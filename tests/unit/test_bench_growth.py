"""The bench of growth: its sizes are comparable, what runs counted becomes times of a packet, and a figure shows
them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments import fabrics
from experiments.bench_growth import COLUMNS, SIZES, Cost, Growth, Size, cost, counted, markdown, ratios
from experiments.bench_growth_figure import draw
from experiments.outside import Watch
from topologies.describe import describe
from workloads import patterns

SMALL, LARGE = Size(8), Size(512)


def queues(packets: int) -> list[dict[str, Any]]:
    """A stack's counters: behind the rate limiter fewer and larger packets were counted."""
    return [{"handle": "2:", "kind": "tbf", "packets": packets}, {"handle": "8:", "kind": "bfifo", "packets": 1}]


def measured() -> dict[str, Any]:
    """Two hosts under two leaves: 100 packets there, 50 back, over two access links and one between the leaves."""
    return {
        "nics": {"h1": {"qdiscs": queues(100)}, "h2": {"qdiscs": queues(50)}},
        "ports": {
            "leaf1-eth1": {"peer_tier": 0, "qdiscs": queues(50)},
            "leaf2-eth1": {"peer_tier": 0, "qdiscs": queues(100)},
            "leaf1-eth2": {"peer_tier": 1, "qdiscs": queues(100)},
            "leaf2-eth2": {"peer_tier": 1, "qdiscs": queues(50)},
        },
    }


def some_cost(size: Size, packet_s: float) -> Cost:
    return Cost(size, 1e6, 4e6, packet_s * 1e6, packet_s * 9e5, 0.5, 0.1, 200_000_000)


def growth() -> Growth:
    """Three repeats, of which the large fabric's packets take 1.1, 1.2 and 3 times as long."""
    small, large = (1e-6, 2e-6, 4e-6), (1.1e-6, 2.4e-6, 12e-6)
    by_hosts = {
        SMALL: [some_cost(SMALL, each) for each in small],
        LARGE: [some_cost(LARGE, each) for each in large],
    }
    return Growth(by_hosts, by_hosts, {SMALL: by_hosts[SMALL]}, {SMALL: by_hosts[SMALL]})


def test_packets_are_counted_at_hosts_and_on_every_link() -> None:
    assert counted(measured()) == (150, 450)


@pytest.mark.parametrize("hosts", SIZES)
def test_all_sizes_carry_the_same_in_their_timed_rounds(hosts: int) -> None:
    size = Size(hosts)
    assert (size.rounds - 1) * size.hosts == (SMALL.rounds - 1) * SMALL.hosts


@pytest.mark.parametrize("size", [SMALL, LARGE, Size(64, empty_leaves=48)])
def test_a_fabric_has_its_links_and_every_flow_crosses_the_spines(size: Size) -> None:
    fabric = describe(fabrics.topology(size.spec()))
    assert (len(fabric.hosts), len(fabric.wires)) == (size.hosts, size.links)
    rack = {wire.a: wire.b for wire in fabric.wires}
    pairs = patterns.permutation([host.name for host in fabric.hosts])
    assert all(rack[sender] != rack[receiver] for sender, receiver in pairs)


def test_as_many_hosts_send_at_a_time_in_a_fabric_of_any_size() -> None:
    spans_ns = {size: size.spec().jitter_ns / size.hosts for size in (SMALL, LARGE)}
    assert len(set(spans_ns.values())) == 1
    assert Size(512, at_once=True).spec().jitter_ns == Size(8, at_once=True).spec().jitter_ns


def seen(ends_s: Mapping[str, float], rounds_s: list[float]) -> Watch:
    return Watch(len(rounds_s), "", dict(ends_s), rounds_s, [1.0, 3.0], 50_000_000)


def test_the_first_round_is_left_out_of_a_packets_time() -> None:
    watch = seen({"booted": 0.1, "built": 2.1, "rounds": 2.2}, [2.7, 3.7, 4.7])
    found = cost(replace(SMALL, transfers=16), watch, measured())
    assert (found.packets, found.hops, found.rounds_s, found.cpu_s) == (100, 300, 2.0, 2.0)
    assert (found.packet_s, found.hop_s, found.core_share) == (0.02, 2 / 300, 1)
    assert (found.setup_s, found.connect_s) == (2.0, 0.5)


def test_growth_is_told_for_each_repeat() -> None:
    assert ratios(growth().hosts, lambda each: each.packet_s) == pytest.approx((1.1, 1.2, 3.0))


def test_tables_show_medians() -> None:
    lines = markdown(growth()).splitlines()
    cells = dict(zip(COLUMNS, (each.strip() for each in lines[5].split("|")[1:])))
    told = [cells[name] for name in ("hosts", "links", "a packet (µs)", "share of a core", "of a host (MB)")]
    assert told == ["512", "1024", "2.40", "90%", "0.39"]


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    path = draw(growth(), tmp_path / "growth.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_process_that_was_started_is_found_by_its_program_with_its_costs() -> None:
    burn = "sum(range(3_000_000)); print(flush=True); input()"
    words = [sys.executable, "-c", burn]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as started:
        assert started.stdout is not None
        started.stdout.readline()
        watch = Watch(1, os.path.realpath(sys.executable))
        watch.note("x", {"event": "round"})
        started.communicate(b"\n")
    assert watch.cpu_s[0] > 0.01
    assert 2_000_000 < watch.memory_bytes < 500_000_000


def test_a_lab_that_is_gone_is_told() -> None:
    with pytest.raises(RuntimeError, match="has ended before"):
        Watch(1, "/no/such/kernel").note("x", {"event": "round"})


def test_phases_are_timed_by_name() -> None:
    watch = Watch(2, "")
    for event in ({"event": "booted"}, {"event": "phase", "name": "built"}):
        watch.note("x", event)
    assert list(watch.at_s) == ["booted", "built"]
    assert watch.at_s["booted"] <= watch.at_s["built"]
