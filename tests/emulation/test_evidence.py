"""What captures of real runs are said to show, against what the kernel counted and what tshark says."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from analysis.run import Run
from analysis.transport.events import FAST, GO_BACK_N, RACK, RTO
from analysis.transport.labels_tshark import compare_with_tshark
from analysis.transport.retransmits import retransmissions
from lab.kernel import Kernel
from tests.emulation.conftest import Done, run_experiment

pytestmark = pytest.mark.lab

LEAST_LABELS = 0.98
COUNTED = {  # kernel counter -> kinds
    "TCPTimeouts": (RTO,),
    "TCPFastRetrans": (FAST, RACK),
    "TCPSlowStartRetrans": (GO_BACK_N,),
}
RUNS = {  # each loses packets, and none of them in the sender's own NIC, where no capture sees it
    "cubic": ("senders=16", "rate=100Gbps", "buffer=100KB"),
    "cubic, 1 ms": ("senders=32", "rate=10Gbps", "buffer=64KB", "rto_min=1ms"),
    "reno without SACK": ("senders=16", "rate=10Gbps", "buffer=64KB", "cc=reno", "sack=off", "rack=off", "tlp=off"),
    "dctcp, 1 ms": ("senders=64", "rate=10Gbps", "buffer=64KB", "queue=dctcp", "rto_min=1ms"),
    "bbr": ("senders=16", "rate=10Gbps", "buffer=64KB", "cc=bbr"),
    "without probes": ("senders=16", "rate=10Gbps", "buffer=64KB", "tlp=off"),
    "jumbo frames": ("senders=32", "rate=100Gbps", "buffer=150KB", "bytes=1MiB", "mtu=9000B", "rto_min=1ms"),
    "short blocks": ("senders=32", "rate=10Gbps", "buffer=64KB", "bytes=16KiB", "rounds=20"),
    "lossy link": ("senders=8", "rate=10Gbps", "bytes=1MiB", "lossy_link=h1:0.02"),
}


@pytest.fixture(params=list(RUNS))
def lossy(request: pytest.FixtureRequest, kernel: Kernel, tmp_path: Path) -> Done:
    """A run of each kind."""
    keys = {"rounds": "3", **dict(word.split("=", 1) for word in RUNS[request.param])}
    words = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    done = run_experiment(tmp_path / "run", "incast", "--only", "--json", *words)
    assert done.status == 0, done.stderr
    return done


def test_every_senders_captures_show_exactly_what_its_kernel_counted(lossy: Done) -> None:
    run, again = Run(lossy.folder), 0
    assert len(run.tcp_flows) == run.parameters.senders
    for flow, entry in zip(run.tcp_flows, run.entries("flows", ("sender",))):
        kernel, events = run.measured["tcp"][entry["sender"]], retransmissions(flow, run.recovery)
        kinds = Counter(event.kind for event in events)
        shown = {name: sum(kinds[kind] for kind in some) for name, some in COUNTED.items()}
        shown["TCPTimeouts"] += flow.syn_repeats
        assert {"RetransSegs": len(events) + flow.syn_repeats, **shown} == {
            name: kernel.get(name, 0) for name in ("RetransSegs", *COUNTED)
        }, flow.name
        assert sum(event.spurious for event in events) >= kernel.get("TCPDSACKRecv", 0), flow.name
        again += len(events)
    assert again > 10
    assert [each for each in lossy.document("summary.json")["kernel_counters"] if not each["agrees"]] == []


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_labels_are_those_of_tshark(collapse: Done) -> None:
    captures = sorted((collapse.folder / "pcap").iterdir())
    found = [compare_with_tshark(path) for path in captures]
    assert len(found) == 17
    assert sum(each.labelled for each in found) > 1_000
    assert min(each.share for each in found) >= LEAST_LABELS
    assert sum(each.same for each in found) >= LEAST_LABELS * sum(each.packets for each in found)
