"""What a user asks for, from the command line's words and YAML files: the only reader of YAML that a stranger wrote.

A file is read as text alone: no types are guessed (`010`, `1:30` and `2020-01-01` stay what they are), aliases and
duplicate keys are refused, and a file that cannot be a spec is not read at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from experiments.catalog import Experiment, find
from experiments.rundir import DESCRIBING_KEYS, TIME_SCALE
from topologies.plugins import located
from topologies.units import BadRequest

CLOCKS = ("virtual", "real")
_LARGEST_FILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Request:
    """An experiment, the spec keys that were set (as text), and the clock and the scale that a file names, if it
    does."""

    experiment: Experiment
    keys: Mapping[str, Any]
    clock: str | None = None
    time_scale: str | None = None


class _TextLoader(yaml.BaseLoader):
    """Every scalar is its text; an alias, or a key given twice, is an error."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Refuse aliases: a spec has no use for them, and a small file of them can describe a very large one."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key given twice."""
        names = [key.value for key, _ in node.value]
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            raise yaml.YAMLError(f"{', '.join(twice)}: given twice")
        return super().construct_mapping(node, deep)


def from_words(words: Sequence[str]) -> dict[str, str]:
    """Spec keys in KEY=VALUE words; raises BadRequest for a word without "="."""
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BadRequest(f"--set: {word!r} is given; allowed: KEY=VALUE")
        given[name] = value
    return given


def requested(name: str) -> Request:
    """The experiment that a name or a YAML file asks for; raises BadRequest when there is none."""
    if not name.endswith((".yaml", ".yml")):
        return Request(find(name), {})
    document = _read(Path(name))
    experiment = document.get("experiment") if isinstance(document, dict) else None
    if not isinstance(experiment, str):
        raise BadRequest(f"{name}: has no key 'experiment'; allowed: a mapping of spec keys and 'experiment'")
    clock = document.get("clock")
    if clock is not None and clock not in CLOCKS:
        raise BadRequest(f"clock: {clock!r} is unknown; allowed: {', '.join(CLOCKS)}")
    keys = {key: value for key, value in document.items() if key not in DESCRIBING_KEYS}
    keys = located(keys, Path(name).parent)
    time_scale = document.get(TIME_SCALE)
    return Request(find(experiment), keys, clock, None if time_scale is None else str(time_scale))


def listed(path: Path) -> list[dict[str, Any]]:
    """The points of a sweep in a YAML file: a list of mappings of spec keys; raises BadRequest for anything else."""
    found = _read(path)
    if not isinstance(found, list) or not all(isinstance(each, dict) and each for each in found):
        raise BadRequest(f"{path}: is no list of points; allowed: a list in YAML, each item a mapping of spec keys")
    if not found:
        raise BadRequest(f"{path}: is an empty list; allowed: one point or more")
    return found


def _read(path: Path) -> Any:
    """The file's content as text, lists and mappings."""
    try:
        if not path.is_file():
            raise BadRequest(f"{path}: is no file; allowed: a YAML file")
        if path.stat().st_size > _LARGEST_FILE_BYTES:
            raise BadRequest(f"{path}: has {path.stat().st_size} bytes; allowed: up to {_LARGEST_FILE_BYTES}")
        return yaml.load(path.read_text(), Loader=_TextLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: cannot be read ({error})") from None
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        raise BadRequest(f"{path}: is no spec in YAML ({' '.join(str(error).split())})") from None
