"""iperf3: what is refused before anything boots, the gate before the clients, the process of one end with the real
iperf3 over loopback, the words that failures are told in, and the analysis of a run directory."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import iperf3 as kind
from analysis.kinds import kind_of
from analysis.pages.run_page import page
from analysis.run import Run
from analysis.tables.all_tables import tables
from experiments import cli, drive_iperf3, iperf3, limits
from experiments.spec import Spec, parse
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from topologies.units import BadRequest
from workloads.iperf3_flows import GATE, READY, Gate, SenderTest, Sending, listening_ports, programs
from workloads.iperf3_process import BEGIN, CLIENT, SERVER, Asked
from workloads.launch import End, Followed

BAD_REQUEST = 2
S_NS = 10**9


def has_iperf3() -> bool:
    try:
        ctypes.CDLL("libiperf.so.0")
    except OSError:
        return False
    return importlib.util.find_spec("iperf3") is not None


real = pytest.mark.skipif(not has_iperf3(), reason="needs iperf3 and its Python wrapper: make setup")


def asked(**keys: Any) -> Spec:
    return limits.resolve(parse({"workload": "iperf3", "senders": 2, "rate": "100Mbps", **keys}))


# --- what is asked for


def test_what_is_not_given_is_chosen() -> None:
    spec = asked()
    assert (spec.duration_ns, spec.iperf3_streams, spec.iperf3_interval_ns) == (2 * S_NS, 1, S_NS)
    assert limits.resolve(parse({"workload": "streams", "rate": "1Gbps"})).duration_ns == 40_000_000


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"duration": "1500ms"}, "duration: 1.5s is given with workload=iperf3; allowed: whole seconds, 1s or more"),
        ({"iperf3_streams": 129}, "iperf3_streams: 129 is given; allowed: up to 128, as many as iperf3 takes"),
        ({"iperf3_interval": "99ms"}, "iperf3_interval: 99ms is given; allowed: 100ms to 60s"),
        ({"iperf3_interval": "61s"}, "iperf3_interval: 61s is given; allowed: 100ms to 60s"),
        (
            {"iperf3_interval": "100ms", "duration": "200s"},
            "duration, iperf3_interval: 2000 intervals of 1 streams are given; allowed: up to 1018 intervals, which is"
            " what the wrapper's pipe holds",
        ),
        ({"transport": "roce"}, "transport: roce is given with workload=iperf3; allowed: with workload=incast or "),
        ({"senders": 16, "hosts": 16}, "senders: 16 is given with hosts=16; allowed: up to 15"),
        ({"workload": "incast", "iperf3_streams": 2}, "iperf3_streams: 2 is given with workload=incast; allowed: with"),
    ],
)
def test_what_iperf3_cannot_do_is_refused(keys: dict[str, Any], line: str) -> None:
    with pytest.raises(BadRequest) as error:
        asked(**keys)
    assert str(error.value).startswith(line)


def test_a_missing_tool_is_told_before_anything_boots(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(iperf3, "LIBRARY", "libnone.so.0")
    assert cli.main(["iperf3", "--only", "--out", str(tmp_path / "run")]) == BAD_REQUEST
    assert capsys.readouterr().err == (
        "run_experiment: workload: iperf3 needs libnone.so.0, which is missing; allowed: iperf3 after"
        " apt-get install iperf3\n"
    )
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(iperf3, "WRAPPER", "a_wrapper_that_is_not_there")
    with pytest.raises(BadRequest, match="needs iperf3's Python wrapper, which is missing"):
        iperf3.check_iperf3_tool(asked())
    iperf3.check_iperf3_tool(limits.resolve(parse({})))


# --- the gate


def test_ports_that_somebody_listens_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port in listening_ports(Path("/proc/thread-self/net/tcp").read_text())
    assert port not in listening_ports(Path("/proc/thread-self/net/tcp").read_text())


def test_the_gate_opens_once_all_are_ready_and_all_servers_listen(tmp_path: Path) -> None:
    got: list[int] = []
    listening: set[int] = {5201}

    def client() -> None:
        with (tmp_path / READY).open("wb", buffering=0) as ready, (tmp_path / GATE).open("rb", buffering=0) as gate:
            ready.write(b"r")
            got.extend(BEGIN.unpack(gate.read(BEGIN.size)))

    with Gate(tmp_path, clients=2) as gate:
        look = partial(gate.open_when, [5201, 5202], lambda: listening, lead_ns=5)
        threads = [threading.Thread(target=client) for _ in range(2)]
        threads[0].start()
        deadline_s = time.monotonic() + 10
        while not gate._ready and time.monotonic() < deadline_s:
            look()
        assert (gate._ready, gate.begin_ns) == (1, None)
        threads[1].start()
        while gate._ready < 2 and time.monotonic() < deadline_s:
            look()
        look()
        assert gate.begin_ns is None  # one server does not listen yet
        listening.add(5202)
        before_ns = time.time_ns()
        look()
        begin_ns = gate.begin_ns
        look()
        assert begin_ns is not None and begin_ns == gate.begin_ns >= before_ns + 5
        for thread in threads:
            thread.join(10)
    assert got == [begin_ns] * 2


def node(name: str) -> Any:
    return SimpleNamespace(name=name)


TESTS = [SenderTest(node(name), node("h1"), "10.0.0.1", 5201 + place, place) for place, name in enumerate(("h2", "h3"))]


def test_servers_come_first_and_each_sender_has_its_own(tmp_path: Path) -> None:
    made = programs(TESTS, Sending(3, 2, 0.5), Gate(tmp_path, 2), tmp_path / "out", {"A": "b"}, tmp_path)
    words = [json.loads(program.words[-1]) for program in made]
    assert [(program.host.name, each["role"], each["port"]) for program, each in zip(made, words)] == [
        ("h1", SERVER, 5201),
        ("h1", SERVER, 5202),
        ("h2", CLIENT, 5201),
        ("h3", CLIENT, 5202),
    ]
    assert {(each["seconds"], each["streams"], each["interval_s"]) for each in words} == {(3, 2, 0.5)}
    assert words[3]["results"] == str(tmp_path / "out" / "client" / "h3.json")


# --- one end, with the real tool


@contextmanager
def ended(asked: Asked) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(asked.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def end(role: str, port: int, folder: Path) -> Asked:
    names = {name: str(folder / name) for name in (READY, GATE)}
    return Asked(role, "127.0.0.1", port, 1, 2, 0.5, 0, **names, results=str(folder / f"{role}.json"))


def let_begin(gate: Gate) -> None:
    deadline_s = time.monotonic() + 30
    while gate.begin_ns is None:
        assert time.monotonic() < deadline_s
        gate.open_when([], set, lead_ns=0)
        time.sleep(0.01)


@real
def test_both_ends_keep_what_iperf3_tells(tmp_path: Path) -> None:
    port = free_port()
    with (
        Gate(tmp_path, 1) as gate,
        ended(end(SERVER, port, tmp_path)) as server,
        ended(end(CLIENT, port, tmp_path)) as client,
    ):
        while port not in listening_ports(Path("/proc/thread-self/net/tcp").read_text()):
            assert server.poll() is None
            time.sleep(0.01)
        let_begin(gate)
        said, complaint = client.communicate(timeout=30)
        assert (client.returncode, complaint) == (0, "")
        assert server.wait(30) == 0
    told = json.loads(said)
    assert told["end_ns"] - told["begin_ns"] >= S_NS
    assert told["version"].startswith("iperf 3.")
    document = json.loads((tmp_path / "client.json").read_text())
    assert len(document["start"]["connected"]) == document["start"]["test_start"]["num_streams"] == 2
    assert len(document["intervals"]) >= 2
    assert document["end"]["sum_received"]["bytes"] > 0
    assert json.loads((tmp_path / "server.json").read_text())["intervals"]


@real
def test_a_client_without_a_server_says_so(tmp_path: Path) -> None:
    with Gate(tmp_path, 1) as gate, ended(end(CLIENT, free_port(), tmp_path)) as client:
        let_begin(gate)
        _, complaint = client.communicate(timeout=30)
    assert client.returncode == 1
    assert "unable to connect to server" in complaint
    assert "error" in json.loads((tmp_path / "client.json").read_text())


@real
def test_a_server_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), ended(end(SERVER, port, tmp_path)) as server:
        _, complaint = server.communicate(timeout=30)
    assert server.returncode == 1
    assert "unable to start listener for connections" in complaint


# --- failures in words


@pytest.mark.parametrize(
    ("place", "status", "line"),
    [
        (1, 1, "iperf3's server for h3 on h1 (port 5202) ended with status 1: address in use"),
        (2, 1, "iperf3's client of h2 (port 5201) ended with status 1"),
        (3, 137, "iperf3's client of h3 (port 5202) was ended by SIGKILL"),
    ],
)
def test_who_failed_is_told(tmp_path: Path, place: int, status: int, line: str) -> None:
    made = programs(TESTS, Sending(1, 1, 1.0), Gate(tmp_path, 2), tmp_path, {}, tmp_path)
    (tmp_path / "server" / "h3.err").write_text("iperf3: error\naddress in use\n")
    followed = [Followed(program, end=End(1, 2, status if each == place else 0)) for each, program in enumerate(made)]
    under_way: Any = SimpleNamespace(ended="failed", first_failed=place, followed=followed, timeout_ns=9 * S_NS)
    with pytest.raises(RuntimeError) as error:
        drive_iperf3._judge(TESTS, under_way, tmp_path)
    assert str(error.value) == line
    under_way.ended = "timeout"
    with pytest.raises(RuntimeError, match=r"^iperf3: after 9s a test had not ended$"):
        drive_iperf3._judge(TESTS, under_way, tmp_path)
    under_way.ended = "done"
    drive_iperf3._judge(TESTS, under_way, tmp_path)


# --- analysis


def document(received_bps: float, retransmits: int = 3) -> dict[str, Any]:
    """As iperf3 3.12 writes it, as far as it is read."""
    noted = {"start": 0, "end": 1.0, "bits_per_second": received_bps, "bytes": int(received_bps / 8)}
    total = {**noted, "seconds": 1.0}
    stream = {"sender": {"mean_rtt": 4000, "min_rtt": 1, "max_rtt": 9}, "receiver": {}}
    return {
        "intervals": [{"streams": [], "sum": noted}],
        "end": {"streams": [stream], "sum_sent": {**total, "retransmits": retransmits}, "sum_received": total},
    }


def well(status: int | None = 0, signal: str | None = None, *lines: str) -> dict[str, Any]:
    return {"status": status, "signal": signal, "last_lines": list(lines)}


def run_of(path: Path, documents: dict[str, Any], ended: str = "done", **failed: Any) -> Run:
    fabric = fabric_json("leaf_spine", leaves=2, hosts_per_leaf=2, spines=1)
    entries = [
        {
            "sender": sender,
            "receiver": "h1",
            "port": 5201 + place,
            "begin_ns": T0_NS,
            "end_ns": T0_NS + S_NS,
            "ends": {SERVER: well(), CLIENT: failed.get(sender, well())},
        }
        for place, sender in enumerate(("h2", "h3"))
    ]
    facts = {
        "workload": "iperf3",
        "iperf3": {"version": "iperf 3.12", "wrapper": "0.1.11", "begin_ns": T0_NS, "ended": ended},
        "iperf3_tests": entries,
        "flows": [],
        "tcp": {"h2": {"TCPTimeouts": 2}, "h3": {}},
    }
    run = fabric_run(path, fabric, facts)
    for role in (CLIENT, SERVER):
        (path / "iperf3" / role).mkdir(parents=True)
        for sender, told in documents.items():
            (path / "iperf3" / role / f"{sender}.json").write_text(told if isinstance(told, str) else json.dumps(told))
    return run


def test_what_iperf3_tells_is_read(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {"h2": document(30e6), "h3": document(10e6, 4)})
    assert kind_of(run) is kind
    summary = summarize(run)
    told = summary["iperf3"]
    assert (summary["goodput_bps"], told["received_bps"], told["retransmits"]) == (40e6, 40e6, 7)
    assert told["tests"]["h2"]["intervals"] == [{"start_s": 0.0, "end_s": 1.0, "bps": 30e6}]
    assert told["tests"]["h2"]["told_rtt_s"] == 0.004
    (row,) = summary["comparison"]
    assert (row["slowest_bps"], row["fastest_bps"], row["timeouts"]) == (10e6, 30e6, 2)
    assert "40 Mb/s" in page(run, kind.figures(run))
    made = tables(run)
    assert made["iperf3_tests"]["told_received_bps"].tolist() == [30e6, 10e6]
    assert made["iperf3_intervals"]["role"].tolist() == ["client", "server"] * 2


def test_without_captures_nothing_is_proven(tmp_path: Path) -> None:
    found = kind.verdict(run_of(tmp_path / "run", {"h2": document(30e6), "h3": document(10e6)}))
    assert found.verdict == "not proven"
    assert "the hot port's capture is missing" in found.missing


def test_a_test_that_failed_is_the_verdict(tmp_path: Path) -> None:
    broken = {"error": "unable to connect"}
    run = run_of(tmp_path / "run", {"h2": document(30e6), "h3": broken}, h3=well(1, None, "unable to connect"))
    found = kind.verdict(run)
    assert (found.verdict, found.good) == (kind.FAILED, False)
    assert kind.headline(run) == "the test of h3 failed: client status 1: unable to connect"
    assert summarize(run)["iperf3"]["received_bps"] is None


def test_a_run_that_was_interrupted_has_no_results(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {}, "interrupted", h2=well(137, "SIGKILL"), h3=well(None))
    assert kind.headline(run) == "the run ended before iperf3 told of all tests"
    assert kind.verdict(run).verdict == "not proven"
    assert kind.row(run)["received_bps"] is None
    assert [each.path for each in kind.figures(run)] == [None, None]


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "holds list; allowed: a mapping"),
        ({"end": {}}, "is not what iperf3 writes for TCP"),
        ({"end": []}, "is not what iperf3 writes for TCP"),
        ({**document(1.0), "intervals": [{}]}, "is not what iperf3 writes for TCP"),
        ({**document(1.0), "intervals": 5}, "is not what iperf3 writes for TCP"),
    ],
)
def test_a_damaged_document_is_named(tmp_path: Path, damaged: Any, words: str) -> None:
    run = run_of(tmp_path / "run", {"h2": damaged, "h3": document(1.0)})
    with pytest.raises(BadRequest, match=f"iperf3/(client|server)/h2.json: {words}"):
        summarize(run)
