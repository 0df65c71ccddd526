"""The private Open vSwitch's daemons, with the real database and a switch that cannot start."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from topologies import openvswitch
from topologies.ground import NETDEV
from topologies.openvswitch import OpenVSwitch

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


@pytest.mark.skipif(not shutil.which("ovsdb-server", path=PATH), reason="needs Open vSwitch's database server")
def test_a_switch_that_does_not_start_leaves_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "ovs-vswitchd"
    broken.write_text("#!/bin/sh\necho no datapath >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{PATH}")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # a socket's path has room for 108 characters
        folder = Path(short, "run")
        with pytest.raises(RuntimeError, match="ovs-vswitchd failed: no datapath"), OpenVSwitch(folder):
            pass
        assert (folder / "conf.db").exists()  # the database had been made and served
        assert str(folder).encode() not in b"".join(_command_lines())


@pytest.mark.skipif(not shutil.which("ovsdb-server", path=PATH), reason="needs Open vSwitch's database server")
def test_a_switch_that_is_a_process_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setattr(openvswitch, "COMPILER", "no-such-compiler")
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        folder = Path(short, "run")
        with pytest.raises(RuntimeError, match="as a process it needs no-such-compiler"), OpenVSwitch(folder, NETDEV):
            pass
        assert str(folder).encode() not in b"".join(_command_lines())


def _command_lines() -> list[bytes]:
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_bytes())
        except OSError:
            continue
    return lines
