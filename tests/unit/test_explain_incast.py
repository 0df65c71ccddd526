"""The verdict on captures, from stories made by hand: which points were captured, and what each can prove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis.explain.crowd import best_rate
from analysis.explain.incast import LIKELY_COLLAPSE, incast_verdict
from analysis.explain.lost_time import most_at_once
from analysis.explain.model import MIDDLE, FlowStory, Hop, Repeats, Series
from analysis.explain.onset import fill_s, onset_ns
from analysis.fidelity import FAITHFUL, NOT_MEASURED, UNFAITHFUL, Fidelity
from analysis.transport.events import RTO
from analysis.transport.recovery import Recovery
from analysis.transport.stalls import LOSS_PROBE
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN, Verdict
from tests.unit.frames import T0_NS
from tests.unit.silent import at_ms, stall, story

LINUX = Recovery(200_000_000)
BIN_NS = 1 << 20


def series(begin_ms: float, *delivered: int) -> Series:
    """Bytes delivered in bins of a millisecond and a bit."""
    bins = np.array(delivered, np.int64)
    none = np.zeros(len(bins), np.int64)
    return Series(at_ms(begin_ms), BIN_NS, bins, bins, none, none.astype(float), none, none, none)


def repeats(*starts: int) -> Repeats:
    """Packets that timeouts sent again."""
    start = np.array(starts, np.int64)
    return Repeats(start, start, start, start + 1000, np.array([RTO] * len(starts), "U16"), start * 0)


def collapsed(**more: Any) -> list[FlowStory]:
    """h2 stands still for 203 ms after h3 and h4 are done; the link delivers all in two bins."""
    slow = story(2, [(0, 210)], stall(2, 5, 208), kinds={RTO: 1}, repeats=repeats(0))
    quick = [story(host, [(0, 5)]) for host in (3, 4)]
    return [replace(each, series=series(0, 500_000), delivered_bytes=500_000, **more) for each in (slow, *quick)]


def hop(flow: str, lost_ms: list[float], second: str = "leaf1-eth1") -> Hop:
    lost_ns = np.array([at_ms(each) for each in lost_ms], np.int64)
    return Hop(flow, f"{flow}-eth0", second, 10, 900, 1000, 2000, np.arange(len(lost_ns)), lost_ns, 0, True)


def holds(verdict: Verdict) -> dict[str, bool | None]:
    return {piece.name: piece.holds for piece in verdict.evidence}


ALL = {"senders at once", "goodput", "timeouts or probes as late", "drops at the hot port", "idle link", "CPU kept up"}


def test_senders_and_hot_port_of_a_run_in_virtual_time_prove_it() -> None:
    hops = [hop("h2", [4, 4.5]), hop("h3", [])]
    told = incast_verdict(collapsed(), hops, (), (), LINUX, 10**10, "virtual")
    assert (told.verdict, told.good, told.missing) == (COLLAPSE, False, ())
    assert holds(told) == dict.fromkeys(ALL, True)


def test_on_an_unknown_clock_it_is_likely() -> None:
    told = incast_verdict(collapsed(), [hop("h2", [4])], (), ())
    assert (told.verdict, told.good, holds(told)["CPU kept up"]) == (LIKELY_COLLAPSE, False, None)


def test_senders_alone_do_not_tell_where_packets_were_lost() -> None:
    told = incast_verdict(collapsed(), [], (), (), LINUX, 10**10, "virtual")
    assert (told.verdict, holds(told)["drops at the hot port"]) == (LIKELY_COLLAPSE, None)


def test_the_hot_port_alone_makes_it_likely() -> None:
    hot = collapsed(point="leaf1-eth1", position=MIDDLE, upstream_losses=3, kinds={})
    told = incast_verdict(hot, [], (), (), LINUX, 10**10, "virtual")
    assert (told.verdict, holds(told)["timeouts or probes as late"]) == (LIKELY_COLLAPSE, True)
    assert holds(told)["drops at the hot port"] is True


def test_losses_of_a_few_senders_may_be_of_their_own_links() -> None:
    hot = collapsed(point="leaf1-eth1", position=MIDDLE)
    told = incast_verdict([replace(hot[0], upstream_losses=9), *hot[1:]], [], (), ())
    assert holds(told)["drops at the hot port"] is None


def test_drops_on_another_way_speak_against_it() -> None:
    told = incast_verdict(collapsed(), [hop("h2", [4, 5]), hop("h3", [6], "spine1-eth1")], (), (), LINUX)
    assert (told.verdict, holds(told)["drops at the hot port"]) == (NOT_PROVEN, False)


def test_goodput_that_stayed_is_no_collapse() -> None:
    flows = [story(host, [(0, 4)], series=series(0, 500_000), delivered_bytes=500_000) for host in (2, 3, 4)]
    told = incast_verdict(flows, [], (), (), LINUX, 4 * 10**9, "virtual")
    assert (told.verdict, told.good) == (NO_COLLAPSE, True)


def test_slow_without_loss_or_timeout_is_none_either() -> None:
    flows = [story(host, [(0, 210)], series=series(0, 500_000), delivered_bytes=500_000) for host in (2, 3, 4)]
    assert incast_verdict(flows, [], (), (), LINUX, 10**10).verdict == NO_COLLAPSE


@pytest.mark.parametrize("says", [UNFAITHFUL, NOT_MEASURED])
def test_a_run_whose_processor_did_not_keep_up_proves_neither(says: str) -> None:
    guard = Fidelity(says, ())
    kept = [story(host, [(0, 4)], series=series(0, 500_000), delivered_bytes=500_000) for host in (2, 3, 4)]
    slow = [replace(each, blocks=story(2, [(0, 210)]).blocks, end_ns=at_ms(210)) for each in kept]
    for flows, hops in ((kept, []), (slow, []), (collapsed(), [hop("h2", [4]), hop("h3", [])]), (collapsed(), [])):
        told = incast_verdict(flows, hops, (), (), LINUX, 4 * 10**9, "real", guard)
        assert (told.verdict, told.good) == (NOT_PROVEN, None)
    faithful = Fidelity(FAITHFUL, ())
    assert incast_verdict(kept, [], (), (), LINUX, 4 * 10**9, "real", faithful).verdict == NO_COLLAPSE
    assert incast_verdict(kept, [], (), (), LINUX, 4 * 10**9).verdict == NO_COLLAPSE  # from elsewhere


def test_a_silence_far_from_the_timer_is_not_proven() -> None:
    flows = collapsed()
    slow = replace(flows[0], stalls=(stall(2, 5, 55),), blocks=story(2, [(0, 60)]).blocks, end_ns=at_ms(60))
    told = incast_verdict([slow, *flows[1:]], [hop("h2", [4])], (), (), LINUX, 10**10, "virtual")
    assert (told.verdict, holds(told)["idle link"]) == (NOT_PROVEN, False)


def test_a_timer_that_doubled_may_be_idle_for_longer() -> None:
    flows = collapsed()
    slow = replace(flows[0], stalls=(stall(2, 5, 410),), blocks=story(2, [(0, 415)]).blocks, end_ns=at_ms(415))
    assert holds(incast_verdict([slow, *flows[1:]], [], (), (), LINUX))["idle link"] is False
    twice = replace(slow, repeats=repeats(0, 0))
    assert holds(incast_verdict([twice, *flows[1:]], [], (), (), LINUX))["idle link"] is True


def test_probes_that_waited_for_rto_min_count_as_timeouts() -> None:
    flows = [replace(each, kinds={}) for each in collapsed()]
    flows[0] = replace(flows[0], stalls=(stall(2, 5, 208, LOSS_PROBE),))
    told = incast_verdict(flows, [hop("h2", [4])], (), (), LINUX, 10**10, "virtual")
    assert holds(told)["timeouts or probes as late"] is True


def test_the_timer_of_a_stranger_is_the_shortest_that_was_seen() -> None:
    told = incast_verdict(collapsed(min_rto_ns=201_000_000), [], (), ())
    idle = next(piece for piece in told.evidence if piece.name == "idle link")
    assert (idle.configured, idle.holds) == (pytest.approx(0.201), True)


def test_one_direction_alone_proves_no_timeouts() -> None:
    told = incast_verdict(collapsed(both_ways=False, kinds={}), [], (), ())
    assert holds(told)["timeouts or probes as late"] is None


@pytest.mark.parametrize("flows", [[], [story(2, [(0, 210)], stall(2, 5, 208))]])
def test_fewer_than_two_senders_are_no_incast(flows: list[FlowStory]) -> None:
    told = incast_verdict(flows, [], (), ())
    assert (told.verdict, told.good) == (NO_COLLAPSE, None)


def test_hosts_are_counted_once_however_many_flows_they_have() -> None:
    flows = [story(2, [(0, 9)]), story(2, [(1, 5)], name="another", source="10.0.0.2:1"), story(3, [(4, 8), (20, 30)])]
    assert most_at_once(flows) == 2


def test_the_best_rate_adds_up_flows_in_the_same_time() -> None:
    flows = [story(2, [(0, 9)], series=series(0, 100, 0, 700)), story(3, [(0, 9)], series=series(0, 300, 0, 0))]
    assert best_rate(flows) == (pytest.approx(700 * 8e9 / BIN_NS), BIN_NS)
    assert best_rate([story(2, [(0, 9)])]) is None


def test_the_best_rate_is_over_several_round_trips() -> None:
    flow = story(2, [(0, 9)], series=series(0, 100, 200, 300, 400), rtt_median_ns=BIN_NS)
    assert best_rate([flow]) == (pytest.approx(1000 * 8e9 / (8 * BIN_NS), rel=1), 8 * BIN_NS)


# --- the first burst


def test_collapse_begins_with_the_first_loss_before_the_stand_still() -> None:
    assert onset_ns(collapsed(), []) == at_ms(5)
    assert onset_ns(collapsed(), [hop("h2", [4, 300])]) == at_ms(4)
    assert onset_ns([], []) is None


def burst(flow: str, sent: list[int], delay: list[int], lost: list[int], same_clock: bool = True) -> Hop:
    """Packets at times in ns from T0_NS."""
    times = [np.array(each, np.int64) for each in (sent, delay, lost)]
    least = int(times[1].min())
    told = (np.arange(len(lost)), times[2] + T0_NS)
    return Hop(flow, flow, "leaf1", len(sent), least, least, least, *told, 0, same_clock, times[0] + T0_NS, times[1])


def test_the_queue_fills_from_the_packet_that_found_it_empty() -> None:
    """It is empty at 0, and again when the packet sent at 495 comes, and never until the loss at 900."""
    hops = [burst("h2", [0, 100, 500, 600], [50, 90, 50, 250], [900]), burst("h3", [495, 700], [165, 350], [950])]
    assert fill_s(hops, []) == pytest.approx(405e-9)


def test_no_loss_or_no_common_clock_leave_it_open() -> None:
    assert fill_s([burst("h2", [0, 100], [50, 90], [])], []) is None
    assert fill_s([burst("h2", [0, 100], [50, 90], [120], same_clock=False)], []) is None
    assert fill_s([], []) is None
    assert onset_ns([story(2, [(0, 5)])], []) is None


def test_bins_longer_than_the_silences_hide_no_collapse() -> None:
    """Each bin holds a burst and a silence, so that none carried more than the others; what moved shows the rate."""
    told = {"series": replace(series(0, 1), bin_ns=1 << 28), "delivered_bytes": 50_000}
    flows = [story(2, [(0, 210)], stall(2, 5, 208), **told), *(story(host, [(0, 5)], **told) for host in (3, 4))]
    goodput = next(each for each in incast_verdict(flows, [], (), ()).evidence if each.name == "goodput")
    assert goodput.holds
    assert goodput.modelled == pytest.approx(150_000 * 8 / 0.007)


def test_a_point_that_saw_most_flows_pass_tells_the_links_best_rate() -> None:
    near = [story(host, [(0, 90)], series=series(0, 900_000), delivered_bytes=50_000) for host in (2, 3)]
    far = [replace(flow, point="leaf1-eth1", position=MIDDLE, series=series(0, 400_000)) for flow in near]
    goodput = next(each for each in incast_verdict([*near, *far], [], (), ()).evidence if each.name == "goodput")
    assert goodput.modelled == pytest.approx(800_000 * 8e9 / BIN_NS)
