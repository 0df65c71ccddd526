"""`provision.sh` on a bare Debian 12, for real: made by debootstrap, entered by chroot, with all packages from the
network. Downloads and the built lab kernel are shared with this machine's cache, the Python environment is built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.cache import own_cache
from lab.kernel import Kernel
from tests.conftest import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.alone]

RELEASE, MIRROR = "bookworm", "http://deb.debian.org/debian"
STEPS = ("packages", "environment", "kernel", "vm")
NEEDED_BYTES = 4_000_000_000  # 2.3 GB when set up, and what is downloaded beside it
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
CACHE = "/var/cache/fabriclab"
# Bind mounts in a mount namespace of its own, which end with the first process of a process namespace of its own.
ENTER = """\
root=$1 repository=$2 kernels=$3 pip=$4
shift 4
mount --bind "$repository" "$root/fabriclab"
mount -o remount,ro,bind "$root/fabriclab"
mount --bind "$kernels" "$root/var/cache/fabriclab/kernels"
mount --bind "$pip" "$root/root/.cache/pip"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Bare:
    """A root folder of Debian, and what of this machine is mounted in it."""

    root: Path
    kernels: Path
    pip: Path

    def run(self, *words: str, limit_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command in it, as root, from /tmp; its output, errors among it."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "FABRICLAB_CACHE": CACHE}
        env |= {name: os.environ[name] for name in PROXIES if name in os.environ}
        if TRUSTED.is_file():  # this machine's authorities, where it reaches PyPI through one of its own
            shutil.copy(TRUSTED, self.root / "trusted.crt")
            env["PIP_CERT"] = "/trusted.crt"
        space = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child")
        places = map(str, (self.root, ROOT, self.kernels, self.pip))
        command = [*space, "sh", "-e", "-c", ENTER, "enter", *places, "env", "--chdir=/tmp", *words]
        return subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s
        )


def trouble() -> str:
    """Why there can be no bare Debian here; empty when there can."""
    if os.geteuid():
        return "only root can make a root folder of Debian"
    if not shutil.which("debootstrap"):
        return "needs debootstrap (make examples installs it)"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode:
        return "this root may not make namespaces"
    if shutil.disk_usage(own_cache()).free < NEEDED_BYTES:
        return f"needs {NEEDED_BYTES / 1e9:.0f} GB of disk in {own_cache()}"
    try:
        urllib.request.urlopen(f"{MIRROR}/dists/{RELEASE}/Release", timeout=10).close()
    except urllib.error.URLError as error:
        return f"needs the network: {MIRROR}: {error.reason}"
    return ""


@pytest.fixture(scope="module")
def bare(kernel: Kernel) -> Iterator[Bare]:
    why_not = trouble()
    if why_not:
        pytest.skip(why_not)
    shared = own_cache() / "provisioning"
    for name in ("debs", "pip"):
        (shared / name).mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="bare-", dir=shared))
    root.chmod(0o755)
    try:
        words = ["debootstrap", "--variant=minbase", f"--cache-dir={shared / 'debs'}", RELEASE, str(root), MIRROR]
        made = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        assert made.returncode == 0, made.stdout[-2000:]
        for folder in ("fabriclab", "var/cache/fabriclab/kernels", "root/.cache/pip"):
            (root / folder).mkdir(parents=True)
        yield Bare(root, kernel.path.parents[1], shared / "pip")
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def provisioned(bare: Bare) -> tuple[Bare, str]:
    done = bare.run("/fabriclab/provision.sh", *STEPS, limit_s=1200)
    assert done.returncode == 0, done.stdout[-4000:]
    return bare, done.stdout


def files(root: Path) -> dict[str, float]:
    """Every file of the system with the time of its last change."""
    places = ("etc", "usr", "var", "root")
    return {str(path): path.lstat().st_mtime for place in places for path in (root / place).rglob("*")}


def test_every_package_is_installed_and_what_to_type_is_told(provisioned: tuple[Bare, str]) -> None:
    bare, said = provisioned
    listed = re.search(r"^needed=\((.*?)^\)", (ROOT / "provision.sh").read_text(), re.MULTILINE | re.DOTALL)
    assert listed is not None
    needed = re.sub(r" #.*", "", listed[1]).split()
    status = bare.run("dpkg-query", "--show", "--showformat=${db:Status-Status}\n", *needed)
    assert status.stdout.split() == ["installed"] * len(needed)
    assert "The lab VM is ready. Type:" in said
    assert "sudo python run_experiment incast --clock real" in said
    assert (bare.root / "etc/modules-load.d/fabriclab.conf").read_text().split()[:3] == [
        "openvswitch",
        "veth",
        "sch_netem",
    ]


def test_a_second_time_there_is_nothing_to_do(provisioned: tuple[Bare, str]) -> None:
    bare, _ = provisioned
    before = files(bare.root)
    done = bare.run("/fabriclab/provision.sh", *STEPS)
    assert done.returncode == 0, done.stdout
    said = done.stdout.splitlines()
    assert re.fullmatch(r"packages: all \d+ are installed already", said[0])
    assert said[1].startswith(f"environment: already at {CACHE}/environments/")
    assert sum(line.startswith("vm: ") and line.endswith("already") for line in said) == 4
    assert {path for path, time in files(bare.root).items() if before.get(path) != time} == set()


def test_the_check_is_green(provisioned: tuple[Bare, str]) -> None:
    done = provisioned[0].run("python", "/fabriclab/run_experiment", "check")
    assert done.returncode == 0, done.stdout
    assert "runs here: --clock virtual" in done.stdout and "MISSING" not in done.stdout


def test_an_experiment_runs(provisioned: tuple[Bare, str]) -> None:
    bare, _ = provisioned
    words = ("python", "/fabriclab/run_experiment", "incast", "--only", "--set", "senders=4", "--out", "/tmp/run")
    done = bare.run(*words, limit_s=180)
    assert done.returncode == 0, done.stdout
    summary = json.loads((bare.root / "tmp" / "run" / "summary.json").read_text())
    assert summary["complete"] is True and len(summary["rounds"]) == 4


def test_a_login_begins_in_the_projects_folder(provisioned: tuple[Bare, str]) -> None:
    done = provisioned[0].run("--chdir=/root", "bash", "-lic", "pwd")
    assert done.stdout.splitlines()[-1] == "/fabriclab"


def test_jupyter_answers_from_outside_the_vm(provisioned: tuple[Bare, str]) -> None:
    bare, _ = provisioned
    python = bare.run("python3", "/fabriclab/lab/cache.py")
    shown = bare.run(python.stdout.strip(), "-m", "jupyterlab", "--show-config-json")
    assert '"ip": "0.0.0.0"' in shown.stdout, shown.stdout


def test_users_without_privilege_find_the_environment(provisioned: tuple[Bare, str]) -> None:
    become = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    words = ("env", "--unset=FABRICLAB_CACHE", "HOME=/tmp", "python", "/fabriclab/run_experiment", "list")
    done = provisioned[0].run(*become, *words)
    assert done.returncode == 0, done.stdout
    assert "incast" in done.stdout
