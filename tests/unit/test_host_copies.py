"""What copies cost this machine: a real measurement over loopback, made small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workloads import host_copies


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_copies, "_TOTAL_BYTES", 8 << 20)
    monkeypatch.setattr(host_copies, "_ROUND_TRIPS", 50)


def test_every_way_is_measured_and_nothing_is_left(small: None) -> None:
    before = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    found = host_copies.measure()
    assert [way["way"] for way in found["ways"]] == ["copy", "zerocopy", "sendfile"]
    for way in found["ways"]:
        assert way["sent_bytes"] == 8 << 20
        assert way["seconds"] > 0
        assert 0 <= way["sender_cpu_s"] < 60
    copied = {way["way"]: way["copied_anyway"] for way in found["ways"]}
    assert copied["copy"] is None
    assert 0 <= copied["zerocopy"] <= 1
    assert 0 < found["latency_s"] < 1
    assert found["copy_bytes_per_s"] > 1e6
    assert sorted(path.name for path in Path("/proc/self/fd").iterdir()) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_receiver_that_dies_is_told(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_copies, "_receive", lambda receiving, way: os._exit(1))
    with pytest.raises(OSError, match=r"died|reset|Broken pipe"):
        host_copies.measure()
