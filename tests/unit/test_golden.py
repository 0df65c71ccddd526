"""The golden captures against what others than the captures saw (tests/golden/README.md): kinds of retransmissions,
causes of stalls, drops, marks, pauses and times have to be those that kernels, queues, telemetry and programs tell.

Each capture is explained twice: with what its run's spec tells, where counts have to be exact, and as a stranger's,
where nothing may be told as certain that is not so.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.capture.packets import ACK, CE, CWR, ECE, PAUSE, PFC, Packets
from analysis.capture.reader import read_capture
from analysis.explain.causes import CAUSES
from analysis.explain.explain import explain
from analysis.explain.known import Known
from analysis.explain.model import CERTAIN, MIDDLE, RECEIVER, SENDER, Explanation, FlowStall, FlowStory
from analysis.explain.reasons import DELAYED_ACK, SPURIOUS, STRAGGLER, TIMEOUTS, ZERO_WINDOW
from analysis.transport.events import FAST, GO_BACK_N, PROBE, RACK, RTO
from analysis.transport.roce import NAK, QP_TIMEOUT
from analysis.transport.stalls import (
    APPLICATION_IDLE,
    FEW_DUPLICATES,
    FULL_WINDOW,
    LOSS_PROBE,
    LOST_RETRANSMISSION,
    PAUSED,
    TAIL,
)
from analysis.verdicts import COLLAPSE

GOLDEN = Path(__file__).parents[1] / "golden"
RTO_MIN_NS = 200_000_000
TICK_S = 0.001
QUIET_S = 0.05  # between a flow's end and its connection's
ONE_FLOW = "10.0.0.2:20000 > 10.0.0.1:5000"
FLOWS = {"ipv6": "[fd00::2]:20000 > [fd00::1]:5000", "raw": "10.9.0.2:20000 > 10.9.0.1:5000"}
# Case -> causes of its flow's stalls, in order.
STALLS = {
    "tail_loss": [TAIL],
    "ipv6": [TAIL],
    "any_sll": [TAIL],
    "any_sll2": [TAIL],
    "raw": [TAIL],
    "full_window": [FULL_WINDOW],
    "full_window_no_sack": [FULL_WINDOW],
    "lost_retransmission": [LOST_RETRANSMISSION],
    "few_duplicates": [FEW_DUPLICATES],
    "loss_probe": [LOSS_PROBE],
    "spurious_timeout": [SPURIOUS],
    "fast_sack": [],
    "fast_no_sack": [],
}
LOSSES = (*STALLS, "loss_probe_early", "rack", "spurious_fast")
ALL = sorted(path.parent.name for path in GOLDEN.glob("*/truth.json"))


@cache
def case(name: str) -> dict[str, Any]:
    return dict(json.loads((GOLDEN / name / "truth.json").read_text()))


def truth(name: str) -> dict[str, Any]:
    return dict(case(name)["truth"])


def capture(name: str, point: str) -> Path:
    return GOLDEN / name / "pcap" / f"{point}.pcap.gz"


def points(name: str) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in (GOLDEN / name / "pcap").iterdir())


@cache
def explained(name: str, *at: str, stranger: bool = False) -> Explanation:
    """A case's captures at these points, or all, explained: with what its run directory tells, or as a stranger's."""
    return explain([capture(name, point) for point in at or points(name)], known=Known() if stranger else None)


def flow_of(name: str, point: str = "h2-eth0", stranger: bool = False) -> FlowStory:
    """The one flow with data from h2 to h1."""
    told = explained(name, point, stranger=stranger)
    (found,) = [flow for flow in told.flows if flow.name == FLOWS.get(name, ONE_FLOW)]
    return found


def sender_point(name: str) -> str:
    return next(point for point in points(name) if point.startswith("h2"))


def waits(flow: FlowStory) -> list[FlowStall]:
    """A flow's stalls, without those in which it had nothing to send."""
    return [stall for stall in flow.stalls if stall.cause not in (APPLICATION_IDLE, STRAGGLER)]


