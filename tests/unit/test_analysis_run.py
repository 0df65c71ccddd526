"""Run directories, small and made by hand: reading them, what is missing, what is damaged, and the verdict on
them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from analysis.run import Run
from analysis.verdicts import COLLAPSE, NO_COLLAPSE, NOT_PROVEN, Verdict, incast_verdict, port_drops
from tests.unit.frames import T0_NS, Capture, pcap_bytes
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]
RTO_US = 201_000
ROUND_US = RTO_US + 100
SPEC = {
    "experiment": "incast", "label": "main", "topology": "star", "hosts": 3, "rate": "400Gbps", "delay":
    "1us", "switch_delay": "500ns", "buffer": "3KB", "mtu": "1500B", "queue": "droptail", "kmin": "auto",
    "kmax": "auto", "pmax": "auto", "transport": "tcp", "cc": "cubic", "sack": True, "tlp": False, "rack":
    True, "rto_min": "200ms", "senders": 2, "bytes": "6KB", "rounds": 1, "jitter": "0ns", "capture": "all",
    "seed": 1, "clock": "virtual",
}  # fmt: skip


def flow_entry(host: int) -> dict[str, Any]:
    addresses = {"source": f"10.0.0.{host}:{20000 + host}", "destination": "10.0.0.1:5000"}
    return {
        "flow": f"h{host}",
        "sender": f"h{host}",
        "receiver": "h1",
        **addresses,
        "tcp_info": {"data_segs_out": 7},
    }


def port(drops: int, hot: bool) -> dict[str, Any]:
    stack = [{"kind": kind, "drops": drops, "marked": 9} for kind in ("netem", "tbf", "prio", "bfifo")]
    return {
        "peer": "h1",
        "hot": hot,
        "qdiscs": [*stack, {"kind": "red", "drops": 0, "marked": 3 if hot else 0}],
    }


def measured() -> dict[str, Any]:
    """Two senders, one round; h3 loses its tail and its timeout fires once."""
    tcp = {"RetransSegs": 1, "TCPTimeouts": 1}
    return {
        "format": 1,
        "complete": True,
        "rounds": [{"start_ns": T0_NS, "end_ns": T0_NS + ROUND_US * 1000, "bytes": 12_000}],
        "flows": [flow_entry(2), flow_entry(3)],
        "tcp": {"h1": {"InSegs": 5}, "h3": tcp},
        "ports": {"leaf1-eth1": port(2, hot=True), "leaf1-eth2": port(0, hot=False)},
        "nics": {"h2": {"qdiscs": [{"kind": "tbf", "drops": 0}]}},
        "virtual_s": 0.2,
    }


def captures() -> dict[str, Capture]:
    whole, stalled = (Capture(f"10.0.0.{host}:{20000 + host}") for host in (2, 3))
    hot = Capture()
    for place in range(6):
        whole.send(0.1 * place, 1000 * place)
        stalled.send(0.1 * place, 1000 * place)
        hot.send(2 + 0.1 * place, 1000 * place)
    whole.ack(20, 6000).send(ROUND_US + 500, 5000)  # after the round: none of its business
    stalled.ack(20, 5000).send(20 + RTO_US, 5000).ack(40 + RTO_US, 6000)
    return {"h2-eth0": whole, "h3-eth0": stalled, "leaf1-eth1": hot.send(22 + RTO_US, 5000)}


def write_queue(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    times = [T0_NS + at for at in (0, 1000, 2000, 3000, 4000)]
    columns = {"time_ns": times, "queue_bytes": [0, 1500, 3000, 1500, 0], "queue_packets": [0, 1, 2, 1, 0]}
    counted = {"drops": [0, 0, 1, 1, 1], "marks": [0] * 5, "port": ["leaf1-eth1"] * 5}
    pyarrow.parquet.write_table(pyarrow.table({**columns, **counted}), path)


def make_run(path: Path, spec: dict[str, Any] | None = None, facts: dict[str, Any] | None = None) -> Run:
    """A complete run directory, with changes to its spec and its measured facts."""
    path.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}: {json.dumps(value)}" for key, value in {**SPEC, **(spec or {})}.items()]
    (path / "spec.yaml").write_text("\n".join(lines) + "\n")
    (path / "measured.json").write_text(json.dumps({**measured(), **(facts or {})}))
    provenance = {
        "seed": 1,
        "clock": "virtual",
        "kernel": {"version": "7.3.4"},
        "command": ["./run_experiment", "incast"],
    }
    (path / "provenance.json").write_text(json.dumps({**provenance, "wall": {"rounds_s": 0.5}}))
    for point, capture in captures().items():
        capture.write(path / "pcap" / f"{point}.pcap")
    write_queue(path / "telemetry" / "queue.parquet")
    return Run(path)


def evidence(verdict: Verdict) -> dict[str, bool | None]:
    return {piece.name: piece.holds for piece in verdict.evidence}


def test_a_whole_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert run.hot_port == "leaf1-eth1"
    assert [flow.name for flow in run.sent_flows] == ["h2", "h3"]
    assert [(stall.flow, stall.cause) for stall in run.stalls] == [("h3", "rto_tail_loss")]
    assert run.rounds[0].seconds == pytest.approx(ROUND_US / 1e6)
    assert run.tcp_counters == {"InSegs": 5, "RetransSegs": 1, "TCPTimeouts": 1}
    queue = run.queue("leaf1-eth1")
    assert queue is not None
    assert len(queue) == 5
    assert run.queue("leaf1-eth9") is None
    assert run.missing == ()


def test_cases_are_runs_in_natural_order_and_failed_ones_are_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for label in ("n16", "n4"):
        make_run(tmp_path / "run" / "cases" / label, {"label": label})
    (tmp_path / "run" / "cases" / "broken").mkdir()
    assert [(name, case.parameters.label) for name, case in run.cases.items()] == [
        ("n4", "n4"),
        ("n16", "n16"),
    ]
    assert run.missing == ("cases/broken: no measured.json",)


def test_points_of_a_sweep_come_after_the_cases_by_scheme_and_senders(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for label in ("dctcp-n16", "rto_1ms", "dctcp-n2", "droptail-n1", "dctcp"):
        make_run(tmp_path / "run" / "cases" / label, {"label": label})
    assert list(run.cases) == ["dctcp", "rto_1ms", "dctcp-n2", "dctcp-n16", "droptail-n1"]


def test_without_numpy_the_projects_python_is_named() -> None:
    """sys.modules[name] = None makes Python refuse the import."""
    code = "import sys; sys.modules['numpy'] = None; from analysis import Run"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: numpy is missing; use the project's Python: $(python3 lab/cache.py)"
    )


def test_missing_and_empty_captures_are_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "run" / "pcap" / "h2-eth0.pcap").unlink()
    (tmp_path / "run" / "pcap" / "h3-eth0.pcap").write_bytes(pcap_bytes([]))
    (tmp_path / "run" / "telemetry" / "queue.parquet").unlink()
    assert [flow.name for flow in run.sent_flows] == []
    assert [reason.split("/")[-1] for reason in run.missing] == [
        "h2-eth0.pcap: cannot be read: No such file or directory",
        "h3-eth0.pcap: no data of flow h3",
        "queue.parquet: not found; allowed: a Parquet file of queue samples",
    ]


@pytest.mark.parametrize(
    "content",
    ["", "[1]", '{"format": 2}', "{broken", '{"format": 1, "complete": true, "rounds": [{"start_ns": 1}]}'],
)
def test_damaged_facts_are_named(tmp_path: Path, content: str) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "run" / "measured.json").write_text(content)
    with pytest.raises(BadRequest, match=r"measured.json"):
        incast_verdict(run)


@pytest.mark.parametrize("name", ["spec.yaml", "measured.json"])
def test_missing_files_are_named(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    with pytest.raises(BadRequest, match=name):
        incast_verdict(run)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"nowhere"):
        Run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rate": None}, "rate"),
        ({"buffer": "12"}, "buffer"),
        ({"senders": 0}, "senders"),
        ({"sack": "maybe"}, "sack"),
        ({"topology": "ring"}, "topology"),
    ],
)
def test_a_spec_that_is_not_understood_names_the_key(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        _ = make_run(tmp_path / "run", change).parameters


def test_a_spec_that_is_no_mapping_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for content in ("- a\n- b\n", "a: [", "\x00"):
        (tmp_path / "run" / "spec.yaml").write_text(content)
        with pytest.raises(BadRequest, match=r"spec.yaml"):
            _ = Run(run.path).spec


def test_an_interrupted_run_is_not_proven(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "run" / "measured.json").write_text('{"format": 1, "complete": false, "rounds": []}')
    verdict = incast_verdict(run)
    assert verdict.verdict == NOT_PROVEN
    assert "measured.json has no finished round" in verdict.missing
    assert "measured.json: the run was not completed" in run.missing


def test_a_drop_is_counted_once_however_many_levels_report_it() -> None:
    assert port_drops({"a": port(4, hot=False), "b": port(0, hot=False)}) == {"a": 4}


def test_all_the_evidence_makes_a_collapse(tmp_path: Path) -> None:
    verdict = incast_verdict(make_run(tmp_path / "run"))
    assert evidence(verdict) == {
        "goodput": True,
        "timeouts or probes as late": True,
        "drops at the hot port": True,
        "idle link": True,
        "CPU kept up": True,
    }
    assert verdict.verdict == COLLAPSE
    idle = verdict.evidence[3]
    assert idle.measured == pytest.approx((RTO_US + 19.5) / 1e6)
    assert (idle.configured, idle.source) == (0.2, "capture at leaf1-eth1")


def test_fast_rounds_are_no_collapse(tmp_path: Path) -> None:
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + 4000, "bytes": 12_000}]
    verdict = incast_verdict(make_run(tmp_path / "run", facts={"rounds": rounds}))
    assert (verdict.verdict, evidence(verdict)["goodput"]) == (NO_COLLAPSE, False)


def test_a_loss_probe_that_waited_for_rto_min_counts_as_a_timeout(tmp_path: Path) -> None:
    """With TLP on, h3's last segment is probed when its RTO is due; the kernel counts no timeout then."""
    verdict = incast_verdict(make_run(tmp_path / "run", {"tlp": True}, {"tcp": {"h3": {"TCPLossProbes": 1}}}))
    assert (verdict.verdict, verdict.evidence[1].measured) == (COLLAPSE, 1)
    assert verdict.evidence[1].tolerance == "at least 1; 1 loss probe of RTOmin or longer among them"


