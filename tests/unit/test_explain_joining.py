"""The same packets at several points: order of the points, delays, losses by hop, and clocks that differ."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from analysis.explain.explain import explain
from analysis.explain.model import CERTAIN, Explanation, Hop
from tests.unit.explained_path import SEGMENT, FlowPath, lossy_path


def hops(found: Explanation) -> dict[tuple[str, str], Hop]:
    return {(hop.first, hop.second): hop for hop in found.hops}


@pytest.mark.parametrize("order", list(permutations(("sender", "port", "receiver"))))
def test_points_given_in_any_order_come_in_the_paths(order: tuple[str, ...], tmp_path: Path) -> None:
    paths = lossy_path().write(tmp_path)
    found = explain([paths[name] for name in order])
    assert [(hop.first, hop.second) for hop in found.hops] == [("sender", "port"), ("port", "receiver")]


def test_each_hop_has_its_delay_and_its_losses(tmp_path: Path) -> None:
    found = hops(explain(list(lossy_path().write(tmp_path).values())))
    first, second = found["sender", "port"], found["port", "receiver"]
    assert (first.delay_min_ns, first.delay_median_ns, first.delay_max_ns) == (20_000, 20_000, 20_000)
    assert second.delay_median_ns == 10_000
    assert (first.paired, second.paired) == (6, 6)
    assert (len(first.lost_ns), len(second.lost_ns)) == (1, 0)
    assert first.lost_number.tolist() == [6]  # three of the handshake, then the third segment
    assert first.same_clock
    assert second.same_clock


def test_alike_packets_go_with_each_other_from_the_last(tmp_path: Path) -> None:
    """Identifications of 0, as of IPv6: only the place among its likes tells which one was lost."""
    path = FlowPath().connect(0)
    for at_ns, is_lost in ((100_000, True), (200_100_000, False)):
        path.sent = -1
        path.send(at_ns, 0, lost=is_lost)
    path.ack(200_140_000, SEGMENT)
    hop = hops(explain(list(path.write(tmp_path).values())))["sender", "port"]
    assert hop.lost_number.tolist() == [4]
    assert hop.delay_ns.tolist() == [20_000]


@pytest.mark.parametrize("ahead_ns", [3_000_000_000, -3_000_000_000, 70_000, -25_000])
def test_a_clock_that_is_wrong_is_told(ahead_ns: int, tmp_path: Path) -> None:
    found = explain(list(lossy_path(port=ahead_ns).write(tmp_path).values()))
    assert not hops(found)["sender", "port"].same_clock
    told = {(each["first"], each["second"]): each for each in found.facts["clocks"]}["sender", "port"]
    assert abs(told["offset_ns"] - ahead_ns) <= told["uncertain_ns"]


def test_what_the_second_capture_missed_is_no_loss(tmp_path: Path) -> None:
    """A packet that a point behind saw, or that was acknowledged and never sent again, got through."""
    path = FlowPath().connect(0)
    for place in range(4):
        path.send(100_000 + 1000 * place, SEGMENT * place)
    path.ack(140_000, 4 * SEGMENT)
    path.records["port"] = [record for number, record in enumerate(path.records["port"]) if number != 5]
    paths = path.write(tmp_path)
    assert all(len(hop.lost_ns) == 0 for hop in explain(list(paths.values())).hops)
    assert len(explain([paths["sender"], paths["port"]]).hops[0].lost_ns) == 0


def test_what_comes_after_a_captures_end_is_no_loss(tmp_path: Path) -> None:
    path = lossy_path()
    path.records["port"] = [record for record in path.records["port"] if record[0] < path.records["port"][0][0] + 10**8]
    paths = path.write(tmp_path)
    (hop,) = explain([paths["sender"], paths["port"]]).hops
    assert hop.lost_number.tolist() == [6]


def test_captures_of_different_traffic_are_not_joined(tmp_path: Path) -> None:
    one, other = lossy_path().write(tmp_path / "a"), FlowPath().connect(0)
    other.sent = 1000
    for place in range(20):
        other.send(100_000 + 1000 * place, 50_000 + SEGMENT * place)
    found = explain([one["sender"], other.write(tmp_path / "b")["port"]])
    assert found.hops == ()
    assert "packets in common" in found.facts["notes"][0]


def test_one_capture_has_no_hops(tmp_path: Path) -> None:
    assert explain([lossy_path().write(tmp_path)["port"]]).hops == ()


def test_losses_at_the_port_are_certain_where_its_senders_capture_is_there(tmp_path: Path) -> None:
    found = explain(list(lossy_path().write(tmp_path).values()))
    assert np.concatenate([hop.lost_ns for hop in found.hops]).size == 1
    assert any(
        finding.confidence == CERTAIN and "lost on the way to port" in finding.text for finding in found.findings
    )