def kinds(flow: FlowStory) -> dict[str, int]:
    """What was sent again, by the kernel's counters: it counts RACK's among fast retransmissions."""
    told = Counter(flow.kinds)
    return {
        "rto": told[RTO],
        "fast": told[FAST] + told[RACK],
        "go_back_n": told[GO_BACK_N],
        "probe": told[PROBE],
        "resent": flow.resent,
    }


# --- losses of one flow


@pytest.mark.parametrize("name", LOSSES)
def test_kinds_are_those_that_the_kernel_counted(name: str) -> None:
    flow = flow_of(name, sender_point(name))
    assert kinds(flow) == {kind: truth(name)[kind] for kind in kinds(flow)}


@pytest.mark.parametrize("name", [*LOSSES, "zero_window", "delayed_ack", "idle"])
def test_bytes_are_those_of_tcp_info(name: str) -> None:
    flow = flow_of(name, sender_point(name))
    told = truth(name)
    found = (flow.delivered_bytes, flow.payload_bytes, flow.packets)
    assert found == (told["delivered_bytes"], told["sent_bytes"], told["data_packets"])


@pytest.mark.parametrize("name", STALLS)
def test_stalls_have_the_cause_that_was_made(name: str) -> None:
    flow = flow_of(name, sender_point(name))
    found = waits(flow)
    assert [stall.cause for stall in found] == STALLS[name]
    assert all(stall.confidence == CERTAIN for stall in found) or flow.position_confidence != CERTAIN
    assert flow.rtt_min_ns is not None
    for stall in found:  # the timer is in it, and it is part of what the program had to wait, and of the way back
        assert RTO_MIN_NS / 1e9 - TICK_S <= stall.seconds <= truth(name)["seconds"] + flow.rtt_min_ns / 1e9


@pytest.mark.parametrize("name", [*LOSSES, "zero_window", "delayed_ack", "idle"])
def test_a_stranger_is_told_no_wrong_cause_as_certain(name: str) -> None:
    flow = flow_of(name, sender_point(name), stranger=True)
    wanted = STALLS.get(name, [stall.cause for stall in flow_of(name, sender_point(name)).stalls])
    certain = [stall.cause for stall in flow.stalls if stall.confidence == CERTAIN and stall.cause != APPLICATION_IDLE]
    assert set(certain) <= set(wanted)
    assert flow.resent == truth(name)["resent"]


@pytest.mark.parametrize("name", [name for name in LOSSES if "h1-eth0" in points(name)])
def test_the_receivers_capture_knows_that_it_saw_no_losses_itself(name: str) -> None:
    """What was lost never came to h1: there is a gap that is filled later, and nothing that was seen twice, but for
    what was sent again needlessly."""
    flow = flow_of(name, "h1-eth0")
    needless = truth(name)["resent"] - truth(name)["lost"]
    assert flow.upstream_losses <= truth(name)["lost"]
    assert flow.spurious <= needless
    wrong = set(TIMEOUTS) - set(STALLS.get(name, [])) - {"rto_unknown"}
    assert not [stall for stall in flow.stalls if stall.confidence == CERTAIN and stall.cause in wrong]


def test_rack_is_not_taken_for_duplicates() -> None:
    """Two segments came behind the hole, one too few for a fast retransmission by duplicates."""
    assert truth("rack")["behind_the_hole"] == 2
    assert dict(flow_of("rack").kinds) == {RACK: 1}


@pytest.mark.parametrize("name", ["fast_sack", "fast_no_sack"])
def test_duplicates_are_not_taken_for_rack(name: str) -> None:
    assert {kind: count for kind, count in flow_of(name).kinds.items() if count} == {FAST: 1}


