"""Notebooks on stored runs: they run through, draw what they should, and are committed without outputs; the runs that
they are shown with; and every example of docs/run-directory.md."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks import FIGURES, HERE, NOTEBOOKS, executed, figures

ROOT = Path(__file__).resolve().parents[2]
MOST_STORED_BYTES = 2_000_000


@pytest.fixture(autouse=True)
def _stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FABRICLAB_LIVE", raising=False)


def test_every_notebook_is_known() -> None:
    assert [path.name for path in sorted(HERE.glob("*.ipynb"))] == [f"{name}.ipynb" for name in NOTEBOOKS]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_on_stored_runs_and_draws(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(HERE.rglob("*"))
    document = executed(name, monkeypatch)
    assert figures(document) == FIGURES[name]
    assert [path for path in sorted(HERE.rglob("*")) if "__pycache__" not in path.parts and path not in before] == []


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_committed_without_outputs_and_begins_with_live(name: str) -> None:
    content = json.loads((HERE / f"{name}.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
    assert "".join(code[0]["source"]).startswith("LIVE = False")
    prose = "".join("".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "markdown")
    assert "## Exercises" in prose


def test_every_stored_run_is_one_that_a_notebook_asks_for() -> None:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in HERE.glob("*.ipynb")]
    sources = ["".join(cell["source"]) for document in documents for cell in document["cells"]]
    asked = {name for source in sources for name in re.findall(r'experiment\(\s*f?"([\w-]+)', source)}
    assert {re.sub(r"\d+$", "", path.name) for path in (HERE / "runs").iterdir()} == asked


def test_stored_runs_are_small_and_name_no_folder_of_a_machine() -> None:
    files = [path for path in (HERE / "runs").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_STORED_BYTES
    for path in files:
        if path.suffix in (".json", ".yaml"):
            assert not re.search(r"/(tmp|home|root|work)/", path.read_text()), path


def lesson(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, timeout=120)


def test_a_run_that_is_not_stored_says_how_to_make_it() -> None:
    done = lesson("from lesson import experiment; experiment('incast', 'incast --only --set senders=99')")
    assert "there is no stored run of `./run_experiment incast --only --set senders=99`; set LIVE = True" in done.stderr


def test_a_live_run_that_fails_says_why() -> None:
    done = lesson("from lesson import experiment; experiment('x', 'incast --set senders=none', live=True)")
    assert "RuntimeError: ./run_experiment incast --set senders=none: exit status 2" in done.stderr
    assert "senders: 'none'" in done.stderr


@pytest.mark.parametrize("page", ["run-directory.md", "notebooks.md"])
def test_the_examples_of_the_documentation_hold(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert examples.examples
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    told: list[str] = []
    runner.run(examples, out=told.append)
    assert not runner.failures, "".join(told)
