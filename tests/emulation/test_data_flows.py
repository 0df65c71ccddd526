"""Connections that carry real bytes, over TCP and RoCE: what arrives is what was sent, at the link's rate, through loss
and full receivers; what tells a sender of RoCE that there is room again; flows that die."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from experiments.runner import guest_environment
from lab.kernel import Kernel
from tests.conftest import run_in_lab
from tests.emulation.conftest import Inside
from tests.emulation.test_roce import ACK_DSCP, ACKNOWLEDGE, DATA_DSCP, ECT0, NOT_ECT, SEND, WRITE, packets

pytestmark = pytest.mark.lab

STAR: dict[str, Any] = {"hosts": 2, "mtu": "9000B", "rate": "100Gbps", "delay": "1us", "buffer": "20MB"}
ROCE: dict[str, Any] = {**STAR, "transport": "roce", "pfc": "on"}
PAIR = [["h2", "h1"]]
RING_BYTES, SLOTS = 4 << 20, 16
ONLY_WITH_IMMEDIATE = WRITE["only_imm"]


@pytest.fixture
def data_inside(kernel: Kernel, tmp_path: Path) -> Inside:
    return partial(call, kernel, tmp_path)


def call(kernel: Kernel, results: Path, name: str, **arguments: Any) -> Any:
    """Call a function of tests/emulation/data_flows_inside.py in the lab."""
    words = (sys.executable, "-m", "tests.emulation.data_flows_inside", name, json.dumps(arguments))
    return run_in_lab(kernel, words, results=results, env=guest_environment(), memory_bytes=2 << 30).json


@pytest.mark.parametrize(
    "keys",
    [
        STAR,
        {**STAR, "mtu": "1500B", "cc": "dctcp", "queue": "dctcp"},
        ROCE,
        {**ROCE, "verb": "send"},
        {**ROCE, "roce_mtu": "1024B"},
        {**ROCE, "window": "64KiB"},
        {**ROCE, "window": "64KiB", "verb": "send"},
        {**ROCE, "queue": "dcqcn"},
    ],
    ids=["tcp", "dctcp", "write", "send", "mtu", "window", "window-send", "dcqcn"],
)
def test_what_arrives_is_what_was_sent(data_inside: Inside, keys: dict[str, Any]) -> None:
    """Three flows, two of them between the same hosts and one the other way, in pieces of 1 B to 700 kB."""
    pairs = [["h2", "h1"], ["h2", "h1"], ["h1", "h2"]]
    told = data_inside("move", keys=keys, pairs=pairs, size_bytes=3_000_001, most_bytes=700_000)
    assert told["intact"] == [True, True, True]
    assert [flow["flow"] for flow in told["flows"]] == ["h2>h1", "h2>h1#2", "h1>h2"]
    assert told["drops"] == 0


@pytest.mark.parametrize("keys", [STAR, ROCE, {**ROCE, "verb": "send"}], ids=["tcp", "write", "send"])
def test_one_flow_fills_a_link(data_inside: Inside, keys: dict[str, Any]) -> None:
    told = data_inside("move", keys=keys, pairs=PAIR, size_bytes=32 << 20, most_bytes=256 << 10)
    assert told["intact"] == [True]
    assert told["goodput_bps"] > 0.95e11


@pytest.mark.parametrize("verb", ["write", "send"])
def test_what_is_lost_is_sent_again(data_inside: Inside, verb: str) -> None:
    """Eight senders into a buffer of 100 KB, without PFC."""
    keys = {**ROCE, "hosts": 9, "pfc": "off", "buffer": "100KB", "verb": verb}
    pairs = [[f"h{number}", "h1"] for number in range(2, 10)]
    told = data_inside("move", keys=keys, pairs=pairs, size_bytes=500_000, most_bytes=100_000)
    assert told["drops"] > 100
    assert told["intact"] == 8 * [True]


# --- a receiver that does not take


@pytest.mark.parametrize("keys", [STAR, ROCE, {**ROCE, "verb": "send"}], ids=["tcp", "write", "send"])
def test_who_is_not_read_takes_no_more_and_then_does(data_inside: Inside, keys: dict[str, Any]) -> None:
    told = data_inside("unread", keys=keys, piece_bytes=256 << 10)
    assert told["intact"]
    assert told["nothing"] == 0
    assert told["writable"] == [False, True]
    if keys is not STAR:
        assert told["held_bytes"] == RING_BYTES


@pytest.mark.parametrize("verb", ["write", "send"])
def test_room_is_told_by_messages(data_inside: Inside, tmp_path: Path, verb: str) -> None:
    """Three rings full: a message for each slot, and one back for each four that have been emptied, without a byte and
    in the class of acknowledgements."""
    size = 3 * RING_BYTES
    keys = {**ROCE, "verb": verb, "delay": "100ns"}
    told = data_inside("move", keys=keys, pairs=PAIR, size_bytes=size, most_bytes=size, folder=str(tmp_path))
    assert told["intact"] == [True]
    found = packets(tmp_path / "h1.pcap")
    source, destination = (told["flows"][0][end].split(":")[0] for end in ("source", "destination"))
    assert all(packet.icrc_holds for packet in found)
    data = [each for each in found if each.source == source and each.opcode != ACKNOWLEDGE]
    back = [each for each in found if each.source == destination and each.opcode != ACKNOWLEDGE]
    last, only = ("last", "only") if verb == "send" else ("last_imm", "only_imm")
    kinds = SEND if verb == "send" else WRITE
    messages = [packet for packet in data if packet.opcode in (kinds[last], kinds[only])]
    assert sum(packet.payload_bytes for packet in data) == size
    assert {(packet.dscp, packet.ecn) for packet in data} == {(DATA_DSCP, ECT0)}
    assert {(packet.opcode, packet.dscp, packet.ecn, packet.payload_bytes) for packet in back} == {
        (ONLY_WITH_IMMEDIATE, ACK_DSCP, NOT_ECT, 0)
    }
    assert {packet.immediate for packet in back} == {SLOTS // 4}
    assert len(back) == len(messages) // (SLOTS // 4) >= 3 * 4


# --- what goes wrong


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({**STAR, "rto_min": "1ms"}, "flow h2 to h1 has died: No route to host"),
        (ROCE, "flow h2 to h1 has died at h2: transport retry counter exceeded"),
    ],
    ids=["tcp", "roce"],
)
def test_a_flow_that_dies_is_told(data_inside: Inside, keys: dict[str, Any], said: str) -> None:
    assert data_inside("death", keys=keys)["said"] == said
