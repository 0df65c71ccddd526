"""What this machine carries on the real clock: the highest faithful rate for so many hosts, as `run_experiment
calibrate` has found and stored it, and what a spec above it is told (pure but for the file)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.spec import Spec, known
from lab.cache import own_cache
from topologies.units import BadRequest, format_rate

FILE_NAME = "calibration.json"
FORMAT = 1
FEWEST_HOSTS, DEFAULT_HOSTS = 3, 9


@dataclass(frozen=True)
class Machine:
    """What a calibration holds for: the place, its kernel, the processor and how many cores of it may be used."""

    place: str
    kernel: str
    processor: str
    cores: int

    @staticmethod
    def of(place: str, kernel: str) -> Machine:
        """This machine."""
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "CPU part")))
        return Machine(place, kernel, next(names, "unknown"), len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Calibration:
    """The highest rate at which a star of `hosts` hosts was faithful, all others sending to one (0: none that was
    tried), and the lowest at which it was not (None: it was at every one)."""

    machine: Machine
    hosts: int
    rate_bps: int
    unfaithful_bps: int | None
    date: str


def path() -> Path:
    """Where calibrations are kept."""
    return own_cache() / FILE_NAME


def load(file: Path) -> list[Calibration]:
    """Every stored calibration; raises BadRequest for a file that is none."""
    try:
        document = json.loads(file.read_text())
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}")
        found = [Calibration(**{**each, "machine": Machine(**each["machine"])}) for each in document["calibrations"]]
        for each in found:
            _check(each)
        return found
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadRequest(
            f"{file}: is no calibration ({error}); allowed: one that `run_experiment calibrate` wrote, or none"
        ) from None


_LEAST = {"hosts": FEWEST_HOSTS, "rate_bps": 0, "unfaithful_bps": 1, "cores": 1}  # all others are words


def _check(found: Calibration) -> None:
    """That every value is of its kind; raises ValueError that names the first which is not."""
    for name, value in (*vars(found.machine).items(), *vars(found).items()):
        if name == "machine" or (name == "unfaithful_bps" and value is None):
            continue
        if name not in _LEAST and not isinstance(value, str):
            raise ValueError(f"{name}: {value!r}, where words belong")
        if name in _LEAST and (type(value) is not int or value < _LEAST[name]):
            raise ValueError(f"{name}: {value!r}, where a whole number from {_LEAST[name]} belongs")


def store(file: Path, found: Calibration) -> None:
    """Keep `found` in place of an earlier one of the same machine and number of hosts; whole, or not at all: raises
    OSError when it cannot be written, BadRequest when the file is no calibration."""
    kept = [each for each in load(file) if (each.machine, each.hosts) != (found.machine, found.hosts)]
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    document = {"format": FORMAT, "calibrations": [asdict(each) for each in [*kept, found]]}
    try:
        part.write_text(json.dumps(document, indent=1))
        part.replace(file)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def fitting(calibrations: Iterable[Calibration], machine: Machine, hosts: int) -> Calibration | None:
    """The calibration to go by: of this machine, with so many hosts or the next more; None without one."""
    found = [each for each in calibrations if each.machine == machine and each.hosts >= hosts]
    return min(found, key=lambda each: each.hosts, default=None)


def warnings(specs: Mapping[str, Spec], calibrations: Iterable[Calibration], machine: Machine) -> list[str]:
    """What is to be said before resolved specs (by label) run on the real clock: a line for each whose links are faster
    than was found faithful, and one when nothing is known."""
    most = max(known(spec.hosts) for spec in specs.values())
    found = fitting(calibrations, machine, most)
    if found is None:
        return [
            f"real clock: nobody knows yet what this machine carries with {most} hosts:"
            f" ./run_experiment calibrate --hosts {most} --on {machine.place} finds out"
        ]
    carried = format_rate(found.rate_bps) if found.rate_bps else "nothing that was tried"
    limit = f"this machine carries {carried} faithfully with {found.hosts} hosts (calibrated {found.date})"
    return [
        f"{label}: rate: {format_rate(max(spec.link_rates_bps))} is given, and {limit}: expect an unfaithful run"
        for label, spec in specs.items()
        if max(spec.link_rates_bps) > found.rate_bps
    ]