@pytest.mark.parametrize("name", ["spurious_timeout", "spurious_fast"])
def test_needless_retransmissions_are_proven_by_what_the_receiver_reported(name: str) -> None:
    assert (truth(name)["lost"], truth(name)["dsacks"]) == (0, 1)
    assert flow_of(name).spurious == 1


@pytest.mark.parametrize("name", [name for name in LOSSES if not name.startswith("spurious")])
def test_what_was_lost_is_not_called_needless(name: str) -> None:
    assert truth(name)["lost"] == truth(name)["resent"]
    assert flow_of(name, sender_point(name)).spurious == 0


@pytest.mark.parametrize("name", [name for name in LOSSES if "h1-eth0" in points(name)])
def test_both_ends_joined_tell_what_was_lost_between_them(name: str) -> None:
    (hop,) = [hop for hop in explained(name).hops if hop.flow == FLOWS.get(name, ONE_FLOW) and hop.first == "h2-eth0"]
    assert (hop.second, len(hop.lost_number), hop.unpaired) == ("h1-eth0", truth(name)["lost"], 0)


@pytest.mark.parametrize("name", ALL)
def test_who_was_captured_where_is_right_or_not_certain(name: str) -> None:
    """The lab's NICs hold packets before tcpdump sees them, which is part of the link for a stranger."""
    for stranger in (False, True):
        for flow in explained(name, stranger=stranger).flows:
            place = {flow_point(flow): SENDER, receiving_point(flow): RECEIVER}.get(flow.point, MIDDLE)
            assert flow.position == place or flow.position_confidence != CERTAIN
            named = name not in ("ipv6", "raw")  # the run directory tells IPv4 addresses of the hosts' links
            assert stranger or not named or flow.position == place or place == MIDDLE


def receiving_point(flow: FlowStory) -> str:
    """The NIC of the host that a flow goes to."""
    return f"h{flow.destination.rpartition(':')[0].rpartition('.')[2]}-eth0"


# --- what is no loss


def test_each_late_answer_is_a_delayed_acknowledgement() -> None:
    found = [stall for stall in flow_of("delayed_ack").stalls if stall.cause == DELAYED_ACK]
    assert len(found) == truth("delayed_ack")["late"] == len(waits(flow_of("delayed_ack")))
    for stall, late_s in zip(found, truth("delayed_ack")["late_seconds"]):
        assert late_s - 0.004 <= stall.seconds <= late_s  # a few round trips are no stall


@pytest.mark.parametrize("point", ["h2-eth0", "h1-eth0"])
def test_a_receiver_that_does_not_read_closes_its_window(point: str) -> None:
    flow = flow_of("zero_window", point)
    (stall,) = [each for each in flow.stalls if each.cause == ZERO_WINDOW]
    assert stall.confidence == CERTAIN
    assert 0.1 < stall.seconds <= truth("zero_window")["rwnd_limited_us"] / 1e6 <= truth("zero_window")["deaf_s"]
    assert flow.zero_windows == truth("zero_window")["advertised"] == 1
    assert flow.zero_window_ns / 1e9 == pytest.approx(stall.seconds, rel=0.01)
    # Before, it came late with its acknowledgements; nothing was lost, and nothing may be called so for certain.
    assert {each.cause for each in waits(flow) if each.confidence == CERTAIN} <= {ZERO_WINDOW, DELAYED_ACK}


def test_needless_probes_of_a_closed_window_are_needless() -> None:
    assert flow_of("zero_window").spurious == truth("zero_window")["dsacks"] == truth("zero_window")["resent"]


@pytest.mark.parametrize("point", ["h2-eth0", "h1-eth0"])
def test_an_application_with_nothing_to_send_is_no_fault_of_the_network(point: str) -> None:
    flow = flow_of("idle", point)
    assert {stall.cause for stall in flow.stalls} == {APPLICATION_IDLE}
    silences = [stall.seconds for stall in flow.stalls]
    assert silences == pytest.approx([*truth("idle")["idle_seconds"], QUIET_S], abs=0.005)
    assert not flow.resent
    assert explained("idle", point).lost_share == 0


