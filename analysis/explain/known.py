"""What is known beside the captures: of a run directory its spec and the names of its flows and hosts.

A capture in a folder `pcap` whose neighbour is a spec.yaml belongs to a run directory. Its spec then tells what the
packets can only suggest, and measured.json and fabric.json tell what flows and hosts are called. A file of them that is
missing or damaged tells nothing, and takes nothing else away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.capture.source import CAPTURE_ENDINGS
from analysis.fidelity import Fidelity, judge
from analysis.printable import printable
from analysis.run import Run
from analysis.spec import Parameters, parameters, read_spec
from analysis.text import natural
from analysis.transport.recovery import Recovery
from topologies.units import BadRequest, format_bytes, format_duration, format_rate

SPEC, CAPTURES = "spec.yaml", "pcap"

Names = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Known:
    """What a run directory tells: the file it was read from, the senders' loss recovery, the links' rate, the hot
    port's buffer and name, the lab's clock and, on the real one, whether the run can be trusted, hosts by address, and
    what flows (source, destination) are called; fabric is the document of fabric.json. None or empty: it does not
    tell."""

    source: str = ""
    recovery: Recovery | None = None
    rate_bps: int | None = None
    buffer_bytes: int | None = None
    hot_port: str | None = None
    clock: str | None = None
    fidelity: Fidelity | None = None
    hosts: Mapping[str, str] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    fabric: Mapping[str, Any] | None = None

    def words(self) -> str:
        """What was taken from the spec, in one sentence; empty when nothing was."""
        recovery, told = self.recovery, []
        if recovery is not None:
            on = [name for name, is_on in (("TLP", recovery.tlp), ("RACK", recovery.rack)) if is_on]
            told.append(f"RTOmin {format_duration(recovery.rto_min_ns)}, {' and '.join(on) or 'neither TLP nor RACK'}")
        told += [f"links of {format_rate(self.rate_bps)}"] if self.rate_bps else []
        told += [f"a buffer of {format_bytes(self.buffer_bytes)}"] if self.buffer_bytes else []
        told += ["names of flows"] if self.names else []
        return f"{self.source} tells: {'; '.join(told)}" if told else ""


def shown_safely(known: Known) -> Known:
    """What is known, with names that can be shown on a terminal."""
    return replace(
        known,
        source=printable(known.source),
        hot_port=known.hot_port and printable(known.hot_port),
        hosts={address: printable(name) for address, name in known.hosts.items()},
        names={ends: printable(name) for ends, name in known.names.items()},
    )


def captures_in(folder: Path) -> list[Path]:
    """The captures of a run directory (its pcap/), or of any folder, in their natural order; raises BadRequest without
    one."""
    inside = folder / CAPTURES if (folder / CAPTURES).is_dir() else folder
    try:
        found = [path for path in inside.iterdir() if path.name.lower().endswith(CAPTURE_ENDINGS) and path.is_file()]
    except OSError as error:
        raise BadRequest(f"{inside}: cannot be read: {error.strerror}") from error
    if not found:
        endings = ", ".join(CAPTURE_ENDINGS)
        raise BadRequest(f"{folder}: holds no capture; allowed: a capture, or a folder with {endings}")
    return sorted(found, key=lambda path: natural(path.name))


def known_beside(captures: Sequence[str | Path]) -> Known | None:
    """What the run directory that all these captures lie in tells; None where they lie in none, or in several."""
    folders = {Path(capture).parent for capture in captures if str(capture) != "-"}
    runs = {folder.parent for folder in folders if folder.resolve().name == CAPTURES}
    if len(folders) != 1 or len(runs) != 1 or any(str(capture) == "-" for capture in captures):
        return None
    folder = next(iter(folders))
    run = folder.parent if folder.name == CAPTURES else folder.resolve().parent
    return _known(run) if (run / SPEC).is_file() else None


def _known(run: Path) -> Known:
    measured, fabric = _document(run / "measured.json"), _document(run / "fabric.json")
    return Known(
        source=str(run / SPEC),
        hot_port=_hot_port(measured),
        hosts=_hosts(fabric),
        names=_names(measured),
        fabric=fabric or None,
        fidelity=_fidelity(run),
        **_settings(run / SPEC, fabric),
    )


def _fidelity(run: Path) -> Fidelity | None:
    try:
        return judge(Run(run))
    except (BadRequest, LookupError, TypeError, ValueError, AttributeError):
        return None


def _settings(path: Path, fabric: Mapping[str, Any]) -> dict[str, Any]:
    """The spec's part; nothing from a spec that cannot be understood."""
    try:
        spec = read_spec(path)
        told = parameters(spec, fabric)
    except (BadRequest, TypeError, ValueError):
        return {}
    return {
        "recovery": None if told.is_roce else _recovery(told, spec),
        "rate_bps": told.path.rate_bps,
        "buffer_bytes": told.buffer_bytes,
        "clock": str(spec.get("clock")),
    }


def _recovery(told: Parameters, spec: Mapping[str, Any]) -> Recovery:
    return Recovery(told.rto_min_ns, told.tlp, told.rack, spec.get("sack") is not False)


def _document(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _entries(document: Mapping[str, Any], key: str, needed: Sequence[str]) -> list[dict[str, str]]:
    """The mappings in the list at `key` that have texts at all the keys needed."""
    listed = document.get(key)
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [each for each in found if all(isinstance(each.get(name), str) for name in needed)]


def _hosts(fabric: Mapping[str, Any]) -> dict[str, str]:
    return {each["ip"]: each["name"] for each in _entries(fabric, "hosts", ("ip", "name"))}


def _names(measured: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    found = _entries(measured, "flows", ("flow", "source", "destination"))
    return {(each["source"], each["destination"]): each["flow"] for each in found}


def _hot_port(measured: Mapping[str, Any]) -> str | None:
    ports = measured.get("ports")
    marked = ports.items() if isinstance(ports, dict) else ()
    return next((name for name, port in marked if isinstance(port, dict) and port.get("hot")), None)
