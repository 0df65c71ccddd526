"""Who may import whom: the arrows and fences of the design, held over the whole source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("topologies", "controller", "workloads", "analysis", "experiments", "lab")

# Package -> what of ours it may import: a package, or one module of it.
ARROWS: dict[str, tuple[str, ...]] = {
    "topologies": (),
    "controller": ("topologies",),
    "workloads": ("topologies", "controller"),
    "analysis": ("topologies.units",),
    "lab": (),
    "experiments": PACKAGES,
}
# Module from elsewhere -> the only files that may import it.
FENCES: dict[str, tuple[str, ...]] = {
    "mininet.net": ("topologies/emulate.py", "experiments/bench_mininet.py"),  # the bench runs stock Mininet
    "ryu": ("controller/framework.py",),
    "os_ken": ("controller/framework.py",),
}
# The numbers of netlink's messages about queues are defined in one module and used in one other.
QUEUE_MESSAGES = ("RTM_NEWQDISC", "RTM_DELQDISC", "RTM_GETQDISC")
QUEUE_SPEAKERS = ("topologies/netlink.py", "topologies/qdisc.py", "topologies/live_queues.py")
# Code that is not ours is read and run in one module.
RUNS_CODE = ("exec", "eval", "compile", "runpy.run_path", "importlib.util.spec_from_file_location")
CODE_RUNNERS = ("topologies/plugins.py",)


def sources(root: Path = ROOT) -> dict[str, str]:
    """Path below the root -> text of every module of ours."""
    return {
        str(path.relative_to(root)): path.read_text()
        for package in PACKAGES
        for path in sorted((root / package).rglob("*.py"))
    }


def imports(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports, wherever in it; `from a import b` is a.b."""
    package = path.removesuffix(".py").split("/")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{name.name}") for name in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "importlib.import_module",
            "import_module",
            "__import__",
        ):
            yield node.lineno, _constant_prefix(node.args[0])


def _constant_prefix(argument: ast.expr) -> str:
    """What is known of a module's name that is put together while running."""
    first = argument.values[0] if isinstance(argument, ast.JoinedStr) and argument.values else argument
    return str(first.value) if isinstance(first, ast.Constant) else "?"


def is_within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def broken_arrows(found: dict[str, str]) -> list[str]:
    """Every import against an arrow or over a fence, as PATH:LINE: what."""
    lines = []
    for path, text in found.items():
        package = path.partition("/")[0]
        for line, name in imports(path, text):
            target = name.partition(".")[0]
            if name == "?" or (
                target in PACKAGES and target != package and not any(is_within(name, own) for own in ARROWS[package])
            ):
                lines.append(f"{path}:{line}: {package} may not import {name}")
            lines += [
                f"{path}:{line}: {name} is for {', '.join(allowed)} alone"
                for module, allowed in FENCES.items()
                if is_within(name, module) and path not in allowed
            ]
    return lines


def broken_queue_fence(found: dict[str, str]) -> list[str]:
    """Every file that names a queue message without being allowed to."""
    return [
        path
        for path, text in found.items()
        if path not in QUEUE_SPEAKERS and any(name in text for name in QUEUE_MESSAGES)
    ]


def run_code(found: dict[str, str]) -> list[str]:
    """Every file that runs code which is not ours, as PATH:LINE, but those that may."""
    return [
        f"{path}:{node.lineno}"
        for path, text in found.items()
        if path not in CODE_RUNNERS and any(f"{name}(" in text for name in RUNS_CODE)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in RUNS_CODE
    ]


def cycles(found: dict[str, str]) -> list[str]:
    """Modules that import themselves, through however many others; an import inside a function counts too."""
    names = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in found}
    graph = {
        name: {
            loaded for _, imported in imports(path, found[path]) if (loaded := _loaded(imported, set(names))) != name
        }
        for name, path in names.items()
    }
    return sorted(name for name in graph if name in _reachable(graph, name))


def _loaded(imported: str, modules: set[str]) -> str:
    """The module whose contents a dotted name is or comes from; that its package is entered first does not count. Of
    what is put together while running ("analysis.") nobody knows which."""
    return imported if imported in modules or imported.endswith(".") else imported.rpartition(".")[0]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph.get(name, ())
    return seen


# --- our source


def test_no_import_is_against_an_arrow_or_over_a_fence() -> None:
    assert broken_arrows(sources()) == []


def test_only_one_module_speaks_to_the_kernels_queues() -> None:
    assert broken_queue_fence(sources()) == []
    assert all(any(name in sources()[path] for name in QUEUE_MESSAGES) for path in QUEUE_SPEAKERS)


