"""The commands that tell what there is: `list` and `topo`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from experiments import fabrics, limits, request, screen
from experiments.catalog import catalog
from experiments.commands.concluding import keep_matplotlib_at_home
from experiments.spec import Spec, as_typed, parse
from topologies.describe import FabricDescription
from topologies.units import BadRequest

DRAWINGS = (".png", ".svg", ".pdf")
_ALL_COLUMNS, _FIRST = 110, 2  # of a terminal that has room for all about experiments; what narrower ones show of it


def list_all(arguments: argparse.Namespace) -> None:
    """Every experiment, or every key of a spec."""
    if arguments.keys:
        rows = [
            {
                "key": item.metadata["name"],
                "default": as_typed(item.metadata["kind"].format(item.default)),
                "allowed": item.metadata["kind"].allowed,
                "meaning": item.metadata["help"],
            }
            for item in fields(Spec)
        ]
        title = "spec keys (--set KEY=VALUE)"
    else:
        rows = [{"experiment": item.name, **item.asks} for item in catalog().values()]
        title = "experiments (run_experiment NAME)"
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    columns = list(rows[0])
    if not arguments.keys and screen.width() < _ALL_COLUMNS:
        columns = columns[:_FIRST]
    screen.table(title, columns, [[str(row[column]) for column in columns] for row in rows])
    if len(columns) < len(rows[0]):
        print(f"{' and '.join(list(rows[0])[_FIRST:])}: in a wider terminal, and in docs/reference/experiments.md")


def topo(arguments: argparse.Namespace) -> None:
    """A fabric on paper."""
    if arguments.draw is not None and arguments.draw.suffix not in DRAWINGS:
        raise BadRequest(f"--draw: {arguments.draw} is given; allowed: a name that ends in {', '.join(DRAWINGS)}")
    spec = limits.resolve(parse(with_topology(arguments.topology, request.from_words(arguments.set))))
    described = fabrics.document(spec)
    from analysis.fabric import fabric_title

    said = [fabric_title(described)]
    if arguments.draw is not None:
        with _writing("--draw", arguments.draw):
            _draw(described, arguments.draw)
        said.append(f"drawing: {arguments.draw}")
    if arguments.orders is not None:
        orders = json.dumps(fabrics.routing_orders(spec, FabricDescription.from_json(described)).as_json())
        with _writing("--orders", arguments.orders):
            arguments.orders.write_text(orders)
        said.append(f"orders: {arguments.orders}")
    print(json.dumps(described, indent=1) if arguments.json else "\n".join(said))


def with_topology(topology: str, given: dict[str, str]) -> dict[str, str]:
    """The keys with the topology that was asked for by name; raises BadRequest when they ask for another one."""
    if given.get("topology", topology) != topology:
        raise BadRequest(f"topology: {given['topology']} is given beside {topology}; allowed: one of them")
    return {**given, "topology": topology}


@contextmanager
def _writing(option: str, path: Path) -> Iterator[None]:
    """A file that cannot be written is a bad request."""
    try:
        yield
    except OSError as error:
        raise BadRequest(
            f"{option}: {path} cannot be written ({error.strerror}); allowed: a file that you may write"
        ) from None


def _draw(described: dict[str, Any], path: Path) -> None:
    """The fabric's drawing as a file."""
    keep_matplotlib_at_home()
    from analysis.fabric import fabric_title
    from analysis.figures.draw import draw_fabric

    draw_fabric(described, path, fabric_title(described))
