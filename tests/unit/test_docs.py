"""The documentation as a whole: it builds, its links lead somewhere, its reference is what the code says, the lines
that troubleshooting explains are lines of ours, and its examples in Python hold."""

from __future__ import annotations

import ast
import doctest
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from experiments import reference
from experiments.spec import keys
from tests.documented import ROOT, pages

PACKAGES = ("analysis", "controller", "experiments", "lab", "topologies", "workloads")
EXAMPLES = [name for name, text in pages().items() if name.startswith("docs/guide/") and ">>> " in text]
SCRIPTS = ("run_experiment", "provision.sh", "Makefile")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the documentation that lies in `folder` into its `site`, as `make docs` does."""
    (command,) = re.findall(r"^\t\$\(PYTHON\) (-m mkdocs .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return subprocess.run([sys.executable, *command.split()], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    return tmp_path


# --- the site


def test_the_site_is_built_and_needs_no_network(copied: Path) -> None:
    done = build(copied)
    assert done.returncode == 0, done.stderr
    text = (copied / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="guide/first-run.html"' in text
    loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', text)
    assert loaded and [each for each in map("".join, loaded) if "//" in each] == []


def test_a_broken_link_and_a_page_that_nothing_leads_to_are_found(copied: Path) -> None:
    (copied / "docs" / "index.md").write_text("# Home\n\n[gone](gone.md), [moved](fabrics.md#nowhere)\n")
    (copied / "docs" / "forgotten.md").write_text("# Forgotten\n")
    done = build(copied)
    assert done.returncode == 1
    assert all(word in done.stderr for word in ("'gone.md'", "'#nowhere'", "forgotten.md"))


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", pages()["README.md"])
    assert len(links) > 20 and [link for link in links if not (ROOT / link).is_file()] == []


# --- the reference


def test_the_reference_is_what_the_code_says() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in reference.FOLDER.iterdir()}
    assert kept == reference.pages(), "python -m experiments.reference writes it anew"


def test_the_reference_tells_every_key_and_what_every_argument_means() -> None:
    told = reference.pages()
    assert re.findall(r'<a id="(\w+)"></a>', told["keys.md"]) == list(keys())
    assert [line for line in told["commands.md"].splitlines() if line.endswith("|  |")] == []


def test_a_key_is_told_with_its_default_and_what_it_needs() -> None:
    (line,) = (line for line in reference.pages()["keys.md"].splitlines() if 'id="k"' in line)
    assert line.startswith('| <a id="k"></a>`k` | `auto` | ports of each switch of a fat-tree, even, 4 to 16')
    assert line.endswith(" | a whole number above zero, or auto | `topology` fat_tree or FILE.py:NAME |")


# --- troubleshooting


def fragments(line: str) -> list[str]:
    """The fixed parts of a message of ours: "rto_min: ... is given; allowed: whole" -> "is given", "whole"."""
    parts = (part.strip() for part in re.split(r"\.\.\.|; allowed: |^[\w-]+: |: ", line))
    return [part for part in parts if len(part) > 3]


@lru_cache(maxsize=1)
def messages() -> str:
    """All text that the code could say, what is filled in left out."""
    found = [(ROOT / name).read_text(encoding="utf-8") for name in SCRIPTS]
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        found += _texts(ast.parse(path.read_text(encoding="utf-8")))
    return "\n".join(found)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def told_lines() -> list[str]:
    """The messages of ours that troubleshooting explains."""
    ours, _, rest = pages()["docs/troubleshooting.md"].partition("## Figures that look wrong")
    cells = re.findall(r"^\| (.*?) \|", ours + rest.partition("## The real clock")[2], re.MULTILINE)
    return [line for cell in cells for line in re.findall(r"`([^`]+)`", cell) if fragments(line) and " " in line]


def test_every_line_that_troubleshooting_explains_is_one_of_ours() -> None:
    lines = told_lines()
    assert len(lines) > 40
    said = messages()
    assert [(line, part) for line in lines for part in fragments(line) if part not in said] == []


def test_a_line_of_nobodys_is_found() -> None:
    assert fragments("rto_min: ... is given; allowed: whole timer ticks of ...") == ["is given", "whole timer ticks of"]
    assert "whole timer ticks of" in messages()
    assert fragments("out: ... is not to be found") == ["is not to be found"]
    assert "is not to be found" not in messages().replace(__name__, "")


# --- examples


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_of_the_guide_hold(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    examples = doctest.DocTestParser().get_doctest(pages()[page], {}, page, page, 0)
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(examples, out=told.append)
    assert runner.tries and not runner.failures, "".join(told)
