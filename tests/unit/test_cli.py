"""The command line: exit statuses, one line per mistake, and nothing left behind by a request that is refused."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.policy import Orders
from experiments import catalog, cli, fabrics, limits, memory
from experiments.catalog import Labelled
from experiments.commands import concluding, describing, running
from experiments.runner import Setting
from experiments.spec import keys, parse
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]
DONE, FAILED, BAD_REQUEST, INTERRUPTED = 0, 1, 2, 130


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.kernel.find_kernel", lambda: None)


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command line."""
    status = cli.main(words)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a bad request ends with; fails unless it is one, with status 2 and nothing else."""
    status, out, err = call(capsys, *words)
    assert (status, out) == (BAD_REQUEST, "")
    assert err.startswith("run_experiment: ")
    assert err.count("\n") == 1
    return err.removeprefix("run_experiment: ").rstrip("\n")


# --- bad requests


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["outcast"], "experiment: 'outcast' is unknown; allowed: "),
        (["run", "outcast"], "experiment: 'outcast' is unknown; allowed: "),
        (["run"], "the following arguments are required: NAME|FILE.yaml"),
        (["incast", "extra"], "unrecognized arguments: extra"),
        (["incast", "--colour", "red"], "unrecognized arguments: --colour red"),
        (["incast", "--set"], "argument --set: expected one argument"),
        (["incast", "--set", "rate"], "--set: 'rate' is given; allowed: KEY=VALUE"),
        (["incast", "--set", "=5"], "--set: '=5' is given; allowed: KEY=VALUE"),
        (["incast", "--set", "rate="], "rate: '' is not understood; allowed: "),
        (["incast", "--set", "rate=400"], "rate: '400' is not understood"),
        (["incast", "--set", "rate=0Gbps"], "rate: '0Gbps' is given; allowed: above zero"),
        (["incast", "--set", "sender=4"], "sender: unknown key (did you mean senders?); allowed: "),
        (["incast", "--set", "senders=0"], "senders: '0' is given; allowed: above zero"),
        (["incast", "--set", "senders=-1"], "senders: '-1' is given; allowed: above zero"),
        (["incast", "--set", "senders=2000"], "senders: 2000 is given; allowed: up to 1023"),
        (["incast", "--set", "buffer=100B"], "buffer: 100B is given and holds no packet; allowed: "),
        (["incast", "--set", "rto_min=100us"], "rto_min: 100us is given; allowed: whole timer ticks of 1ms"),
        (
            ["incast", "--set", "rounds=1000000000"],
            "senders: 64 with bytes=256KiB, rounds=1000000000, capture=all need ",
        ),
        (["incast", "--seed", "one"], "seed: 'one' is not understood; allowed: a whole number"),
        (["incast", "--clock", "fast"], "argument --clock: invalid choice: 'fast' (choose from "),
        (["incast", "--watchdog", "soon"], "argument --watchdog: 'soon' is given; allowed: seconds above zero"),
        (["incast", "--watchdog", "0"], "argument --watchdog: '0' is given; allowed: seconds above zero"),
        (["incast", "--watchdog", "-5"], "argument --watchdog: '-5' is given; allowed: seconds above zero"),
        (["incast", "--watchdog", "nan"], "argument --watchdog: 'nan' is given; allowed: seconds above zero"),
        (["incast", "--watchdog", "inf"], "argument --watchdog: 'inf' is given; allowed: seconds above zero"),
        (["shell", "--topology", "mesh"], "topology: 'mesh' is unknown; allowed: star"),
        (["shell", "--set", "senders=0"], "senders: '0' is given; allowed: above zero"),
        (
            ["shell", "--topology", "fat_tree", "--set", "leaves=2"],
            "leaves: 2 is given with topology=fat_tree; allowed: ",
        ),
        (["topo"], "the following arguments are required: NAME"),
        (["topo", "mesh", "--json"], "topology: 'mesh' is unknown; allowed: star, dumbbell, "),
        (
            ["topo", "star", "--draw", "star.gif"],
            "--draw: star.gif is given; allowed: a name that ends in .png, .svg, ",
        ),
        (["topo", "star", "--draw", "star"], "--draw: star is given; allowed: a name that ends in .png, .svg, "),
        (["topo", "star", "--draw", "/dev/null/star.png"], "--draw: /dev/null/star.png cannot be written ("),
        (["topo", "fat_tree", "--json", "--set", "k=5"], "k: 5 is given; allowed: even numbers from 4 to 16"),
        (["topo", "fat_tree", "--json", "--set", "k"], "--set: 'k' is given; allowed: KEY=VALUE"),
        (["topo", "star", "--json", "--seed", "3"], "unrecognized arguments: --seed 3"),
        (["kernel"], "the following arguments are required: build|info"),
        (["kernel", "remove"], "argument build|info: invalid choice: 'remove' (choose from "),
        (["kernel", "build", "--source", "/no/such/file"], "--source: /no/such/file"),
        (["report"], "the following arguments are required: DIR"),
        (["report", "/no/such/folder"], "DIR: /no/such/folder is no run directory"),
        (["list", "--yaml"], "unrecognized arguments: --yaml"),
        (["--json"], "the following arguments are required: COMMAND"),
    ],
)
def test_a_bad_request_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    no_kernel: None,
    folder: Path,
    words: list[str],
    line: str,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert refused(capsys, *words).startswith(line)
    assert list(folder.iterdir()) == []


def test_a_shell_without_a_terminal_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert refused(capsys, "shell") == "shell: standard input is not a terminal; allowed: a terminal"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (None, "is no file; allowed: a YAML file"),
        ("experiment: [", "is no spec in YAML (while parsing a flow node"),
        ("experiment:\n\tincast", "is no spec in YAML (while scanning"),
        ("- experiment", "has no key 'experiment'; allowed: a mapping"),
        ("", "has no key 'experiment'; allowed: a mapping"),
        ("rate: 400Gbps", "has no key 'experiment'; allowed: a mapping"),
        (b"\xff\xfe\x00", "cannot be read ("),
        (b"experiment: \x00", "is no spec in YAML ("),
        ("experiment: incast\nrate: 1Gbps\nrate: 2Gbps", "is no spec in YAML (rate: given twice)"),
        ("experiment: &name incast\nrate: *name", "is no spec in YAML (aliases are not allowed)"),
        ("[" * 100_000, "is no spec in YAML ("),
        (b" " * (1 << 20) + b"experiment: incast", "has 1048594 bytes; allowed: up to 1048576"),
    ],
)
def test_a_bad_file_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str | bytes | None, line: str
) -> None:
    if content is not None:
        (folder / "mine.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refused(capsys, "mine.yaml").startswith(f"mine.yaml: {line}")


def test_a_folder_is_no_file(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "mine.yaml").mkdir()
    assert refused(capsys, "run", "mine.yaml").startswith("mine.yaml: is no file; allowed: a YAML file")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("experiment: outcast", "experiment: 'outcast' is unknown"),
        ("experiment: incast\ncolour: red", "colour: unknown key"),
        ("experiment: incast\nrate: 400", "rate: '400' is not understood"),
        ("experiment: incast\nsenders: 4.5", "senders: '4.5' is not understood"),
        ("experiment: incast\nsenders: [4]", "senders: ['4'] is not understood"),
        ("experiment: incast\n7: 8", "7: unknown key"),
        ("experiment: [incast]", "mine.yaml: has no key 'experiment'; allowed: a mapping"),
        ("experiment: incast\nseed: 2020-99-99", "seed: '2020-99-99' is not understood"),
        ("experiment: incast\nclock: slow", "clock: 'slow' is unknown; allowed: virtual, real"),
    ],
)
def test_a_bad_key_in_a_file_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path, content: str, line: str
) -> None:
    (folder / "mine.yaml").write_text(content)
    assert refused(capsys, "mine.yaml").startswith(line)


@pytest.mark.parametrize("place", ["taken", "file", "file/below", "/proc/run"])
def test_a_run_directory_that_cannot_be_used_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, place: str
) -> None:
    monkeypatch.setattr(running, "setting_of", without_a_kernel)
    (folder / "taken").mkdir()
    (folder / "taken" / "mine").touch()
    (folder / "file").touch()
    line = refused(capsys, "incast", "--out", place)
    assert line.startswith(f"out: {place} ")
    assert "; allowed: a " in line
    assert sorted(path.name for path in folder.rglob("*")) == ["file", "mine", "taken"]


def without_a_kernel(runs: Any, clock: str, *limits: Any) -> Setting:
    """The setting of runs that never begin."""
    return Setting(None, clock, ())


# --- failures


def test_without_a_kernel_a_run_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_kernel: None, folder: Path
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for words in (["incast"], ["shell"], ["kernel", "info"], ["bench"]):
        status, out, err = call(capsys, *words)
        assert (status, out) == (FAILED, "")
        assert err.startswith(
            "run_experiment: there is no lab kernel yet: build it once with `./run_experiment kernel build`"
        )
        assert err.count("\n") == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status", "err"),
    [
        (RuntimeError("it broke"), FAILED, "run_experiment: it broke\n"),
        (OSError(28, "No space left on device"), FAILED, "run_experiment: [Errno 28] No space left on device\n"),
        (BadRequest("key: no"), BAD_REQUEST, "run_experiment: key: no\n"),
        (KeyboardInterrupt(), INTERRUPTED, "run_experiment: interrupted\n"),
    ],
)
def test_every_error_is_a_line_and_a_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, err: str
) -> None:
    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(describing, "catalog", fail)
    assert call(capsys, "list") == (status, "", err)


@pytest.mark.parametrize("out", ["/run/fabriclab/mine", "/run/netns", "/run/../run/netns/a/b"])
def test_a_folder_that_the_run_would_not_see_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.setattr(running, "setting_of", lambda *given: Setting(None, "real", (), real_on="machine"))
    monkeypatch.setattr(running.rundir, "create", lambda *given: pytest.fail("made"))
    told = refused(capsys, "incast", "--only", "--clock", "real", "--on", "machine", "--out", out)
    assert told.startswith(f"out: {os.path.realpath(out)} is in /run/")


def test_the_lab_sees_every_folder() -> None:
    running._check_out(Path("/run/netns/mine"), Setting(None, "real", ()))
    running._check_out(Path("/run/elsewhere"), Setting(None, "real", (), real_on="machine"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_with_its_folder(folder: Path, number: int) -> None:
    with pytest.raises(RuntimeError) as raised, concluding.whole(folder):
        raise OSError(number, os.strerror(number))
    assert str(raised.value).startswith(f"{folder}: no room for the report ([Errno {number}] {os.strerror(number)})")
    assert str(raised.value).endswith(f"`./run_experiment report {folder}`")


def test_another_error_of_a_file_is_left_as_it_is(folder: Path) -> None:
    with pytest.raises(BrokenPipeError), concluding.whole(folder):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


# --- requests that are met


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(capsys, "list", "--json")
    rows = json.loads(out)
    assert (status, err) == (DONE, "")
    assert [row["experiment"] for row in rows] == list(catalog.catalog())
    assert all(row["question"] and row["claim"] and row["expected"] for row in rows)


@pytest.mark.parametrize(("columns", "is_whole"), [("80", False), ("160", True)])
def test_a_narrow_terminal_has_the_questions_of_all_experiments(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, is_whole: bool
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = call(capsys, "list")[1]
    assert all(f" {name} " in out for name in catalog.catalog())
    assert (" expected " in out.splitlines()[2], "claim and expected: in a wider terminal" in out) == (
        is_whole,
        not is_whole,
    )


def test_list_keys_says_what_each_key_takes(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(call(capsys, "list", "--keys", "--json")[1])
    assert [row["key"] for row in rows] == list(keys())
    assert parse({row["key"]: row["default"] for row in rows}) == parse({})
    assert all(row["allowed"] and row["meaning"] for row in rows)


def test_help_and_version_end_well(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"], ["run", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == DONE
        assert capsys.readouterr().out


def test_a_fabric_is_told_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, err = call(capsys, "topo", "fat_tree", "--set", "k=6", "--set", "rate=100Gbps", "--json")
    assert (status, err) == (DONE, "")
    spec = limits.resolve(parse({"topology": "fat_tree", "k": 6, "rate": "100Gbps"}))
    assert json.loads(out) == json.loads(json.dumps(fabrics.document(spec)))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "begins"), [("new/fabric.svg", b"<?xml"), ("fabric.png", b"\x89PNG"), ("fabric.pdf", b"%PDF")]
)
def test_a_fabric_is_drawn(capsys: pytest.CaptureFixture[str], folder: Path, name: str, begins: bytes) -> None:
    status, out, _ = call(capsys, "topo", "gpu_pod", "--draw", name)
    assert (status, out.splitlines()[1:]) == (DONE, [f"drawing: {name}"])
    assert (folder / name).read_bytes().startswith(begins)


def test_a_fabric_is_told_in_a_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    told = "fat-tree k = 4: 16 hosts, 20 switches, 48 links\n"
    assert call(capsys, "topo", "fat_tree")[:2] == (DONE, told)
    assert list(folder.iterdir()) == []


def test_orders_are_written_for_what_a_controller_routes(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert call(capsys, "topo", "dumbbell", "--orders", "orders.json")[0] == DONE
    orders = Orders.from_json(json.loads((folder / "orders.json").read_text()))
    assert [switch.name for switch in orders.fabric.switches] == ["left1", "right1"]
    status, out, err = call(capsys, "topo", "star", "--orders", "star.json")
    assert (status, out) == (BAD_REQUEST, "")
    assert err.startswith("run_experiment: topology: star has one switch, which learns by itself; allowed: ")
    assert not (folder / "star.json").exists()


def test_a_fabric_is_drawn_and_told(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, _ = call(capsys, "topo", "star", "--set", "hosts=3", "--draw", "star.svg", "--json")
    assert (status, len(json.loads(out)["hosts"])) == (DONE, 3)
    assert (folder / "star.svg").is_file()


@pytest.mark.parametrize(
    ("topology", "keys", "hosts", "senders"),
    [
        ("star", {}, 5, 4),
        ("star", {"senders": "7"}, 8, 7),
        ("star", {"hosts": "3"}, 3, 2),
        ("star", {"workload": "pings"}, 16, None),
        ("dumbbell", {}, 4, 3),
        ("leaf_spine", {"leaves": "2"}, 8, 7),
        ("fat_tree", {}, 16, 15),
        ("gpu_pod", {}, 16, 15),
    ],
)
def test_a_shell_has_a_fabric_of_its_topologys_size(
    topology: str, keys: dict[str, str], hosts: int, senders: int | None
) -> None:
    spec = running.shell_spec(topology, keys)
    assert (spec.topology, spec.hosts, spec.senders, spec.capture) == (topology, hosts, senders, "off")


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What would be run: label -> spec, the clocks, and the folder; nothing is."""
    found: dict[str, Any] = {}

    def instead(arguments: Any, asked: Any, runs: Sequence[Labelled], setting: Setting, folder: Path) -> int:
        specs = {each.label: each.spec for each in runs}
        found.update(specs=specs, folder=folder, clocks={setting.clock, *(each.clock for each in runs)})
        return DONE

    monkeypatch.setattr(running, "setting_of", without_a_kernel)
    monkeypatch.setattr(running, "_run_all", instead)
    monkeypatch.setattr(memory, "_available_bytes", lambda: 1 << 60)
    return found


