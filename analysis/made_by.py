"""What runs that belong together were made by: facts for a document, and a sentence for its readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis import text


def facts(provenances: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all runs were made by: each fact once, in the order of its values."""

    def values(*path: str) -> list[Any]:
        found = {_at(each, path) for each in provenances} - {None}
        return sorted(found)

    return {
        "fabriclab": values("fabriclab"),
        "git_commit": values("git_commit"),
        "kernel": values("kernel", "version"),
        "seed": values("seed"),
        "clock": values("clock"),
        "python": values("python"),
        "date": max(values("ended"), default=None),
        "runs": len(provenances),
        "core_s": round(sum(_at(each, ("wall", "total_s")) or 0.0 for each in provenances), 1),
    }


def _at(provenance: Mapping[str, Any], path: Sequence[str]) -> Any:
    """What a path of keys leads to; None where it ends before."""
    found: Any = provenance
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def words(found: Mapping[str, Any]) -> str:
    """The facts in a sentence."""

    def listed(name: str) -> str:
        return ", ".join(map(str, found[name])) or "unknown"

    return (
        f"fabriclab {listed('fabriclab')} at commit {listed('git_commit')}, lab kernel {listed('kernel')}, seed "
        f"{listed('seed')}, {listed('clock')} clock, Python {listed('python')}, {str(found['date'])[:10]}: "
        f"{text.counted(found['runs'], 'run')}, {text.digits(found['core_s'] / 60)} minutes of one core."
    )