def test_without_captures_a_probing_kernel_leaves_open_whether_it_waited(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"tlp": True}, {"tcp": {"h3": {"TCPLossProbes": 1}}})
    (tmp_path / "run" / "pcap" / "h3-eth0.pcap").unlink()
    verdict = incast_verdict(run)
    assert (verdict.verdict, verdict.evidence[1].measured, verdict.evidence[1].holds) == (NOT_PROVEN, None, None)
    assert verdict.missing == ("kernel counter TCPTimeouts is 0, but without captures loss probes may have waited",)


def test_slow_rounds_without_drops_and_timeouts_are_no_collapse(tmp_path: Path) -> None:
    """A slow start takes its time; nothing was lost."""
    run = make_run(tmp_path / "run", facts={"tcp": {}, "ports": {"leaf1-eth1": port(0, hot=True)}})
    (tmp_path / "run" / "pcap" / "h3-eth0.pcap").unlink()
    verdict = incast_verdict(run)
    assert (verdict.verdict, evidence(verdict)["goodput"]) == (NO_COLLAPSE, True)


def test_drops_at_another_port_prove_nothing(tmp_path: Path) -> None:
    ports = {"leaf1-eth1": port(5, hot=True), "leaf1-eth2": port(2, hot=False)}
    verdict = incast_verdict(make_run(tmp_path / "run", facts={"ports": ports}))
    assert (verdict.verdict, evidence(verdict)["drops at the hot port"]) == (NOT_PROVEN, False)
    assert "leaf1-eth2 dropped 2" in verdict.evidence[2].tolerance


