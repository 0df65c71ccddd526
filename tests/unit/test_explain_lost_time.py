"""The share of time in which flows stood still, alone and together, and who waited for whom."""

from __future__ import annotations

import pytest

from analysis.explain.causes_elsewhere import with_pauses
from analysis.explain.lost_time import hour_words, lost_s, lost_share, lost_stalls
from analysis.explain.model import LIKELY, MIDDLE, SENDER, UNSURE, each_once
from analysis.explain.onset import onset, onset_ns
from analysis.explain.reasons import STRAGGLER
from analysis.explain.stragglers import with_stragglers
from analysis.transport.stalls import APPLICATION_IDLE, DELAYED_ACK, PAUSED, TAIL
from tests.unit.silent import at_ms, stall, story


def test_a_flow_alone_loses_the_share_of_its_stalls() -> None:
    flow = story(2, [(0, 60)], stall(2, 10, 50))
    assert lost_share([flow]) == pytest.approx(40 / 60)


def test_idle_and_unsure_silences_are_no_loss() -> None:
    flow = story(2, [(0, 10), (50, 60)], stall(2, 10, 50, APPLICATION_IDLE), stall(2, 52, 58, TAIL, UNSURE))
    assert lost_share([flow]) == 0.0
    assert (lost_s(flow), lost_stalls(flow)) == (0.0, [])


def test_a_flow_that_moves_saves_the_time_of_one_that_does_not() -> None:
    """h2 stands still from 10 to 50; h3 works until 30."""
    flows = [story(2, [(0, 60)], stall(2, 10, 50)), story(3, [(0, 30)])]
    assert lost_share(flows) == pytest.approx(20 / 60)


def test_a_flow_that_is_done_waits_and_saves_nothing() -> None:
    flows = [story(2, [(0, 60)], stall(2, 10, 50)), *(story(host, [(0, 10)]) for host in range(3, 9))]
    assert lost_share(flows) == pytest.approx(40 / 60)


def test_two_receivers_are_counted_apart() -> None:
    busy = story(3, [(0, 60)], destination="10.0.0.9:5000")
    assert lost_share([story(2, [(0, 60)], stall(2, 10, 50)), busy]) == pytest.approx(40 / 120)


def test_no_flows_have_no_share() -> None:
    assert lost_share([]) is None


def test_of_several_captures_of_a_flow_the_senders_counts() -> None:
    near, far = story(2, [(0, 60)], stall(2, 10, 50)), story(2, [(0, 60)], point="leaf1-eth1", position=MIDDLE)
    assert [flow.position for flow in each_once([far, near])] == [SENDER]
    assert lost_share([far, near]) == pytest.approx(40 / 60)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (2 / 3, "40 minutes of an hour"),
        (0.5, "30 minutes of an hour"),
        (0.9974, "59 minutes and 51 seconds of an hour"),
        (1 / 60, "1 minute of an hour"),
        (0.001, "3.6 seconds of an hour"),
        (0.99999, "60 minutes of an hour"),
        (1.0, "all of it"),
    ],
)
def test_a_share_in_words(share: float, words: str) -> None:
    assert hour_words(share) == words


# --- the slowest of a round


def test_flows_that_were_done_waited_for_the_slowest() -> None:
    """h3 and h4 end at 5 and 6, h2 at 210; all begin again at 211."""
    slow = story(2, [(0, 210), (211, 215)], stall(2, 5, 208))
    quick = [story(host, [(0, host + 2), (211, 215)], stall(host, host + 2, 211, APPLICATION_IDLE)) for host in (3, 4)]
    told = {flow.name: flow.stalls for flow in with_stragglers([slow, *quick])}
    assert [(each.cause, each.confidence) for name in ("h3", "h4") for each in told[name]] == [(STRAGGLER, LIKELY)] * 2
    assert "h2 went on with its own" in told["h3"][0].reason
    assert told["h2"] == slow.stalls


def test_an_application_that_began_long_after_its_peers_ended_waited_for_something_else() -> None:
    slow = story(2, [(0, 100), (400, 410)])
    quick = story(3, [(0, 5), (300, 310)], stall(3, 5, 300, APPLICATION_IDLE))
    assert with_stragglers([slow, quick])[1].stalls == quick.stalls


def test_a_short_block_of_a_peer_explains_no_long_silence() -> None:
    peer, idle = story(2, [(290, 299)]), story(3, [(0, 5), (300, 310)], stall(3, 5, 300, APPLICATION_IDLE))
    assert with_stragglers([peer, idle])[1].stalls == idle.stalls


# --- the beginning of a collapse


def test_collapse_begins_when_all_stand_still_until_a_timeout() -> None:
    flows = [story(2, [(0, 230)], stall(2, 12, 210)), story(3, [(0, 15)]), story(4, [(1, 30)], stall(4, 8, 11))]
    found = onset(flows)
    assert found is not None
    assert (found.time_ns, found.receiver, found.senders) == (at_ms(30), "10.0.0.1", 3)
    assert onset_ns(flows, []) == at_ms(30)


def test_what_moves_all_the_time_never_collapses() -> None:
    assert onset([story(2, [(0, 230)], stall(2, 12, 210)), story(3, [(0, 230)])]) is None


def test_a_single_sender_does_not_collapse() -> None:
    assert onset([story(2, [(0, 230)], stall(2, 12, 210))]) is None


def test_a_common_wait_for_a_delayed_acknowledgement_is_no_collapse() -> None:
    flows = [story(2, [(0, 60)], stall(2, 12, 52, DELAYED_ACK)), story(3, [(0, 5)])]
    assert onset(flows) is None


# --- pauses that only another point saw


def test_a_pause_that_the_port_saw_explains_the_senders_silence() -> None:
    near = story(2, [(0, 80)], stall(2, 10, 70, DELAYED_ACK, LIKELY))
    far = story(2, [(0, 80)], stall(2, 11, 69, PAUSED, LIKELY), point="leaf1-eth1", position=MIDDLE)
    (told, _) = with_pauses([near, far])
    assert [(each.cause, each.confidence) for each in told.stalls] == [(PAUSED, LIKELY)]
    assert "leaf1-eth1" in told.stalls[0].reason


def test_a_short_pause_or_another_flows_explains_nothing() -> None:
    near = story(2, [(0, 80)], stall(2, 10, 70, DELAYED_ACK, LIKELY))
    short = story(2, [(0, 80)], stall(2, 11, 30, PAUSED, LIKELY), point="leaf1-eth1", position=MIDDLE)
    other = story(3, [(0, 80)], stall(3, 11, 69, PAUSED, LIKELY), point="leaf1-eth1", position=MIDDLE)
    assert with_pauses([near, short, other])[0].stalls == near.stalls


def test_an_application_that_was_idle_for_certain_stays_so() -> None:
    near = story(2, [(0, 10), (70, 80)], stall(2, 10, 70, APPLICATION_IDLE))
    far = story(2, [(0, 80)], stall(2, 11, 69, PAUSED, LIKELY), point="leaf1-eth1", position=MIDDLE)
    assert with_pauses([near, far])[0].stalls == near.stalls