def test_a_straggler_is_waited_for_and_nothing_is_lost() -> None:
    told = explained("straggler")
    senders = {flow.name: flow for flow in told.flows if flow.point == flow_point(flow)}
    assert {flow.resent for flow in senders.values()} == {0}
    assert told.verdicts[0].verdict != COLLAPSE
    slow = max(truth("straggler")["flows"], key=lambda each: sum(truth("straggler")["flows"][each]["seconds"]))
    said = [finding for finding in told.findings if slow.partition(" ")[0] in finding.text]
    assert said, told.findings


def flow_point(flow: FlowStory) -> str:
    """The NIC of the host that sends: addresses and names of the lab's hosts have one number."""
    return f"h{flow.source.rpartition(':')[0].rpartition('.')[2]}-eth0"


# --- incast


def test_an_incasts_kinds_are_those_of_each_senders_kernel() -> None:
    told = explained("incast")
    for name, counted in truth("incast")["flows"].items():
        (flow,) = [each for each in told.flows if each.name == name and each.point == flow_point(each)]
        assert kinds(flow) == {kind: counted[kind] for kind in kinds(flow)}, name
        assert flow.delivered_bytes == counted["delivered_bytes"]


def test_an_incasts_drops_are_found_between_sender_and_hot_port() -> None:
    """The hot port's queue dropped: the captures behind it have not seen those packets."""
    told = explained("incast")
    lost = Counter[str]()
    for hop in told.hops:
        if hop.second == "leaf1-eth1" and hop.first != "h1-eth0":
            lost[hop.flow] += len(hop.lost_number)
    assert sum(lost.values()) == truth("incast")["drops"]["leaf1-eth1"] > 0
    behind = [hop for hop in told.hops if (hop.first, hop.second) == ("leaf1-eth1", "h1-eth0")]
    assert behind
    assert sum(len(hop.lost_number) for hop in behind) == 0


def test_an_incasts_blocks_take_as_long_as_the_program_saw() -> None:
    told = explained("incast")
    for name, counted in truth("incast")["flows"].items():
        (flow,) = [each for each in told.flows if each.name == name and each.point == flow_point(each)]
        longest_s = max(block.seconds or 0.0 for block in flow.blocks)
        assert longest_s == pytest.approx(max(counted["seconds"]), rel=0.02, abs=0.0001), name


def test_an_incasts_timeouts_are_stalls_of_about_rtomin() -> None:
    told = explained("incast")
    for name, counted in truth("incast")["flows"].items():
        (flow,) = [each for each in told.flows if each.name == name and each.point == flow_point(each)]
        timed_out = [stall for stall in flow.stalls if stall.cause in (*TIMEOUTS, LOSS_PROBE) and stall.seconds > 0.1]
        late = sum(seconds > 0.1 for seconds in counted["seconds"])
        assert len(timed_out) == late, name


def test_without_a_spec_an_incast_is_not_proven_beyond_what_captures_tell() -> None:
    verdict = explained("incast", stranger=True).verdicts[0]
    assert verdict.verdict != COLLAPSE or all(piece.holds for piece in verdict.evidence if piece.applies)
    timeouts = sum(flow["rto"] for flow in truth("incast")["flows"].values())
    assert any(piece.holds for piece in verdict.evidence if "timeout" in piece.name) == (timeouts > 0)


# --- marks, CNPs, pauses, RoCE


def test_marks_are_those_of_port_and_sockets() -> None:
    told = truth("dctcp")
    hot = read_capture(capture("dctcp", "leaf1-eth1"))
    assert int((hot.ecn == CE).sum()) == told["marked"]["leaf1-eth1"] > 0
    for name, counted in told["flows"].items():
        (flow,) = [each for each in explained("dctcp").flows if each.name == name and each.point == "h1-eth0"]
        assert flow.ce == counted["delivered_ce"], name
        assert flow.ect == counted["data_packets"] == flow.packets, name