def test_code_of_the_users_own_is_run_in_one_module() -> None:
    assert run_code(sources()) == []
    assert all("exec(" in sources()[path] for path in CODE_RUNNERS)
    assert run_code({"analysis/x.py": "a = 1\nexec(a)", "topologies/plugins.py": "exec(a)"}) == ["analysis/x.py:2"]


def test_no_module_imports_itself_through_others() -> None:
    assert cycles(sources()) == []


def test_every_package_is_looked_at() -> None:
    assert {path.partition("/")[0] for path in sources()} == set(PACKAGES)
    assert set(ARROWS) == set(PACKAGES)
    others = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert others <= set(PACKAGES)


# --- the rules can be broken


@pytest.mark.parametrize(
    ("path", "text", "trouble"),
    [
        ("topologies/star.py", "import controller", "topologies/star.py:1: topologies may not import controller"),
        ("topologies/star.py", "from workloads import rounds", "topologies may not import workloads.rounds"),
        (
            "controller/x.py",
            "\nfrom experiments.spec import Spec",
            "controller/x.py:2: controller may not import experiments.spec.Spec",
        ),
        ("workloads/x.py", "import lab.boot as boot", "workloads may not import lab.boot"),
        ("workloads/t/x.py", "from analysis import run", "workloads may not import analysis.run"),
        ("analysis/x.py", "from topologies import qdisc", "analysis may not import topologies.qdisc"),
        ("analysis/x.py", "from topologies.unit import x", "analysis may not import topologies.unit.x"),
        (
            "analysis/x.py",
            "def f():\n    from lab.boot import run",
            "analysis/x.py:2: analysis may not import lab.boot.run",
        ),
        ("lab/x.py", "from topologies.units import BadRequest", "lab may not import topologies.units.BadRequest"),
        (
            "lab/x.py",
            "import importlib\nimportlib.import_module('experiments.cli')",
            "lab may not import experiments.cli",
        ),
        ("lab/x.py", "__import__(f'experiments.{1}')", "lab may not import experiments"),
        ("lab/x.py", "import importlib\nimportlib.import_module(name)", "lab/x.py:2: lab may not import ?"),
        (
            "experiments/x.py",
            "from mininet.net import Mininet",
            "mininet.net.Mininet is for topologies/emulate.py, experiments/bench_mininet.py alone",
        ),
        (
            "topologies/star.py",
            "import mininet.net",
            "mininet.net is for topologies/emulate.py, experiments/bench_mininet.py alone",
        ),
        (
            "controller/marking.py",
            "from ryu.base import app_manager",
            "is for controller/framework.py alone",
        ),
        ("topologies/x.py", "from ..controller import marking", "topologies may not import controller.marking"),
    ],
)
def test_a_broken_arrow_is_found(path: str, text: str, trouble: str) -> None:
    (line,) = broken_arrows({path: text})
    assert trouble in line


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("analysis/x.py", "from topologies.units import BadRequest"),
        ("analysis/x.py", "import topologies.units"),
        ("analysis/x.py", "from analysis import flows\nimport numpy\nfrom . import flows"),
        ("workloads/transport/x.py", "from topologies.emulate import Fabric\nfrom controller import telemetry"),
        ("topologies/emulate.py", "from mininet.net import Mininet"),
        ("topologies/star.py", "from mininet.topo import Topo"),
        ("controller/framework.py", "from ryu.base import app_manager"),
        ("experiments/x.py", "import importlib\nimportlib.import_module(f'experiments.{name}')"),
    ],
)
def test_what_is_allowed_is_not_found(path: str, text: str) -> None:
    assert broken_arrows({path: text}) == []


def test_a_second_speaker_to_the_queues_is_found() -> None:
    found = {"workloads/x.py": "from topologies.netlink import RTM_GETQDISC", "topologies/qdisc.py": "RTM_GETQDISC"}
    assert broken_queue_fence(found) == ["workloads/x.py"]


def test_a_cycle_is_found() -> None:
    found = {
        "lab/a.py": "from lab import b",
        "lab/b.py": "def f():\n    from lab.c import thing",
        "lab/c.py": "import lab.a",
        "lab/d.py": "from lab.a import thing\nfrom lab import e",
        "lab/e.py": "import os",
        "lab/__init__.py": "from lab.d import thing",
    }
    assert cycles(found) == ["lab.a", "lab.b", "lab.c"]
    assert cycles({**found, "lab/c.py": "import os"}) == []