def test_drops_at_a_nic_prove_nothing(tmp_path: Path) -> None:
    verdict = incast_verdict(
        make_run(tmp_path / "run", facts={"nics": {"h2": {"qdiscs": [{"kind": "tbf", "drops": 1}]}}})
    )
    assert (verdict.verdict, evidence(verdict)["drops at the hot port"]) == (NOT_PROVEN, False)


def test_without_a_timeout_slow_rounds_prove_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", facts={"tcp": {"h3": {"RetransSegs": 1}}})
    (tmp_path / "run" / "pcap" / "h3-eth0.pcap").unlink()
    verdict = incast_verdict(run)
    assert (verdict.verdict, evidence(verdict)["timeouts or probes as late"]) == (NOT_PROVEN, False)


@pytest.mark.parametrize(
    ("rto_min", "holds"),
    [("50ms", False), ("150ms", False), ("180ms", True), ("200ms", True), ("300ms", True), ("500ms", False)],
)
def test_the_link_must_be_idle_for_about_rto_min(tmp_path: Path, rto_min: str, holds: bool) -> None:
    assert evidence(incast_verdict(make_run(tmp_path / "run", {"rto_min": rto_min})))["idle link"] is holds


def test_a_timeout_that_was_doubled_may_leave_the_link_idle_for_longer(tmp_path: Path) -> None:
    """0.402 s are too long after one timeout, and due after the second of one segment."""
    second = [{"start_ns": T0_NS, "end_ns": T0_NS + 10**9, "bytes": 12_000}]
    run = make_run(tmp_path / "run", facts={"rounds": second})
    hot = Capture().send(10, 0).send(10 + 2 * RTO_US, 1000).send(800_000, 2000)
    hot.write(run.path / "pcap" / "leaf1-eth1.pcap")
    assert evidence(incast_verdict(run))["idle link"] is False

    again = Run(run.path)
    stalled = Capture("10.0.0.3:20003").send(0, 0).send(1, 1000).ack(20, 1000)
    stalled.send(RTO_US, 1000).send(3 * RTO_US, 1000).write(run.path / "pcap" / "h3-eth0.pcap")
    assert evidence(incast_verdict(again))["idle link"] is True