def test_a_name_is_short_for_run(planned: dict[str, Any], folder: Path) -> None:
    assert cli.main(["incast", "--set", "senders=4", "--seed", "9", "--out", "here"]) == DONE
    short = dict(planned)
    assert cli.main(["run", "incast", "--set", "senders=4", "--seed", "9", "--out", "here"]) == DONE
    assert short["specs"] == planned["specs"]
    assert planned["folder"] == folder / "here"
    assert {spec.senders for spec in planned["specs"].values()} == {4}
    assert {spec.seed for spec in planned["specs"].values()} == {9}
    assert list(planned["specs"])[:3] == ["main", "rto_1ms", "dctcp"]
    assert {"tcp_pfc", "roce", "roce_pfc", "roce_dcqcn", "roce_pfc_dcqcn"} <= set(planned["specs"])


def test_only_the_main_run(planned: dict[str, Any]) -> None:
    assert cli.main(["demo", "--only"]) == DONE
    assert list(planned["specs"]) == ["main"]


def test_a_later_set_wins_over_an_earlier_and_over_the_file(planned: dict[str, Any], folder: Path) -> None:
    (folder / "mine.yaml").write_text("experiment: incast\nsenders: 3\nrate: 1Gbps\nsack: off\n")
    assert cli.main(["mine.yaml", "--only", "--set", "senders=4", "--set", "senders=5"]) == DONE
    main = planned["specs"]["main"]
    assert (main.senders, main.rate_bps, main.sack) == (5, 10**9, False)


