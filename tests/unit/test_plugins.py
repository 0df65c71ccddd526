"""Code of the user's own: read once, run as it was read, and refused in one line where it cannot work."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments import limits, rundir
from experiments.cli import main
from experiments.request import requested
from experiments.runner import Setting, Task, _provenance
from experiments.spec import Spec, parse
from lab.session import Outcome
from tests.conftest import ROOT
from topologies import plugins
from topologies.plugins import Plug
from topologies.units import BadRequest

EXAMPLES = ROOT / "examples"
GRAPH = "import networkx as nx\ndef made(switches=3, hosts_per_leaf=1):\n    return nx.path_graph(switches)\n"


def plug_of(tmp_path: Path, text: str, name: str = "made") -> str:
    """FILE.py:NAME of a file with this text."""
    (tmp_path / "own.py").write_text(text)
    return f"{tmp_path / 'own.py'}:{name}"


def refused(key: str, tmp_path: Path, text: str, name: str = "made", **keys: Any) -> str:
    """The line that says what is wrong with this code as the value of a key."""
    base = {"topology": "leaf_spine"} if key != "topology" else {}
    with pytest.raises(BadRequest) as error:
        limits.resolve(parse({**base, "workload": "permutation", **keys, key: plug_of(tmp_path, text, name)}))
    line = str(error.value)
    assert line.startswith(f"{key}: ") and "; allowed: " in line and "\n" not in line
    return line


# --- reading


def test_a_plug_is_the_text_that_was_read(tmp_path: Path) -> None:
    value = plug_of(tmp_path, "made = 1")
    plug = plugins.read(value, "policy")
    plug_of(tmp_path, "made = 2")
    assert plugins.load(plug, "policy") == 1
    assert plugins.load(plugins.read(value, "policy"), "policy") == 2
    assert (plug.name, plug.text, str(plug)) == ("made", "made = 1", value)
    assert plug.sha256 == hashlib.sha256(b"made = 1").hexdigest()


def test_its_newlines_are_kept_for_its_hash(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_bytes(b"made = 1\r\n")
    assert plugins.read(f"{tmp_path}/own.py:made", "policy").text == "made = 1\r\n"


def test_a_relative_file_counts_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_of(tmp_path, "made = 1")
    monkeypatch.chdir(tmp_path)
    assert plugins.read("own.py:made", "policy").file == str(tmp_path / "own.py")


def test_in_a_yaml_file_it_counts_from_that_files_folder(tmp_path: Path) -> None:
    plug_of(tmp_path, GRAPH)
    (tmp_path / "mine.yaml").write_text("experiment: own\ntopology: own.py:made\nworkload: pings\nbuffer: 1MB\n")
    keys = requested(str(tmp_path / "mine.yaml")).keys
    assert keys == {"topology": f"{tmp_path}/own.py:made", "workload": "pings", "buffer": "1MB"}


@pytest.mark.parametrize(
    ("value", "is_one"), [("a.py:b", True), ("a b/c.py:D_1", True), ("a.py", False), ("a:b", False)]
)
def test_the_form_of_a_plug(value: str, is_one: bool) -> None:
    assert plugins.is_plug(value) == is_one


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"made = '\xe9'")
    (tmp_path / "large.py").write_bytes(b"#" * (1 << 20) + b"#")
    (tmp_path / "folder.py").mkdir()
    for name, said in (
        ("latin", "cannot be read"),
        ("large", "1048577 bytes"),
        ("folder", "no file"),
        ("no", "no file"),
    ):
        with pytest.raises(BadRequest, match=rf"^topology: .*{said}.*; allowed: .+$"):
            parse({"topology": f"{tmp_path}/{name}.py:made"})


# --- running


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def made(:\n", r"own\.py:1: invalid syntax|own\.py:1: .*"),
        ("x = 1\nraise ValueError('no\\nway')", r"own\.py:2 raises ValueError: no way"),
        ("import sys\nsys.exit(3)", r"own\.py:2 raises SystemExit: 3"),
        ("import neighbour_of_mine", r"own\.py:1 raises ModuleNotFoundError: No module named 'neighbour_of_mine'"),
        ("def maid(): pass\nimport os", r"has no made \(did you mean maid\?\); allowed: maid$"),
        ("", "has no made; allowed: a name of it"),
        ("made = 5", "is int; allowed: a class"),
        ("def made(): raise KeyError('x')", r"own\.py:1 raises KeyError: 'x'"),
        ("def made(): return 5", "returns int"),
        ("def made(groups): pass", "has a parameter groups without a default; allowed: hosts, "),
        ("made = dict", "own.py:made raises ValueError: no signature found"),
        ("def made():\n    raise GeneratorExit", r"own\.py:2 raises GeneratorExit; allowed"),
        ("def __getattr__(name):\n    raise LookupError(name)", r"own\.py:2 raises LookupError: made"),
        ("made = 1\0", "cannot contain null bytes"),
        ("from broken_of_mine import made", r"broken_of_mine\.py:2: "),
    ],
)
def test_a_bad_topology_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    (tmp_path / "neighbour_of_mine.py").write_text("")
    (installed := tmp_path / "installed").mkdir()
    (installed / "broken_of_mine.py").write_text("\n1 +")
    monkeypatch.syspath_prepend(str(installed))
    assert re.search(said, refused("topology", tmp_path, text))


@pytest.mark.parametrize("key", ["workload", "policy"])
@pytest.mark.parametrize("text", ["made = 5", "class made: pass", "def made(*_): pass"])
def test_another_type_is_refused(tmp_path: Path, key: str, text: str) -> None:
    assert "; allowed: a class " in refused(key, tmp_path, text)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    assert plugins.load(plugins.read(plug_of(tmp_path, "\ufeffmade = 3"), "policy"), "policy") == 3


def test_dataclasses_and_annotations_work_in_it(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += "@dataclass\nclass made:\n    x: int = 3\n"
    assert plugins.load(plugins.read(plug_of(tmp_path, text), "policy"), "policy")().x == 3


def test_a_bad_plug_ends_the_command_with_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topo", plug_of(tmp_path, "1 +")]) == 2
    assert main(["run", "own", "--set", f"policy={plug_of(tmp_path, 'made = 1')}"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [["run_experiment", "topology"], ["run_experiment", "policy"]]


def test_a_loop_without_an_end_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def endless():\n    while True:\n        pass\n")
    plug = plugins.read(f"{tmp_path}/own.py:endless", "topology")
    before = signal.getsignal(signal.SIGVTALRM)
    expected = (
        r"topology: .*own\.py:[23] raises TimeoutError: it computes for more than 0\.2 s; allowed: code that does not"
    )
    with pytest.raises(BadRequest, match=expected), plugins.told(plug, "topology", patience_s=0.2):
        plugins.load(plug, "topology")()
    assert (signal.getitimer(signal.ITIMER_VIRTUAL)[0], signal.getsignal(signal.SIGVTALRM)) == (0, before)


def test_what_a_plug_prints_is_not_among_our_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topo", plug_of(tmp_path, f"print('loaded')\n{GRAPH}    # made"), "--json"]) == 0
    told = capsys.readouterr()
    assert len(json.loads(told.out)["switches"]) == 3
    assert told.err == "loaded\n"


# --- kept


def own_spec() -> Spec:
    keys = {"topology": "topology.py:dragonfly", "workload": "workload.py:Shuffle", "policy": "policy.py:ByPaths"}
    values = {key: f"{EXAMPLES}/own_{value}" for key, value in keys.items()}
    return limits.resolve(parse({**values, "switches": 2, "bytes": "64KiB", "rate": "100Gbps"}))


def test_a_run_directory_keeps_the_text_and_repeats_it(tmp_path: Path) -> None:
    spec = own_spec()
    rundir.write_spec(tmp_path, spec, experiment="own", label="main", clock="virtual")
    told = yaml.safe_load((tmp_path / "spec.yaml").read_text())
    assert told["topology"] == "own/topology.py:dragonfly"
    for key in plugins.KEYS:
        assert (tmp_path / told[key].partition(":")[0]).read_bytes() == (EXAMPLES / f"own_{key}.py").read_bytes()
    again = rundir.read_spec(tmp_path)
    assert {key: (plug.name, plug.text) for key, plug in again.own.items()} == {
        key: (plug.name, plug.text) for key, plug in spec.own.items()
    }
    assert limits.resolve(again) == again  # what was derived is what is derived from it


def test_provenance_has_origin_and_hash(tmp_path: Path) -> None:
    spec = own_spec()
    task, setting = Task("main", spec, tmp_path, "own"), Setting(None, "virtual", ("./run_experiment",))
    told = _provenance(task, setting, Outcome(0, "done", 1.0, (), None))["own"]
    assert told["policy"] == {
        "file": str(EXAMPLES / "own_policy.py"),
        "name": "ByPaths",
        "sha256": spec.own["policy"].sha256,
    }
    assert set(told) == set(plugins.KEYS)


def test_a_folder_with_nothing_but_a_spec_and_its_code_is_unused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    rundir.write_spec(folder, own_spec())
    assert rundir.discard_if_unused(folder)
    assert not folder.exists()


def test_two_plugs_of_one_text_are_equal_only_by_file_and_name() -> None:
    assert Plug("a.py", "b", "c") == Plug("a.py", "b", "c") != Plug("a.py", "b", "d")


# --- the examples


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("own_*.py")), ids=lambda path: path.name)
def test_an_example_is_shorter_than_40_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40