def test_ece_answers_ce_and_cwr_answers_ece() -> None:
    for flow in explained("dctcp", "h2-eth0", "h3-eth0", "h4-eth0").flows:
        packets = read_capture(capture("dctcp", flow.point))
        port = int(flow.source.rpartition(":")[2])
        back = (packets.dport == port) & (packets.flags & ACK > 0)
        assert flow.ece == int((back & (packets.flags & ECE > 0)).sum()) > 0
        there = (packets.sport == port) & (packets.payload_bytes > 0)
        assert flow.cwr == int((there & (packets.flags & CWR > 0)).sum()) > 0


@pytest.mark.parametrize("name", ["roce_cnp", "roce_loss"])
def test_queue_pairs_are_found_and_count_as_their_devices_do(name: str) -> None:
    flows = {flow.name: flow for flow in explained(name).flows if flow.point == flow_point(flow)}
    assert set(flows) == set(truth(name)["flows"])
    for each, counted in truth(name)["flows"].items():
        flow = flows[each]
        backs = flow.kinds.get(NAK, 0) + flow.kinds.get(QP_TIMEOUT, 0)
        found = (flow.packets, flow.resent, backs, flow.cnps)
        assert found == tuple(counted[key] for key in ("packets", "resent", "went_back", "cnps")), each
        assert flow.kinds.get(NAK, 0) == counted["naks_heard"], each


def test_a_queue_pairs_timeout_is_a_stall_and_a_nak_is_none() -> None:
    for flow in (each for each in explained("roce_loss").flows if each.point == flow_point(each)):
        causes = [stall.cause for stall in flow.stalls if stall.cause != APPLICATION_IDLE]
        timeouts = flow.kinds.get(QP_TIMEOUT, 0)
        assert causes == ["qp_timeout_not_told"] * timeouts
    assert max(truth("roce_loss")["rounds_s"]) > 0.05


def frames(packets: Packets, resumes: bool) -> int:
    """Pause frames that pause, or resume, every class that they tell."""
    is_pause = np.isin(packets.mac_control, (PAUSE, PFC))
    pausing = packets.pause_quanta.max(axis=1) > 0
    return int((is_pause & (pausing != resumes)).sum())


@pytest.mark.parametrize(
    "port, point", [("leaf1-eth2", "h2-eth0"), ("leaf1-eth3", "h3-eth0"), ("leaf1-eth4", "h4-eth0")]
)
def test_a_switchs_pauses_are_those_that_it_sent(port: str, point: str) -> None:
    sent = truth("pfc_switch")["pauses"][port]
    told = explained("pfc_switch", point)
    (pause,) = told.pauses
    assert (pause.pauses, pause.resumes) == (sent["xoff_sent"] + sent["refresh_sent"], sent["xon_sent"])
    packets = read_capture(capture("pfc_switch", point))
    assert (frames(packets, False), frames(packets, True)) == (pause.pauses, pause.resumes)
    held_s = truth("pfc_switch")["held_s"][point]
    assert pause.total_ns / 1e9 == pytest.approx(held_s, rel=0.05, abs=1e-6)


def test_a_receivers_pause_is_what_its_senders_waited_for() -> None:
    sent = truth("pfc_host")["pauses"]["h1-eth0"]
    told = explained("pfc_host", "leaf1-eth1")
    (pause,) = told.pauses
    assert (pause.pauses, pause.resumes) == (sent["xoff_sent"] + sent["refresh_sent"], sent["xon_sent"])
    assert pause.total_ns / 1e9 == pytest.approx(truth("pfc_host")["held_s"]["leaf1-eth1"], rel=0.01)
    joined = explained("pfc_host")
    assert any("pause" in finding.text and "60 ms" in finding.text for finding in joined.findings)
    for flow in joined.flows:
        assert flow.resent == truth("pfc_host")["resent"][flow.name] == 0
        assert all(stall.cause == PAUSED or stall.confidence != CERTAIN for stall in waits(flow))


