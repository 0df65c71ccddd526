"""Makes the golden captures: `python -m tests.golden.make [CASE...]`, by hand, where the lab boots.

Each case is played in the lab with a fixed spec and seed (inside.py, or ./run_experiment). Its folder beside this file
is a run directory with spec.yaml, fabric.json and pcap/, packed, and truth.json says what happened as others than the
captures saw it: the kernels' counters, the queues and filters that dropped, TCP_INFO, telemetry, the spec, and the
program that sent. `truth` in it is what the analysis has to find, worked out from those sources alone;
tests/unit/test_golden.py compares.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet

from experiments import fabrics, limits, rundir
from experiments.runner import guest_environment
from experiments.spec import parse
from lab import boot
from lab.kernel import find_kernel
from tests.golden.cases import INSIDE, RUNS
from tests.golden.forms import make_forms

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_WALL_LIMIT_S = 120.0

Facts = dict[str, Any]


def main(names: list[str]) -> int:
    """Make these cases, or all."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"{unknown[0]}: is no case; allowed: {', '.join(ALL)}", file=sys.stderr)
        return 2
    for name in names or ALL:
        ALL[name](name)
        print(f"{name}: {sum(file.stat().st_size for file in (HERE / name).rglob('*.*'))} bytes", file=sys.stderr)
    return 0


def _make_inside(name: str) -> None:
    """Play a case of INSIDE, and keep its captures and its truth."""
    case = INSIDE[name]
    with tempfile.TemporaryDirectory() as folder:
        words = json.dumps({**case.arguments, "folder": folder})
        told = _in_lab((sys.executable, "-m", "tests.golden.inside", case.function, words), Path(folder))
        kept = _emptied(name)
        _keep(kept, Path(folder))
    spec = limits.resolve(parse({"senders": 1, **case.arguments["keys"]}))
    rundir.write_spec(kept, spec, experiment=name, label="main", clock="virtual")
    rundir.write_fabric(kept, fabrics.document(spec))
    _write(kept, {"shows": case.shows, "played": dict(case.arguments), "truth": case.truth(told), "sources": told})


def _make_run(name: str) -> None:
    """Run a case of RUNS as an incast, and keep its captures and its truth."""
    case = RUNS[name]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        settings = [f"--set={key}={value}" for key, value in case.arguments.items()]
        words = [str(ROOT / "run_experiment"), "incast", "--only", *settings, "--out", str(run)]
        subprocess.run(words, check=True, capture_output=True, timeout=_WALL_LIMIT_S)
        told = json.loads((run / "measured.json").read_text())
        told["events"] = {file.stem: _rows(file) for file in sorted((run / "telemetry").glob("*.parquet"))}
        kept = _emptied(name)
        _keep(kept, run / "pcap")
        for file in ("spec.yaml", "fabric.json"):
            shutil.copyfile(run / file, kept / file)
    _write(kept, {"shows": case.shows, "played": dict(case.arguments), "truth": case.truth(told)})


def _rows(file: Path) -> list[list[Any]]:
    """(port or queue pair, event, time in ns) of a record of events; nothing of other records."""
    table = pyarrow.parquet.read_table(file)
    if "event" not in table.column_names:
        return []
    who = "port" if "port" in table.column_names else "queue_pair"
    return [[row[who], row["event"], row["time_ns"]] for row in table.to_pylist()]


def _in_lab(words: tuple[str, ...], folder: Path) -> Facts:
    kernel = find_kernel()
    if kernel is None:
        raise RuntimeError("there is no lab kernel yet: build it once with `make kernel`")
    stdout, stderr = io.BytesIO(), io.BytesIO()
    job = boot.Job(words, env=guest_environment(), cwd=ROOT, watchdog_s=_WALL_LIMIT_S, results=folder)
    outcome = boot.run(kernel.path, job, stdout=stdout, stderr=stderr)
    if outcome.status:
        raise RuntimeError(f"{words[3]}: {stderr.getvalue().decode() or outcome}")
    return dict(json.loads(stdout.getvalue()))


def _emptied(name: str) -> Path:
    """A case's folder, with room for its captures."""
    folder = HERE / name
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "pcap").mkdir(parents=True)
    return folder


def _keep(folder: Path, captures: Path) -> None:
    """All captures of a folder, packed: equal bytes for equal captures."""
    for file in sorted(captures.glob("*.pcap")):
        (folder / "pcap" / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


def _write(folder: Path, document: Facts) -> None:
    (folder / "truth.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


ALL: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(INSIDE, _make_inside),
    **dict.fromkeys(RUNS, _make_run),
    "forms": make_forms,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