@pytest.mark.parametrize(
    ("in_file", "words", "clock"),
    [
        ("", [], "virtual"),
        ("clock: real", [], "real"),
        ("clock: real", ["--clock", "virtual"], "virtual"),
        ("clock: virtual", ["--clock", "real"], "real"),
    ],
)
def test_the_clock_is_the_words_then_the_files_then_virtual(
    planned: dict[str, Any], folder: Path, in_file: str, words: list[str], clock: str
) -> None:
    (folder / "mine.yaml").write_text(f"experiment: incast\n{in_file}\n")
    assert cli.main(["mine.yaml", "--only", *words]) == DONE
    assert planned["clocks"] == {clock}


def test_a_value_may_hold_an_equals_sign() -> None:
    with pytest.raises(BadRequest, match=r"^rate: '1=2' is not understood"):
        parse(running.given_keys(cli.command_line().parse_args(["run", "incast", "--set", "rate=1=2"])))


@pytest.mark.parametrize(
    "given",
    [
        {"queue": "dctcp", "senders": 7},
        {"topology": "leaf_spine", "workload": "streams", "oversubscription": "4:3", "spines": 3},
        {"topology": "fat_tree", "workload": "all_to_all", "failure": "core1:down@1ms", "openflow": "1.3"},
        {"topology": "gpu_pod", "rails": "off", "hosts": 24, "fast_failover": "off"},
    ],
)
def test_the_spec_of_a_run_can_be_run_again(planned: dict[str, Any], folder: Path, given: dict[str, Any]) -> None:
    from experiments import rundir

    spec = limits.resolve(parse({"capture": "off", **given}))
    rundir.write_spec(folder, spec, experiment="incast", label="dctcp", clock="virtual")
    assert cli.main(["run", "spec.yaml", "--out", "again"]) == DONE
    assert planned["specs"] == {"main": spec}