# --- forms


def columns_that_differ(ours: Packets, theirs: Packets, apart: tuple[str, ...] = ()) -> list[str]:
    names = [name for name in vars(ours) if isinstance(getattr(ours, name), np.ndarray) and name not in apart]
    return [name for name in names if not np.array_equal(getattr(ours, name), getattr(theirs, name))]


@pytest.mark.parametrize("form", ["pcapng", "big_endian.pcap", "big_endian.pcapng", "pcap.zst"])
def test_a_capture_is_the_same_in_every_form(form: str) -> None:
    original = read_capture(capture("tail_loss", "h2-eth0"))
    assert not columns_that_differ(read_capture(GOLDEN / "forms" / f"tail_loss.{form}"), original)


def test_a_capture_in_microseconds_differs_in_its_times_alone() -> None:
    original, coarse = (
        read_capture(capture("tail_loss", "h2-eth0")),
        read_capture(GOLDEN / "forms" / "tail_loss.microseconds.pcap"),
    )
    assert columns_that_differ(coarse, original) == ["time_ns"]
    assert np.array_equal(coarse.time_ns, original.time_ns // 1000 * 1000)


def test_raw_packets_lack_their_link_layer_alone() -> None:
    original, raw = read_capture(capture("tail_loss", "h2-eth0")), read_capture(GOLDEN / "forms" / "tail_loss.raw.pcap")
    assert columns_that_differ(raw, original) == ["wire_bytes", "captured_bytes", "src_mac"]


def test_cooked_frames_are_the_same_in_pcapng() -> None:
    assert not columns_that_differ(
        read_capture(GOLDEN / "forms" / "any_sll2.pcapng"), read_capture(capture("any_sll2", "h2-eth0"))
    )


def test_two_interfaces_of_one_file_are_told_apart() -> None:
    both = read_capture(GOLDEN / "forms" / "tail_loss_and_rack.pcapng")
    for number, name in enumerate(("tail_loss", "rack")):
        original = read_capture(capture(name, "h2-eth0"))
        part = both.select(both.interface == number)
        assert columns_that_differ(part, original, ("number", "interface")) == []


def test_a_vlan_tag_is_read_and_changes_nothing_else() -> None:
    packets = read_capture(capture("vlan", "trunk0"))
    assert set(packets.vlan.tolist()) == {truth("vlan")["vlan"]}
    flow = flow_of("vlan", "trunk0")
    assert flow.delivered_bytes == truth("vlan")["delivered_bytes"]
    assert truth("vlan")["cause"] == TAIL
    assert not [
        stall for stall in waits(flow) if stall.confidence == CERTAIN and stall.cause not in (TAIL, "rto_unknown")
    ]


def test_ipv6_is_read_as_ipv4_is() -> None:
    packets = read_capture(capture("ipv6", "h2-eth0"))
    assert int((packets.ip_version == 6).sum()) > 80
    assert flow_of("ipv6").source == "[fd00::2]:20000"


# --- the captures themselves


@pytest.mark.parametrize("name", ALL)
def test_captures_have_lost_nothing_themselves(name: str) -> None:
    for point in points(name):
        packets = read_capture(capture(name, point))
        assert len(packets)
        assert packets.damage == type(packets.damage)()
    assert not any(case(name).get("sources", {}).get("capture_lost", {}).values())


def test_every_cause_that_a_case_names_exists() -> None:
    assert {truth(name)["cause"] for name in ALL if truth(name).get("cause")} <= set(CAUSES)


def test_all_of_it_is_small() -> None:
    assert sum(path.stat().st_size for path in GOLDEN.rglob("*.*") if path.is_file()) < 3 << 20