def test_a_real_clock_leaves_the_processor_unproven(tmp_path: Path) -> None:
    verdict = incast_verdict(make_run(tmp_path / "run", {"clock": "real"}))
    assert (verdict.verdict, evidence(verdict)["CPU kept up"]) == (NOT_PROVEN, None)


def test_slow_rounds_without_drops_may_be_the_processors_on_a_real_clock(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"clock": "real"}, {"tcp": {}, "ports": {"leaf1-eth1": port(0, hot=True)}})
    (tmp_path / "run" / "pcap" / "h3-eth0.pcap").unlink()
    verdict = incast_verdict(run)
    assert (verdict.verdict, evidence(verdict)["goodput"]) == (NOT_PROVEN, True)
    (missing,) = verdict.missing
    assert missing.startswith(
        "not measured: CPU headroom, hosts' process, softnet drops, clock steps (telemetry/machine"
    )


def test_no_round_and_no_drop_prove_nothing(tmp_path: Path) -> None:
    nothing = {"rounds": [], "tcp": {}, "ports": {"leaf1-eth1": port(0, hot=True)}}
    assert incast_verdict(make_run(tmp_path / "run", facts=nothing)).verdict == NOT_PROVEN


def test_without_captures_counters_and_samples_take_their_place(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for capture in (tmp_path / "run" / "pcap").iterdir():
        capture.unlink()
    verdict = incast_verdict(run)
    assert verdict.verdict == COLLAPSE
    sources = {piece.name: piece.source for piece in verdict.evidence}
    assert sources["timeouts or probes as late"] == "kernel counter TCPTimeouts"
    assert sources["idle link"] == "queue samples of leaf1-eth1"


def counted(path: Path, sent_bytes: int, rto_min: str = "200ms") -> Run:
    """A run with byte counters instead of captures and queue samples."""
    hot = port(2, hot=True)
    hot["qdiscs"][0].update({"parent": "root", "bytes": sent_bytes})
    spec = {"capture": "off", "telemetry": "off", "rto_min": rto_min}
    run = make_run(path, spec, {"ports": {"leaf1-eth1": hot}})
    for file in [*(path / "pcap").iterdir(), path / "telemetry" / "queue.parquet"]:
        file.unlink()
    return run


@pytest.mark.parametrize(
    ("sent_bytes", "rto_min", "proven"),
    [(10**12, "200ms", "0 ns"), (6_000_000_000, "200ms", "81.1 ms"), (0, "100ms", "201 ms")],
)
def test_a_bound_outside_the_range_leaves_the_idle_link_open(
    tmp_path: Path, sent_bytes: int, rto_min: str, proven: str
) -> None:
    """The link may have been idle for longer than a bound too short, or more than once within one too long."""
    verdict = incast_verdict(counted(tmp_path / "run", sent_bytes, rto_min))
    idle = verdict.evidence[3]
    assert (verdict.verdict, idle.measured, idle.holds) == (NOT_PROVEN, None, None)
    assert verdict.missing == (
        "no capture and no queue samples of the hot port leaf1-eth1; its byte counter proves "
        f"{proven} of silence in the longest round, in one piece or many",
    )


def test_bytes_sent_tell_how_long_the_link_was_idle_at_least(tmp_path: Path) -> None:
    """2.5 GB at 400 Gb/s take 50 ms of the round's 201.1 ms."""
    run = counted(tmp_path / "run", sent_bytes=2_500_000_000)
    verdict = incast_verdict(run)
    assert verdict.verdict == COLLAPSE
    assert verdict.evidence[3].measured == pytest.approx(ROUND_US / 1e6 - 0.05)
    assert run.missing == (
        "captures: switched off by capture=off",
        "queue samples: switched off by telemetry=off",
    )


def test_a_run_that_captured_the_hot_port_alone_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"capture": "hot"})
    (tmp_path / "run" / "pcap" / "h2-eth0.pcap").unlink()
    assert run.missing == ("sender captures: switched off by capture=hot",)


