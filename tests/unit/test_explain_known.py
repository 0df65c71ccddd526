"""What a run directory tells beside its captures, and that a damaged one takes nothing else away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.explain.explain import captures_of, explain
from analysis.explain.known import captures_in, known_beside
from analysis.explain.model import CERTAIN, SENDER
from experiments import limits, rundir
from experiments.spec import parse
from tests.unit.explained_path import DESTINATION, SOURCE, lossy_path
from topologies.units import BadRequest


def run_directory(folder: Path, **keys: str) -> Path:
    """A run directory around the captures of a lossy path: spec, names of flows and hosts."""
    lossy_path().write(folder / "pcap")
    (folder / "pcap" / "sender.pcap").rename(folder / "pcap" / "h2-eth0.pcap")
    rundir.write_spec(
        folder, limits.resolve(parse({"senders": "4", **keys})), experiment="incast", label="main", clock="virtual"
    )
    flows = [{"flow": "h2", "sender": "h2", "source": SOURCE, "destination": DESTINATION}]
    measured = {"format": 1, "flows": flows, "ports": {"leaf1-eth1": {"hot": True}}}
    (folder / "measured.json").write_text(json.dumps(measured))
    hosts = [{"name": f"h{number}", "ip": f"10.0.0.{number}"} for number in (1, 2)]
    (folder / "fabric.json").write_text(json.dumps({"format": 1, "hosts": hosts}))
    return folder


def test_a_run_directory_stands_for_its_captures(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    assert [Path(path).name for path in captures_of([run])] == ["h2-eth0.pcap", "port.pcap", "receiver.pcap"]
    assert captures_of([run, run / "pcap" / "port.pcap", run]) == captures_of([run])


def test_its_spec_and_names_are_used_and_told(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run", rto_min="5ms", rate="10Gbps")
    known = known_beside(captures_of([run]))
    assert known is not None
    assert known.recovery is not None
    assert (known.recovery.rto_min_ns, known.rate_bps, known.hot_port) == (5_000_000, 10_000_000_000, "leaf1-eth1")
    assert "RTOmin 5ms, TLP and RACK; links of 10Gbps" in known.words()
    found = explain([run])
    assert {flow.name for flow in found.flows} == {"h2"}
    assert "spec.yaml tells: RTOmin 5ms" in found.facts["known"]


def test_names_of_hosts_make_a_senders_capture_certain(tmp_path: Path) -> None:
    found = explain([run_directory(tmp_path / "run") / "pcap" / "h2-eth0.pcap"])
    assert [(flow.position, flow.position_confidence) for flow in found.flows] == [(SENDER, CERTAIN)]


def test_roce_has_no_rto(tmp_path: Path) -> None:
    known = known_beside(captures_of([run_directory(tmp_path / "run", transport="roce")]))
    assert known is not None
    assert known.recovery is None
    assert "RTOmin" not in known.words()


@pytest.mark.parametrize("name", ["spec.yaml", "measured.json", "fabric.json"])
@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"flows": 7, "hosts": [1], "ports": [], "rate": []}', "\x00"])
def test_a_damaged_file_takes_nothing_else_away(name: str, damage: str, tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    (run / name).write_text(damage)
    assert len(explain([run]).flows) == 3


def test_captures_elsewhere_know_nothing(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run")
    (tmp_path / "other").mkdir()
    other = (run / "pcap" / "port.pcap").rename(tmp_path / "other" / "port.pcap")
    assert known_beside([other]) is None
    assert known_beside([run / "pcap" / "receiver.pcap", other]) is None
    assert known_beside(["-"]) is None
    assert explain([other]).facts["known"] == ""


def test_a_folder_without_captures_is_a_bad_request(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"holds no capture; allowed: a capture, or a folder with \.pcap"):
        captures_in(tmp_path)
