"""What a person reads first: the sentences, their order, how sure they are; and one capture from file to sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.capture.packets import Damage
from analysis.explain.causes import CAUSES
from analysis.explain.explain import explain
from analysis.explain.findings import findings
from analysis.explain.model import CERTAIN, LIKELY, UNSURE, Explanation, FlowStory, Hop, Point
from analysis.explain.reasons import NEVER_WENT_ON, NOT_LOST, STRAGGLER
from analysis.transport.stalls import APPLICATION_IDLE, DELAYED_ACK, FULL_WINDOW, TAIL, UNEXPLAINED
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN, Evidence, Verdict
from tests.unit.frames import T0_NS
from tests.unit.silent import Line, at_ms, back_to_back, stall, story


def point(**more: Any) -> Point:
    return Point("a.pcap", "a", 100, 100, 0, 0, 0, 0, 9000, T0_NS, T0_NS + 10**9, more.pop("damage", Damage()))


def explanation(*flows: FlowStory, **more: Any) -> Explanation:
    told = {"points": (point(),), "hops": (), "pauses": (), "verdicts": (), "findings": ()}
    return Explanation(**{**told, "flows": flows, **dict.fromkeys(("lost_share", "onset_ns", "fill_s")), **more})


def texts(*flows: FlowStory, **more: Any) -> list[str]:
    return [finding.text for finding in findings(explanation(*flows, **more))]


def verdict(answer: str) -> Verdict:
    goodput = Evidence("goodput", None, 4e11, 6.45e8, "b/s", "at most 0.5 of the link's rate", True, "data")
    senders = Evidence("senders at once", None, None, 2, "hosts", "at least 2", True, "flows")
    cpu = Evidence("CPU kept up", None, None, None, "", "always", None, "nothing tells")
    return Verdict("incast", answer, (senders, goodput, cpu))


def test_why_most_flows_stood_still_in_plain_words() -> None:
    flows = [story(host, [(0, 210)], *([stall(host, 5, 205)] if host < 9 else [])) for host in range(2, 10)]
    (first, *_) = findings(explanation(*flows))
    assert first.text == (
        "7 of 8 flows stood still for 200 ms each time, 7 times, because the last packets of their blocks were lost: "
        "nothing came after them to tell the receiver, so that only the sender's timer could find out."
    )
    assert (first.confidence, first.because) == (CERTAIN, "The longest, of h2: nothing came.")


def test_the_cause_that_cost_most_comes_first_and_ranges_are_told() -> None:
    flow = story(2, [(0, 900)], stall(2, 5, 45, DELAYED_ACK), stall(2, 100, 300), stall(2, 400, 800))
    told = texts(flow)
    assert told[0].startswith("The flow stood still 2 times, for 200 ms to 400 ms, because the last packets")
    assert told[1].startswith("The flow stood still for 40 ms because the receiver held its acknowledgement back")


def test_the_least_sure_stall_of_a_cause_decides() -> None:
    flow = story(2, [(0, 900)], stall(2, 100, 300), stall(2, 400, 600, TAIL, LIKELY))
    assert findings(explanation(flow))[0].confidence == LIKELY


@pytest.mark.parametrize("cause", [each for each in CAUSES if each not in (*NOT_LOST, UNEXPLAINED)])
def test_every_cause_of_lost_time_has_a_sentence(cause: str) -> None:
    assert "stood still" in texts(story(2, [(0, 900)], stall(2, 100, 300, cause)))[0] or cause == NEVER_WENT_ON


def test_a_flow_that_never_went_on_comes_before_all(tmp_path: Path) -> None:
    flows = [story(2, [(0, 900)], stall(2, 100, 900)), story(3, [(0, None)], stall(3, 5, 9, NEVER_WENT_ON, UNSURE))]
    assert texts(*flows)[0] == "1 of 2 flows stopped and never went on before the capture ended."


@pytest.mark.parametrize(
    ("answer", "begin", "sure"),
    [
        (COLLAPSE, "Incast collapse: ", CERTAIN),
        ("incast collapse, likely", "Incast collapse: ", LIKELY),
        (NO_COLLAPSE, "No incast collapse: ", CERTAIN),
        (NOT_PROVEN, "Whether this is incast collapse is not proven: ", UNSURE),
    ],
)
def test_the_verdict_comes_first(answer: str, begin: str, sure: str) -> None:
    flows = [story(2, [(0, 210)], stall(2, 5, 205)), story(3, [(0, 5)])]
    first = findings(explanation(*flows, verdicts=(verdict(answer),)))[0]
    scene = "2 hosts sent to 10.0.0.1 at once, and 645 Mb/s arrived where the link carries 400 Gb/s."
    assert (first.text, first.confidence) == (begin + scene, sure)


def test_a_verdict_says_what_it_rests_on_and_what_is_not_known() -> None:
    flows = [story(2, [(0, 210)], stall(2, 5, 205)), story(3, [(0, 5)])]
    first = findings(explanation(*flows, verdicts=(verdict("incast collapse, likely"),)))[0]
    assert first.because == "Evidence: senders at once: 2. Not known: nothing tells."


def test_time_lost_in_minutes_of_an_hour_and_who_waited() -> None:
    slow = story(2, [(0, 60), (61, 70)], stall(2, 10, 50))
    quick = [story(host, [(0, 5), (61, 70)], stall(host, 5, 61, STRAGGLER, LIKELY)) for host in (3, 4)]
    told = texts(slow, *quick, lost_share=2 / 3)
    assert "Of the time in which there was work to do, 66.7% was lost standing still: 40 minutes of an hour." in told
    assert "2 flows that had done their part waited 2 times, 112 ms in all, for the slowest of the round: h2." in told


def test_losses_between_points_with_the_time_that_the_queue_took_to_fill() -> None:
    none = np.zeros(0, np.int64)
    lost = Hop("h2", "h2-eth0", "leaf1-eth1", 9, 1, 1, 1, np.arange(3), np.arange(3), 0, True, none, none)
    told = texts(story(2, [(0, 60)]), hops=(lost,), fill_s=1.05e-5)
    assert (
        "3 packets were lost on the way to leaf1-eth1; the first burst had filled the queue 10.5 µs after it began."
        in told
    )


def test_losses_before_the_only_point() -> None:
    assert "1 packet came to h2-eth0 only when sent again: lost, or overtaken, before this point." in texts(
        story(2, [(0, 60)], upstream_losses=1)
    )


def test_marks_that_nobody_heeds() -> None:
    told = texts(story(2, [(0, 60)], packets=1000, ce=400))
    assert (
        "400 of 1,000 packets were marked for congestion instead of dropped, and no receiver told its sender." in told
    )
    assert any(
        "; 7 answers told the senders." in text for text in texts(story(2, [(0, 60)], packets=1000, ce=400, ece=7))
    )
    assert not any("marked" in text for text in texts(story(2, [(0, 60)], packets=10_000, ce=3)))


def test_repetitions_that_were_needless() -> None:
    again = replace(story(2, [(0, 1)]).repeats, time_ns=np.arange(4))
    told = texts(story(2, [(0, 60)], repeats=again, spurious=3))
    assert "3 of 4 repetitions were needless: the first sending had arrived." in told


def test_what_is_not_known_is_said_as_such() -> None:
    unsure = stall(2, 100, 300, APPLICATION_IDLE, UNSURE)
    told = findings(explanation(story(2, [(0, 900)], unsure)))
    assert [(each.text, each.confidence) for each in told if "cannot be explained" in each.text] == [
        ("1 silence of 200 ms in all cannot be explained from these captures.", UNSURE)
    ]


def test_damage_of_a_capture_is_told() -> None:
    hurt = point(damage=Damage(truncated=True, backwards=2))
    told = texts(story(2, [(0, 60)]), points=(hurt,))
    assert "a is not whole: the file ends inside a packet; 2 packets earlier than the one before." in told


def test_nothing_stood_still_and_nothing_was_found() -> None:
    assert texts(story(2, [(0, 60)]), story(3, [(0, 60)])) == ["None of 2 flows stood still with work to do."]
    assert texts(story(2, [(0, 60)])) == ["The flow never stood still with work to do."]
    assert texts() == ["No flow with data was found in 100 packets."]


def test_from_a_file_to_the_sentence(tmp_path: Path) -> None:
    """Three senders' captures: two lose the ends of their blocks, and wait for their timers."""
    paths = []
    for host in (2, 3, 4):
        line = back_to_back(4, Line(f"10.0.0.{host}:20000"))
        for place in range(4, 8):
            line.send(22 + place / 10, 1000 * place)
        line.ack(42, 5000)
        if host < 4:
            line.send(201_100, 5000).ack(201_120, 6000).send(201_121, 6000).send(201_122, 7000).ack(201_142, 8000)
        else:
            line.ack(42.4, 8000)
        paths.append(line.write(tmp_path / f"sender{host}.pcap"))
    told = explain(paths)
    assert [each.cause for each in told.stalls] == [TAIL] * 2
    assert told.findings[1].text.startswith("2 of 3 flows stood still for 201 ms each time, 2 times, because")
    assert told.lost_share == pytest.approx(0.9997, abs=0.0005)
    assert told.onset_ns == at_ms(0.0424)


def test_a_hot_port_alone_to_the_sentence(tmp_path: Path) -> None:
    """The same at the port: packets that never came there."""
    whole = Line("10.0.0.2:20000")
    for host in (2, 3):
        line = back_to_back(6, Line(f"10.0.0.{host}:20000"))
        line.lose(3).send(201_100, 6000).ack(201_120, 7000)
        for place in range(7, 15):
            line.send(201_121 + place / 10, 1000 * place)
        whole.records += line.ack(201_150, 15_000).records
    whole.records.sort()
    told = explain([whole.write(tmp_path / "port.pcap")])
    assert [each.cause for each in told.stalls] == [FULL_WINDOW] * 2
    assert {each.confidence for each in told.stalls} == {LIKELY}