# --- the program itself


def program(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / "run_experiment"), *words],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["incast", "--set", "rate=400"], BAD_REQUEST, "run_experiment: rate: '400' is not understood"),
        (["outcast"], BAD_REQUEST, "run_experiment: experiment: 'outcast' is unknown; allowed: "),
        (["incast", "--out", "/dev/null/x"], BAD_REQUEST, "run_experiment: out: /dev/null/x cannot be written ("),
        (["incast", "--out", "."], BAD_REQUEST, "run_experiment: out: . is not empty; allowed: "),
        (["report", "."], BAD_REQUEST, "run_experiment: DIR: . is no run directory"),
        (["no.yaml"], BAD_REQUEST, "run_experiment: no.yaml: is no file; allowed: a YAML file"),
    ],
)
def test_the_program_ends_as_its_main_does(folder: Path, words: list[str], status: int, line: str) -> None:
    (folder / "mine").touch()
    done = program(*words, cwd=folder)
    if "no lab kernel" in done.stderr:
        pytest.skip("the run directory is only looked at when there is a lab kernel")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_any_python_starts_the_program(folder: Path) -> None:
    words = ["/usr/bin/python3", str(ROOT / "run_experiment"), "list", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=60)
    assert (done.returncode, done.stderr) == (DONE, "")
    assert json.loads(done.stdout)


def test_a_reader_that_goes_away_is_no_traceback(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [str(ROOT / "run_experiment"), "list", "--keys", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == FAILED
    assert "Traceback" not in done.stderr


def test_reading_a_request_starts_nothing_that_a_lab_needs() -> None:
    """Mininet's network classes alone take longer to import than all else that a request needs."""
    words = [
        sys.executable,
        "-c",
        "import sys, experiments.cli, experiments.limits; print('mininet.net' in sys.modules)",
    ]
    assert subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout == "False\n"