def test_without_any_of_them_nothing_is_proven(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for file in [*(tmp_path / "run" / "pcap").iterdir(), tmp_path / "run" / "telemetry" / "queue.parquet"]:
        file.unlink()
    verdict = incast_verdict(run)
    assert (verdict.verdict, evidence(verdict)["idle link"]) == (NOT_PROVEN, None)
    assert verdict.missing == ("no capture, no queue samples and no byte counter of the hot port leaf1-eth1",)


def test_what_a_capture_lost_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path, facts={**measured(), "capture": {"leaf1-eth1": 0, "h2-eth0": 3}})
    assert [line for line in run.missing if "lost" in line] == ["pcap/h2-eth0.pcap: the capture lost 3 packets"]
    damaged = make_run(tmp_path / "damaged", facts={**measured(), "capture": {"h2-eth0": None}})
    with pytest.raises(BadRequest, match=r"capture\.h2-eth0: None is given; allowed: a whole number"):
        _ = damaged.missing


def test_a_run_that_was_killed_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "provenance.json").unlink()
    with pytest.raises(BadRequest, match=r"run: has no provenance\.json: its run was killed, or it still runs"):
        assert run.provenance


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9223372036854775808", "-99999999999999999999"])
@pytest.mark.parametrize("name", ["measured.json", "provenance.json", "fabric.json"])
def test_numbers_that_are_none_are_refused_in_one_line(tmp_path: Path, name: str, number: str) -> None:
    run = make_run(tmp_path / "run")
    (run.path / name).write_text(f'{{"format": 1, "virtual_s": {number}}}')
    with pytest.raises(BadRequest, match=rf"{name}: is not JSON: .* is given; allowed: [a-z0-9 ]+ numbers"):
        getattr(run, name.partition(".")[0])


@pytest.mark.parametrize("wrong", ["soon", 0.5, None])
def test_a_round_without_whole_numbers_is_refused(tmp_path: Path, wrong: object) -> None:
    run = make_run(tmp_path / "run", facts={"rounds": [{"start_ns": 0, "end_ns": wrong, "bytes": 1}]})
    with pytest.raises(BadRequest, match=r"end_ns of an entry of 'rounds': .* allowed: a whole number"):
        assert run.rounds
