"""Where on its path a flow was captured: what tells, and how sure that may be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.explain.explain import explain
from analysis.explain.model import CERTAIN, LIKELY, MIDDLE, RECEIVER, SENDER, UNKNOWN, UNSURE
from analysis.explain.position import Evidence, position_of
from tests.unit.explained_path import lossy_path


@pytest.mark.parametrize(
    ("evidence", "where", "confidence"),
    [
        (Evidence(60_000, 100, resent=False, lost_before=False), SENDER, LIKELY),
        (Evidence(60_000, 4_000, resent=False, lost_before=False), SENDER, UNSURE),
        (Evidence(60_000, 20_000, resent=True, lost_before=False), SENDER, UNSURE),
        (Evidence(60_000, 20_000, resent=False, lost_before=False), MIDDLE, LIKELY),
        (Evidence(60_000, 20_000, resent=True, lost_before=True), MIDDLE, LIKELY),
        (Evidence(60_000, 100, resent=True, lost_before=True), MIDDLE, UNSURE),
        (Evidence(20_000, 40_000, resent=True, lost_before=True), MIDDLE, LIKELY),
        (Evidence(100, 60_000, resent=True, lost_before=True), RECEIVER, LIKELY),
        (Evidence(4_000, 60_000, resent=False, lost_before=False), RECEIVER, UNSURE),
        (Evidence(0, 0, resent=False, lost_before=False), UNKNOWN, UNSURE),
        (Evidence(100, 50, resent=False, lost_before=False), UNKNOWN, UNSURE),
        (Evidence(60_000, None, resent=False, lost_before=False), UNKNOWN, UNSURE),
        (Evidence(None, None, resent=True, lost_before=False), SENDER, UNSURE),
        (Evidence(None, None, resent=True, lost_before=True), MIDDLE, UNSURE),
    ],
)
def test_what_is_seen_tells_where(evidence: Evidence, where: str, confidence: str) -> None:
    found = position_of(evidence)
    assert (found.where, found.confidence) == (where, confidence)
    assert found.because


def test_packets_alone_never_make_it_certain() -> None:
    times = (None, 0, 50, 1_000, 60_000, 10**9)
    found = [
        position_of(Evidence(onward, back, resent, lost))
        for onward in times
        for back in times
        for resent in (False, True)
        for lost in (False, True)
    ]
    assert all(each.confidence != CERTAIN for each in found)


def test_names_of_a_run_make_it_certain() -> None:
    found = position_of(Evidence(None, None, resent=False, lost_before=False), SENDER)
    assert (found.where, found.confidence) == (SENDER, CERTAIN)


@pytest.mark.parametrize(("point", "where"), [("sender", SENDER), ("port", MIDDLE), ("receiver", RECEIVER)])
def test_a_flow_is_placed_at_each_point(point: str, where: str, tmp_path: Path) -> None:
    (flow,) = explain([lossy_path().write(tmp_path)[point]]).flows
    assert (flow.position, flow.position_confidence) == (where, LIKELY)
    assert flow.handshake
    assert flow.upstream_losses == (0 if point == "sender" else 1)


def test_where_the_place_is_unsure_no_cause_is_certain(tmp_path: Path) -> None:
    """Without a handshake and time stamps only what was sent again tells where the capture was taken."""
    path = lossy_path()
    path.records["sender"] = path.records["sender"][3:]
    (flow,) = explain([path.write(tmp_path)["sender"]]).flows
    assert (flow.position, flow.position_confidence) == (SENDER, UNSURE)
    assert flow.stalls
    assert all(stall.confidence != CERTAIN for stall in flow.stalls)
