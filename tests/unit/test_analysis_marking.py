"""The marking curve: the queue that each packet found, to the byte, and the shares of marks beside the curve."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from analysis.figures.confidence import wilson
from analysis.figures.marked_packets import Curve, Joined, curve, joined, trouble
from analysis.figures.marking import binned, marking
from analysis.figures.style import Skipped
from analysis.run import Run
from tests.unit.artists import points
from tests.unit.frames import Capture, pcap_bytes
from tests.unit.test_analysis_run import make_run

FRAME = 1066  # bytes of the hand-made packets on the wire
DELAY_US = 1.5  # link and switch of the spec
ECT0, CE = 2, 3


def marked(capture: Capture, ecns: list[int]) -> list[tuple[int, bytes]]:
    """The records with the ECN field of each packet set, and IP's ID counted up."""
    records = []
    for number, ((time_ns, frame), ecn) in enumerate(zip(capture.records, ecns)):
        changed = bytearray(frame)
        changed[15] = ecn
        changed[18:20] = struct.pack(">H", number)
        records.append((time_ns, bytes(changed)))
    return records


def marking_run(path: Path, arrivals_us: list[float], leaves_us: list[float | None], ecns: list[int]) -> Run:
    """Packets of one sender: when each comes to the port, when it leaves it (None: dropped), and its ECN field then."""
    spec = {"senders": 1, "queue": "dctcp", "kmin": "2KB", "kmax": "2KB", "cc": "dctcp"}
    make_run(path, spec, {"flows": [{
        "flow": "h2", "sender": "h2", "receiver": "h1", "source": "10.0.0.2:20002", "destination": "10.0.0.1:5000",
    }]})  # fmt: skip
    sent, left = Capture("10.0.0.2:20002"), Capture("10.0.0.2:20002")
    for number, (at_us, gone_us) in enumerate(zip(arrivals_us, leaves_us)):
        sent.send(at_us - DELAY_US, 1000 * number)
        left.send(0 if gone_us is None else gone_us, 1000 * number)
    passed = [record for record, gone in zip(marked(left, ecns), leaves_us) if gone is not None]
    (path / "pcap" / "h2-eth0.pcap").write_bytes(pcap_bytes(marked(sent, [ECT0] * len(ecns))))
    (path / "pcap" / "leaf1-eth1.pcap").write_bytes(pcap_bytes(passed))
    return Run(path)


def test_a_packet_finds_what_came_before_it_and_has_not_left(tmp_path: Path) -> None:
    arrivals = [10.0, 10.1, 10.2, 10.3, 20.0]
    leaves = [10.15, 10.4, None, 10.6, 20.1]  # the third is dropped, the last finds the queue empty
    run = marking_run(tmp_path / "run", arrivals, leaves, [ECT0, ECT0, CE, CE, ECT0])
    assert trouble(run) == ""
    found = joined(run)
    assert found.queue_bytes.tolist() == [0, FRAME, FRAME, 0]
    assert found.is_marked.tolist() == [False, False, True, False]


def test_what_leaves_when_a_packet_joins_has_left(tmp_path: Path) -> None:
    run = marking_run(tmp_path / "run", [10.0, 10.5], [10.5, 10.6], [ECT0, ECT0])
    assert joined(run).queue_bytes.tolist() == [0, 0]


def test_of_a_packet_that_was_sent_again_the_copy_that_can_have_come_counts(tmp_path: Path) -> None:
    run = marking_run(tmp_path / "run", [10.0], [10.1], [ECT0])
    sent = Capture("10.0.0.2:20002").send(10.0 - DELAY_US, 0).send(500.0, 0)
    records = [(time_ns, frame) for time_ns, frame in sent.records]
    changed = [
        (time_ns, frame[:15] + bytes([ECT0]) + frame[16:18] + b"\0\0" + frame[20:]) for time_ns, frame in records
    ]
    (run.path / "pcap" / "h2-eth0.pcap").write_bytes(pcap_bytes(changed))
    assert joined(Run(run.path)).queue_bytes.tolist() == [0]


