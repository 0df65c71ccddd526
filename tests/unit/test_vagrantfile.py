"""The Vagrantfile: accepted by Vagrant, its boxes pinned, its sizes settable, its port on this computer alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROVIDERS = ("virtualbox", "libvirt", "parallels")
# What Vagrant makes of the file for each provider, whether that is installed or not.
READ = """\
require "json"
require "vagrant"
environment = Vagrant::Environment.new(cwd: ARGV.shift, ui_class: Vagrant::UI::Silent)
puts JSON.generate(ARGV.to_h { |provider|
  vm = environment.vagrantfile.machine_config(:default, provider.to_sym, nil, nil, false)[:config].vm
  ports = vm.networks.select { |kind, port| kind == :forwarded_port && port[:id] != "ssh" }.map(&:last)
  [provider, { box: vm.box, version: vm.box_version, ports: ports, folders: vm.synced_folders.values,
               steps: vm.provisioners.map { |each| [each.type, each.config.inline, each.config.env] } }]
})
"""

needs_vagrant = pytest.mark.skipif(
    not shutil.which("vagrant") or not shutil.which("ruby"), reason="needs vagrant (make examples installs it)"
)
pytestmark = needs_vagrant


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Vagrant's own files stay in the test's folder, and no size comes from the caller."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FABRICLAB_", "VAGRANT_"))}
    folders = {"VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_DOTFILE_PATH": str(tmp_path / "state")}
    return {**kept, **folders, "VAGRANT_CHECKPOINT_DISABLE": "1"}


def validate(env: dict[str, str], **sizes: str) -> subprocess.CompletedProcess[str]:
    words = ["vagrant", "validate", "--ignore-provider"]
    return subprocess.run(words, cwd=ROOT, env={**env, **sizes}, capture_output=True, text=True, timeout=60)


@pytest.fixture
def read(env: dict[str, str]) -> dict[str, Any]:
    words = ["ruby", "-e", READ, str(ROOT), *PROVIDERS]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_vagrant_accepts_it(env: dict[str, str]) -> None:
    done = validate(env, FABRICLAB_VM_CPUS="2", FABRICLAB_VM_MEMORY="8192")
    assert done.returncode == 0, done.stderr
    assert "validated successfully" in done.stdout


@pytest.mark.parametrize(
    ("name", "given", "least"),
    [("FABRICLAB_VM_CPUS", "two", 1), ("FABRICLAB_VM_CPUS", "0", 1), ("FABRICLAB_VM_MEMORY", "4GB", 2048)],
)
def test_a_bad_size_is_one_line(env: dict[str, str], name: str, given: str, least: int) -> None:
    done = validate(env, **{name: given})
    expected = f'Vagrantfile: {name}: "{given}" is given; allowed: a whole number of at least {least}\n'
    assert (done.returncode, done.stderr) == (1, expected)


def test_every_provider_has_a_pinned_debian_12(read: dict[str, Any]) -> None:
    boxes = {provider: read[provider]["box"] for provider in PROVIDERS}
    assert boxes == {
        "virtualbox": "bento/debian-12",
        "parallels": "bento/debian-12",
        "libvirt": "debian/bookworm64",
    }
    for provider in PROVIDERS:
        assert all(part.isdigit() for part in read[provider]["version"].split(".")), provider


def test_the_projects_folder_is_shared_and_set_up_with_the_makefiles_script(read: dict[str, Any]) -> None:
    steps = ["shell", "exec /vagrant/provision.sh packages environment kernel vm"]
    for provider in PROVIDERS:
        (folder,) = read[provider]["folders"]
        assert (folder["hostpath"], folder["guestpath"]) == (".", "/vagrant")
        assert read[provider]["steps"] == [[*steps, {"FABRICLAB_CACHE": "/var/cache/fabriclab"}]]


def test_jupyters_port_is_reachable_from_this_computer_alone(read: dict[str, Any]) -> None:
    for provider in PROVIDERS:
        (port,) = read[provider]["ports"]
        assert (port["guest"], port["host"], port["host_ip"]) == (8888, 8888, "127.0.0.1")
