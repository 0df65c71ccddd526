"""Incast runs over RoCE and with PFC and DCQCN, made by hand: the verdict's own evidence, the keys of the summary, what
a lossless class lost, and the figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from analysis import summarize
from analysis.figures.incast import thresholds
from analysis.kinds import kind_of
from analysis.kinds.incast import headline, sections
from analysis.measures import marking_bytes, peers
from analysis.pages.run_page import draw_all, page, write_report
from analysis.run import Run
from analysis.transport.stalls import NOT_TOLD
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN, incast_verdict, lossless_drops
from tests.unit.frames import T0_NS
from tests.unit.roce_capture import PAYLOAD_BYTES, RoceCapture
from tests.unit.test_analysis_kinds import fabric_json
from tests.unit.test_analysis_run import evidence, make_run, measured

TIMEOUT_US = 67_200
END_US = TIMEOUT_US + 100
ROCE: dict[str, Any] = {
    "transport": "roce", "roce_mtu": "1KiB", "verb": "write", "mtu": "1500B", "bytes": "6KiB", "cc": "none", "sack":
    "auto", "tlp": "auto", "rack": "auto", "rto_min": "auto", "traffic_class": "lossless", "pfc": "off",
}  # fmt: skip
PFC: dict[str, Any] = {
    "pfc": "on", "traffic_class": "lossless", "xoff": "2KB", "xon": "1KB", "headroom": "1KB", "xoff_at": "ingress",
    "pause": "switch",
}  # fmt: skip
DCQCN: dict[str, Any] = {
    "queue": "dcqcn", "cc": "dcqcn", "kmin": "1KB", "kmax": "2KB", "pmax": 0.01, "marking": "switch",
}  # fmt: skip
COUNTERS = {
    "h1": {"sent_pkts": 40, "out_of_seq_request": 1},
    "h2": {"sent_pkts": 6},
    "h3": {"sent_pkts": 12, "completer_retry_err": 2},
}


def queue_pair(host: int) -> dict[str, Any]:
    name = f"h{host}>h1"
    ends = {"source": f"10.0.0.{host}:17", "destination": "10.0.0.1:18"}
    return {"flow": name, "sender": f"h{host}", "receiver": "h1", **ends, "roce": {"sender_psn": 6}}


def lossless_port(drops: int, hot: bool, **counters: int) -> dict[str, Any]:
    stack = [{"kind": kind, "drops": drops} for kind in ("netem", "tbf", "prio")]
    return {"peer": "h1", "hot": hot, "qdiscs": [*stack, {"kind": "pfc", "drops": drops, **counters}]}


def facts(drops: int = 2, **more: Any) -> dict[str, Any]:
    """h3 loses a packet, goes back for a NAK, loses its end, and waits for its timeout."""
    ports = {"leaf1-eth1": lossless_port(drops, hot=True), "leaf1-eth2": lossless_port(0, hot=False, xoffs=3)}
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + END_US * 1000, "bytes": 12 * PAYLOAD_BYTES}]
    flows = [queue_pair(2), queue_pair(3)]
    nics = {"h2": {"qdiscs": [{"kind": "rnic", "drops": 0, "held_ns": 5000}]}}
    return {**measured(), "flows": flows, "rounds": rounds, "roce": COUNTERS, "ports": ports, "nics": nics, **more}


def captures() -> dict[str, RoceCapture]:
    whole = RoceCapture("10.0.0.2").send(0, 0, 1, 2, 3, 4, 5).ack(20, 5)
    stalled = RoceCapture("10.0.0.3").send(0, 0, 1, 2, 3, 4, 5).ack(20, 1).nak(20.1, 2).send(21, 2, 3, 4, 5).ack(41, 3)
    stalled.send(41 + TIMEOUT_US, 4, 5).ack(61 + TIMEOUT_US, 5)
    hot = RoceCapture("10.0.0.3").send(2, 0, 1, 2, 3).send(43 + TIMEOUT_US, 4, 5)
    return {"h2-eth0": whole, "h3-eth0": stalled, "leaf1-eth1": hot}


def roce_run(path: Path, spec: dict[str, Any] | None = None, told: dict[str, Any] | None = None) -> Run:
    """A run over RoCE; by default tail drop that collapses."""
    run = make_run(path, {**ROCE, **(spec or {})}, told or facts())
    for point, capture in captures().items():
        capture.write(path / "pcap" / f"{point}.pcap")
    return run


def fast(**more: Any) -> dict[str, Any]:
    """A round as fast as can be, in which nothing is lost."""
    return facts(0, rounds=[{"start_ns": T0_NS, "end_ns": T0_NS + 4000, "bytes": 12 * PAYLOAD_BYTES}], **more)


def write_log(path: Path, name: str, columns: dict[str, Any]) -> None:
    (path / "telemetry").mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path / "telemetry" / f"{name}.parquet")


def write_pauses(path: Path, events: Sequence[tuple[int, str, str]]) -> None:
    """Events as (ns since the round began, port, event)."""
    times, ports, names = ([event[place] for event in events] for place in range(3))
    columns = {"time_ns": [T0_NS + int(time) for time in times], "port": ports, "event": names}
    write_log(path, "pauses", {**columns, "value": [9] * len(events)})


def write_rates(path: Path, changes: Sequence[tuple[int, str, str, int, float]]) -> None:
    """Changes as (ns since the round began, queue pair, event, rate, alpha)."""
    names = ("time_ns", "queue_pair", "event", "rate_bps", "alpha")
    columns = {name: [change[place] for change in changes] for place, name in enumerate(names)}
    columns["time_ns"] = [T0_NS + time for time, *_ in changes]
    write_log(path, "dcqcn", {**columns, "target_bps": [10**9] * len(changes)})


PAUSES = (
    (100, "leaf1-eth2", "xoff_sent"),
    (600, "h2-eth0", "held"),
    (700, "leaf1-eth3", "xoff_sent"),
    (1000, "leaf1-eth2", "refresh_sent"),
    (1200, "h3-eth0", "held"),
    (1500, "h2-eth0", "released"),
    (2200, "h3-eth0", "expired"),
)
RATES = (
    (500, "h2>h1", "cnp_sent", 0, 0.0),
    (900, "h2>h1", "cnp_received", 200 * 10**9, 1.0),
    (1500, "h2>h1", "rate", 300 * 10**9, 0.9),
    (600, "h3>h1", "cnp_sent", 0, 0.0),
    (1000, "h3>h1", "cnp_received", 100 * 10**9, 1.0),
)


# --- the verdict


def test_roce_that_drops_collapses_by_its_own_evidence(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run")
    verdict = incast_verdict(run)
    assert verdict.verdict == COLLAPSE
    assert evidence(verdict) == {
        "goodput": True,
        "queue pairs' timeouts": True,
        "drops at the hot port": True,
        "flows that went back": True,
        "idle link": True,
        "CPU kept up": True,
    }
    told = {piece.name: piece for piece in verdict.evidence}
    assert told["queue pairs' timeouts"].measured == 1
    assert told["flows that went back"].measured == 2
    assert told["flows that went back"].tolerance.endswith("6 packets sent again, after 1 NAK and 1 timeout")
    assert told["idle link"].measured == pytest.approx((TIMEOUT_US + 40.7) / 1e6)
    assert told["idle link"].configured == pytest.approx(0.0671, abs=1e-4)
    assert [(stall.flow, stall.cause) for stall in run.stalls] == [("h3>h1", NOT_TOLD)]


def test_fast_rounds_over_roce_are_no_collapse(tmp_path: Path) -> None:
    assert incast_verdict(roce_run(tmp_path / "run", told=fast())).verdict == NO_COLLAPSE


def test_going_back_without_a_timeout_proves_no_collapse(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run")
    RoceCapture("10.0.0.3").send(0, 0, 1, 2).nak(20, 1).send(21, 1, 2).write(run.path / "pcap" / "h3-eth0.pcap")
    verdict = incast_verdict(Run(run.path))
    assert verdict.verdict == NOT_PROVEN
    assert evidence(verdict)["queue pairs' timeouts"] is False
    assert evidence(verdict)["flows that went back"] is True


def test_without_captures_soft_roces_counters_tell_a_lower_bound(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run")
    for capture in (run.path / "pcap").iterdir():
        capture.unlink()
    told = {piece.name: piece for piece in incast_verdict(run).evidence}
    timeouts = told["queue pairs' timeouts"]
    source = "soft-RoCE counters completer_retry_err less out_of_seq_request"
    assert (timeouts.measured, timeouts.source) == (1, source)
    assert (told["flows that went back"].measured, told["flows that went back"].holds) == (2, True)
    assert summarize(run)["retransmits"] == 6


@pytest.mark.parametrize(
    ("naks", "went_back", "timeouts"), [(0, 0, 0), (2, 0, 0), (2, 2, None), (3, 2, None), (1, 3, 2)]
)
def test_goes_back_that_naks_may_explain_tell_of_no_timeout(
    tmp_path: Path, naks: int, went_back: int, timeouts: int | None
) -> None:
    counters = {"h1": {"out_of_seq_request": naks}, "h3": {"completer_retry_err": went_back}}
    run = roce_run(tmp_path / "run", told=facts(roce=counters))
    for capture in (run.path / "pcap").iterdir():
        capture.unlink()
    assert summarize(run)["timeouts"] == timeouts
    assert evidence(incast_verdict(run))["queue pairs' timeouts"] is (None if timeouts is None else timeouts > 0)


def test_without_captures_and_counters_nothing_is_proven(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run", told=facts(roce=None))
    for capture in (run.path / "pcap").iterdir():
        capture.unlink()
    verdict = incast_verdict(run)
    assert verdict.verdict == NOT_PROVEN
    assert verdict.missing.count("no sender captures and no soft-RoCE counters") == 2


@pytest.mark.parametrize(("gap_us", "holds"), [(30_000, False), (40_000, True), (80_000, True), (90_000, False)])
def test_the_link_must_be_idle_for_about_a_queue_pairs_timeout(tmp_path: Path, gap_us: int, holds: bool) -> None:
    run = roce_run(tmp_path / "run", told=facts(rounds=[{"start_ns": T0_NS, "end_ns": T0_NS + 10**8, "bytes": 9}]))
    hot = RoceCapture("10.0.0.3").send(0, 0)
    for number in range(1, 100_000 // 10_000):
        at_us = 10_000 * number
        hot = hot if at_us < gap_us else hot.send(at_us, number)
    hot.write(run.path / "pcap" / "leaf1-eth1.pcap")
    assert evidence(incast_verdict(Run(run.path)))["idle link"] is holds


# --- the summary


def test_the_keys_of_a_run_over_roce(tmp_path: Path) -> None:
    summary = summarize(roce_run(tmp_path / "run"))
    assert (summary["packets"], summary["retransmits"], summary["timeouts"], summary["drops"]) == (18, 6, 1, 2)
    assert (summary["cnps"], summary["pfc_pauses"], summary["pfc_paused_s"]) == (None, None, None)
    assert summary["lossless_drops"] is None
    assert {match["counter"]: match["agrees"] for match in summary["kernel_counters"]} == {
        "sent_pkts": True,
        "out_of_seq_request": True,
        "completer_retry_err": True,
    }


def test_the_round_without_loss_counts_roces_headers(tmp_path: Path) -> None:
    """6 KiB of each of 2: a WRITE of 6 packets, 58 B of headers on each, 16 B of RETH on the first."""
    block = 6 * 1024 + 6 * (14 + 20 + 8 + 12 + 4) + 16
    expected_s = 8 * (2 * block + 1024 + 58) / 400e9 + 2.5e-6
    assert summarize(roce_run(tmp_path / "run"))["ideal_seconds"] == pytest.approx(expected_s)
    without_reth = 8 * (2 * (block - 16) + 1024 + 58) / 400e9 + 2.5e-6
    sends = roce_run(tmp_path / "send", {"verb": "send"})
    assert sends.parameters.ideal_seconds == pytest.approx(without_reth)


def test_pauses_and_notifications_are_those_of_the_records(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run", {**PFC, **DCQCN}, fast())
    write_pauses(run.path, PAUSES)
    write_rates(run.path, RATES)
    summary = summarize(run)
    assert (summary["cnps"], summary["pfc_pauses"]) == (2, 2)
    assert summary["pfc_paused_s"] == pytest.approx(900e-9 + 1000e-9)
    assert summary["missing"] == []
    (row,) = summary["comparison"]
    assert (row["transport"], row["cure"], row["scheme"]) == ("roce", "PFC + dcqcn", "RoCE PFC + dcqcn")
    assert (row["cnps"], row["pfc_pauses"], row["queue_max_bytes"], row["queue_p99_bytes"]) == (2, 2, 3000, 3000)


def test_marks_of_a_controllers_rules_are_those_that_left_the_hot_port(tmp_path: Path) -> None:
    spec = {**DCQCN, "marking": "controller"}
    run = roce_run(tmp_path / "run", spec)
    assert summarize(run)["ecn_marks"] == 0
    hot = RoceCapture("10.0.0.3").send(2, 0, 1).mark().send(3, 2)
    hot.write(run.path / "pcap" / "leaf1-eth1.pcap")
    assert summarize(Run(run.path))["ecn_marks"] == 2
    (run.path / "pcap" / "leaf1-eth1.pcap").unlink()
    assert summarize(Run(run.path))["ecn_marks"] is None


def test_without_records_the_queues_counters_tell_of_pauses(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run", PFC, fast())
    summary = summarize(run)
    assert (summary["pfc_pauses"], summary["pfc_paused_s"]) == (
        3,
        pytest.approx(4e-6),
    )  # a queue is held no longer than the round lasts
    assert summary["missing"] == [
        f"{run.path}/telemetry/pauses.parquet: not found; allowed: a Parquet file of pause events"
    ]


@pytest.mark.parametrize(
    ("spec", "scheme"),
    [
        ({}, "droptail"),
        ({"rto_min": "1ms"}, "droptail, RTOmin 1ms"),
        (PFC, "PFC"),
        ({**PFC, "queue": "dctcp"}, "PFC + dctcp"),
        (ROCE, "RoCE droptail"),
        ({**ROCE, **PFC}, "RoCE PFC"),
        ({**ROCE, **DCQCN}, "RoCE dcqcn"),
        ({**ROCE, **DCQCN, "cc": "none"}, "RoCE dcqcn, no rate control"),
        ({**ROCE, **PFC, **DCQCN, "marking": "controller"}, "RoCE PFC + dcqcn, marks by controller"),
        ({**ROCE, **PFC, "pause": "controller"}, "RoCE PFC, pauses by controller"),
    ],
)
def test_every_cure_has_a_name(tmp_path: Path, spec: dict[str, Any], scheme: str) -> None:
    assert make_run(tmp_path / "run", spec).parameters.scheme == scheme


# --- a lossless class that was none


def test_a_lossless_class_that_lost_packets_is_called_out(tmp_path: Path) -> None:
    loud = "lossless class lost 3 packets: headroom too small"
    run = roce_run(tmp_path / "run", PFC, facts(3))
    assert lossless_drops(run) == 3
    assert headline(run).startswith(loud)
    html = page(run, [])
    assert f"<h1>{loud}" in html
    assert f'<p class="bad">main: {loud}.</p>' in html


def test_a_case_whose_lossless_class_lost_packets_is_called_out_too(tmp_path: Path) -> None:
    roce_run(tmp_path / "run" / "cases" / "roce_pfc", {**PFC, "label": "roce_pfc"}, facts(1))
    run = roce_run(tmp_path / "run")
    assert "lossless class" not in headline(run)
    assert "roce_pfc: lossless class lost 1 packet: headroom too small." in sections(run)


def test_what_a_watchdog_discards_is_no_lack_of_headroom(tmp_path: Path) -> None:
    ports = {"leaf1-eth1": lossless_port(5, hot=True, discards=5)}
    run = roce_run(tmp_path / "run", PFC, facts(ports=ports))
    assert lossless_drops(run) == 0
    assert "headroom too small" not in page(run, [])


def test_what_a_watchdog_discards_is_no_incast_collapse(tmp_path: Path) -> None:
    ports = {"leaf1-eth1": lossless_port(5, hot=True, discards=5)}
    run = roce_run(tmp_path / "run", {**PFC, "pfc_watchdog": "500us"}, facts(ports=ports))
    told = incast_verdict(run)
    assert (told.verdict, evidence(told)["drops at the hot port"]) == (NOT_PROVEN, False)
    piece = next(piece for piece in told.evidence if piece.name == "drops at the hot port")
    assert (piece.measured, piece.tolerance.endswith("a watchdog discarded 5")) == (0, True)
    summary = summarize(run)
    assert (summary["drops"], summary["watchdog_discards_by_port"]) == (5, {"leaf1-eth1": 5})
    assert 'data-head="of them by a watchdog" class="number" data-sort="5">5<' in page(run, [])


def test_a_lab_that_died_tells_of_no_drops(tmp_path: Path) -> None:
    told = {key: value for key, value in fast().items() if key not in ("ports", "nics")}
    run = roce_run(tmp_path / "run", told={**told, "complete": False})
    (run.path / "measured.json").write_text(json.dumps({**told, "complete": False}))
    summary = summarize(run := Run(run.path))
    assert (summary["drops"], summary["ecn_marks"], summary["verdict"]) == (None, None, NOT_PROVEN)
    assert "measured.json has no ports" in incast_verdict(run).missing
    assert "No queue overflowed" not in page(run, [])


def test_one_timeout_is_modelled_only_where_there_was_one(tmp_path: Path) -> None:
    assert "one timeout per round" in sections(roce_run(tmp_path / "late"))
    spared = fast(roce={host: {"sent_pkts": 6} for host in COUNTERS})
    assert "one timeout per round" not in sections(roce_run(tmp_path / "run", {"capture": "hot"}, spared))


def test_a_buffer_behind_pfc_has_no_time_to_fill(tmp_path: Path) -> None:
    assert summarize(roce_run(tmp_path / "tail", {"buffer": "2KB"}))["buffer_fill_s"] is not None
    paused = roce_run(tmp_path / "run", {**PFC, "buffer": "2KB"}, fast())
    assert summarize(paused)["buffer_fill_s"] is None
    assert "buffer full after" not in sections(paused)


def test_drops_without_pfc_are_no_broken_promise(tmp_path: Path) -> None:
    assert lossless_drops(roce_run(tmp_path / "run")) is None


# --- the page


def matrix(path: Path) -> Run:
    """Tail drop over TCP, beside it PFC and DCQCN over RoCE."""
    case = path / "cases" / "roce_pfc_dcqcn"
    roce_run(case, {**PFC, **DCQCN, "label": "roce_pfc_dcqcn"}, fast())
    write_pauses(case, PAUSES)
    write_rates(case, RATES)
    return make_run(path, {"bytes": "6KB"})


def test_every_figure_of_the_matrix_is_drawn(tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in draw_all(matrix(tmp_path / "run"))}
    assert list(figures) == [
        *("queue", "other_queue", "goodput_rounds", "sequence", "goodput_senders", "timeline", "pauses", "rates"),
        *("marking", "tail"),
    ]
    skipped = {name for name, figure in figures.items() if figure.path is None}
    assert skipped == {"goodput_senders", "tail"}
    assert figures["pauses"].title == ("RoCE PFC + dcqcn: 2 pauses of 2 ports; h3-eth0 is held for 25% of the round")
    assert "2 queue pairs cut from 400 Gb/s, at the lowest to 150 Gb/s (median)" in figures["rates"].title
    assert (
        figures["other_queue"].title == "RoCE PFC + dcqcn: The port holds up to 3 KB of the first burst; 1 packet lost"
    )


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, ["XOFF 2 KB, each ingress port", "XON 1 KB, each ingress port"]),
        ({"xoff_at": "egress"}, ["XOFF 2 KB", "XON 1 KB"]),
        ({"alpha": 1.0}, ["XOFF at most 2 KB, each ingress port"]),
        ({"queue": "dctcp", "kmin": "1KB", "kmax": "1KB"}, ["ECN from 1 KB"]),
        (DCQCN, ["ECN from 1 KB", "ECN on all from 2 KB"]),
    ],
)
def test_thresholds_are_named(tmp_path: Path, spec: dict[str, Any], names: list[str]) -> None:
    run = roce_run(tmp_path / "run", {**PFC, **spec}, fast())
    assert [line.name for line in thresholds(run)][: len(names)] == names


def test_marking_thresholds_are_those_that_the_kernel_holds(tmp_path: Path) -> None:
    hot = lossless_port(0, hot=True)
    hot["qdiscs"].append({"kind": "red", "handle": "5:", "options": {"kmin_bytes": 700, "kmax_bytes": 900}})
    run = roce_run(tmp_path / "run", {**PFC, **DCQCN}, fast(ports={"leaf1-eth1": hot}))
    assert marking_bytes(run) == (700, 900)


def test_a_stall_over_roce_is_drawn(tmp_path: Path) -> None:
    figures = {figure.name: figure for figure in draw_all(roce_run(tmp_path / "run"))}
    assert figures["sequence"].title == "h3>h1 is silent for 67.2 ms, then its queue pair's timeout fires"
    assert figures["timeline"].title.startswith("1 stall of 1 flow")


def test_the_page_compares_cures_and_transports(tmp_path: Path) -> None:
    html = write_report(matrix(tmp_path / "run")).read_text()
    assert '<td data-head="cure">PFC + dcqcn</td>' in html
    assert '<td data-head="pauses" class="number" data-sort="2">2</td>' in html
    assert '<td data-head="paused" class="number" data-sort="1.9e-06">1.9 µs</td>' in html
    assert '<td data-head="CNPs" class="number" data-sort="2">2</td>' in html


def test_who_paused_whom_is_told(tmp_path: Path) -> None:
    fabric = fabric_json("leaf_spine", leaves=1, spines=1, hosts_per_leaf=3)
    run = roce_run(tmp_path / "run", PFC, fast())
    write_pauses(run.path, PAUSES)
    (run.path / "fabric.json").write_text(json.dumps(fabric))
    html = sections(Run(run.path))
    assert "<h2>Pauses</h2>" in html
    assert '<td data-head="port held" class="whole">h3-eth0</td><td data-head="paused by">leaf1</td>' in html


def test_peers_of_other_transports_stand_side_by_side(tmp_path: Path) -> None:
    assert [name for name, _ in peers(matrix(tmp_path / "run"))] == ["droptail", "RoCE PFC + dcqcn"]


def test_damaged_records_are_named(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run", {**PFC, **DCQCN}, fast())
    for name in ("pauses", "dcqcn"):
        write_log(run.path, name, {"time_ns": [1]})
    assert [reason.split(": cannot be read as ")[1].split(":")[0] for reason in run.missing] == [
        "pause events",
        "DCQCN events",
    ]
    assert kind_of(run).tiles(run)


def test_an_interrupted_run_over_roce_makes_a_report(tmp_path: Path) -> None:
    run = roce_run(tmp_path / "run", {**PFC, **DCQCN})
    (run.path / "measured.json").write_text('{"format": 1, "complete": false, "rounds": []}')
    html = write_report(Run(run.path)).read_text()
    assert "no round was finished" in html