def test_packets_that_cannot_be_marked_do_not_count(tmp_path: Path) -> None:
    run = marking_run(tmp_path / "run", [10.0, 10.1], [10.2, 10.3], [0, CE])
    assert joined(run).is_marked.tolist() == [True]


def test_the_configured_curve() -> None:
    line = Curve(100, 300, 0.5)
    assert line.probability(np.array([0, 100, 200, 300, 301])).tolist() == [0, 0, 0.25, 0.5, 1]
    step = Curve(100, 100, 1.0)
    assert step.probability(np.array([100, 101])).tolist() == [0, 1]


def test_bins_end_at_the_corners_of_the_curve_and_hold_every_packet() -> None:
    dice = np.random.default_rng(7)
    queue = dice.integers(0, 400_000, 20_000)
    asked = Curve(50_000, 200_000, 0.2)
    packets = Joined(queue, dice.random(20_000) < asked.probability(queue))
    bins = binned(packets, asked)
    assert sum(each.packets for each in bins) == 20_000
    assert sum(each.marked for each in bins) == packets.is_marked.sum()
    assert {50_000, 200_000} <= {each.end_bytes for each in bins}
    inside = [wilson(each.marked, each.packets) for each in bins]
    expected = [float(asked.probability(np.array([each.mean_bytes]))[0]) for each in bins]
    assert np.mean([low - 1e-9 <= value <= high + 1e-9 for (low, high), value in zip(inside, expected)]) > 0.8


def test_a_queue_of_just_kmin_is_not_above_it() -> None:
    bins = binned(Joined(np.array([1000, 1001]), np.array([False, True])), Curve(1000, 1000, 1.0))
    assert [each.share for each in bins] == [0.0, 1.0]


def test_the_figure_shows_the_shares(tmp_path: Path) -> None:
    arrivals = [10 + 0.01 * number for number in range(8)]
    leaves: list[float | None] = [20 + 0.1 * number for number in range(8)]
    run = marking_run(tmp_path / "run", arrivals, leaves, [ECT0, ECT0, CE, CE, CE, CE, CE, ECT0])
    figure, title, caption = marking(run)
    assert title == "dctcp marks 0 % of packets up to 2 KB, 83.3 % above"
    seen = points(figure.axes[0].containers[0].get_children()[0])
    packets = joined(run)
    bins = binned(packets, Curve(2000, 2000, 1.0))
    assert seen == [[each.mean_bytes / 1e3, 100 * each.share] for each in bins]
    assert packets.queue_bytes.tolist() == [number * FRAME for number in range(8)]
    assert [each.share for each in bins if each.end_bytes <= 2000] == [0.0] * 2
    assert "Wilson" in caption


def test_a_low_line_has_a_panel_of_its_own(tmp_path: Path) -> None:
    run = marking_run(tmp_path / "run", [10.0, 10.1], [10.2, 10.3], [ECT0, ECT0])
    text = (run.path / "spec.yaml").read_text()
    spec = text.replace('queue: "dctcp"', 'queue: "dcqcn"').replace('kmax: "2KB"', 'kmax: "9KB"')
    (run.path / "spec.yaml").write_text(spec.replace('pmax: "auto"', "pmax: 0.01"))
    run = Run(run.path)
    assert curve(run) == Curve(2000, 9000, 0.01)
    figure, _, caption = marking(run)
    assert len([axes for axes in figure.axes if axes.axison]) == 2
    assert caption.endswith("the longest queue on the line.")


def test_without_captures_or_marking_it_says_so(tmp_path: Path) -> None:
    run = marking_run(tmp_path / "run", [10.0], [10.1], [ECT0])
    (run.path / "pcap" / "h2-eth0.pcap").unlink()
    with pytest.raises(Skipped, match="no capture of h2-eth0"):
        marking(Run(run.path))
    with pytest.raises(Skipped, match="the hot port marks nothing"):
        marking(make_run(tmp_path / "plain"))
