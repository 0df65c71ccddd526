"""Finds the highest rate that this machine carries faithfully on the real clock: an incast of N - 1 senders in rounds,
about a second of it, at one rate after the other, each judged by the fidelity guard."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from experiments import fabrics, limits, records, rundir
from experiments.calibrate_inside import END
from experiments.calibration import Calibration, Machine
from experiments.places import run_job
from experiments.runner import RunFailed, Setting, guest_environment, kernel_facts, last_word
from experiments.spec import Spec, parse
from lab.session import Event, Job, Stop
from topologies import trial
from topologies.ground import MACHINE
from topologies.units import format_rate

LADDER_BPS = tuple(digit * 10**power for power in range(7, 11) for digit in (1, 2, 5))[:10]  # 10 Mb/s to 10 Gb/s
_HALVINGS = 2
_TRIES = 2  # a machine that others use is unlucky now and then
WATCHDOG_S = 240.0  # of all steps
_SRU_BYTES = 256 * 1024  # an incast's own
_TRAFFIC_S = 1  # of rounds: some fifty of the guard's naps
_ROOM = 1.25  # of a round, for headers: its buffer loses nothing, so that no round rests until a timeout


@dataclass(frozen=True)
class Step:
    """One rate, tried: its verdict, and the limits that it broke in words."""

    rate_bps: int
    verdict: str
    because: str

    @property
    def is_faithful(self) -> bool:
        """Whether the guard had nothing to say against it."""
        from analysis.fidelity import FAITHFUL

        return self.verdict == FAITHFUL


@dataclass
class Search:
    """Which rate to try next: up the ladder to the first that is not faithful, then twice between the two."""

    steps: list[Step] = field(default_factory=list)

    @property
    def faithful_bps(self) -> int:
        """The highest faithful rate so far below every unfaithful one, 0 without one."""
        rates = [step.rate_bps for step in self.steps if step.is_faithful]
        return max((rate for rate in rates if self.unfaithful_bps is None or rate < self.unfaithful_bps), default=0)

    @property
    def unfaithful_bps(self) -> int | None:
        """The lowest rate that was unfaithful each time that it was tried, None without one."""
        tried: dict[int, list[bool]] = {}
        for step in self.steps:
            tried.setdefault(step.rate_bps, []).append(step.is_faithful)
        return min((rate for rate, each in tried.items() if len(each) == _TRIES and not any(each)), default=None)

    def next_bps(self) -> int | None:
        """The rate to try, None at the end."""
        if self.steps and not self.steps[-1].is_faithful and self.steps[-1].rate_bps != self.unfaithful_bps:
            return self.steps[-1].rate_bps  # once more
        if self.unfaithful_bps is None:
            return next((rate for rate in LADDER_BPS if rate > self.faithful_bps), None)
        halved = len({step.rate_bps for step in self.steps} - set(LADDER_BPS))
        between = _between(self.faithful_bps, self.unfaithful_bps)
        return between if self.faithful_bps and halved < _HALVINGS else None


def _between(low_bps: int, high_bps: int) -> int:
    """The geometric mean, to two digits."""
    mean = (low_bps * high_bps) ** 0.5
    step = 10 ** (len(str(int(mean))) - 2)
    return round(mean / step) * step


def step_spec(hosts: int, rate_bps: int, has_delay: bool) -> Spec:
    """About a second of incast at one rate, resolved: rounds of 256 KiB a sender, or a single smaller one."""
    still = {} if has_delay else {"delay": "0ns", "switch_delay": "0ns"}
    senders, second_bytes = hosts - 1, rate_bps * _TRAFFIC_S // 8
    sru_bytes = min(_SRU_BYTES, second_bytes // senders)
    round_bytes = sru_bytes * senders
    asked = {
        "workload": "incast",
        "capture": "all",
        "hosts": hosts,
        "rate": format_rate(rate_bps),
        "bytes": f"{sru_bytes}B",
        "rounds": round(second_bytes / round_bytes),
        "buffer": f"{round(_ROOM * round_bytes)}B",
    }
    return limits.resolve(parse({**asked, **still}))


class _Ladder:
    """Hands one step after the other to the guest in `folder`, and judges each."""

    def __init__(self, folder: Path, hosts: int, has_delay: bool, on_step: Callable[[Step], None]) -> None:
        self.search, self._folder, self._hosts, self._has_delay = Search(), folder, hosts, has_delay
        self._on_step = on_step
        self._order()

    def note(self, event: Event, wall_s: float) -> None:
        """An event of the guest: a step that is over is judged, and the next is ordered."""
        if event["event"] != "step":
            return
        step = self._judged(self._folder / str(event["number"]))
        self.search.steps.append(step)
        self._on_step(step)
        self._order()

    def _order(self) -> None:
        rate_bps = self.search.next_bps()
        if rate_bps is None:
            (self._folder / END).touch()
            return
        spec, number = step_spec(self._hosts, rate_bps, self._has_delay), len(self.search.steps)
        part = self._folder / f"{number}.part"
        part.mkdir()
        rundir.write_spec(part, spec, experiment="calibrate", label=str(number), clock="real")
        rundir.write_fabric(part, fabrics.document(spec))
        part.rename(self._folder / str(number))  # whole before it is seen

    @staticmethod
    def _judged(folder: Path) -> Step:
        from analysis.fidelity import judge
        from analysis.run import Run

        records.convert(folder)
        found, spec = judge(Run(folder)), rundir.read_spec(folder)
        assert found is not None  # every step is on the real clock
        because = "; ".join(limit.words for limit in found.broken or found.unmeasured)
        return Step(spec.rate_bps, found.verdict, because)


def machine(setting: Setting) -> Machine:
    """The machine, and the kernel on it, that the setting's real clock runs on."""
    facts = kernel_facts(setting.kernel, setting.real_on)
    return Machine.of(setting.real_on, " ".join(filter(None, (facts["version"], facts["config_hash"]))))


def calibrate(
    folder: Path, hosts: int, setting: Setting, stop: Stop, on_step: Callable[[Step], None] = lambda step: None
) -> Calibration:
    """Calibrate the place of the setting's real clock, with run directories of all steps in `folder`, which is empty;
    raises RunFailed when it does not come to an end."""
    place = setting.real_on
    has_delay = place != MACHINE or "netem" in trial.kinds()
    ladder = _Ladder(folder, hosts, has_delay, on_step)
    job = Job(
        argv=(sys.executable, "-m", "experiments.calibrate_inside", str(folder), place),
        results=folder,
        env=guest_environment(place),
        cwd=rundir.ROOT,
        memory_bytes=limits.memory_bytes(step_spec(hosts, LADDER_BPS[-1], has_delay)),
        clock="real",
        watchdog_s=setting.watchdog_s,
    )
    errors = io.BytesIO()
    outcome = run_job(place, setting.kernel, job, ladder.note, stop, stdout=errors, stderr=errors)
    if outcome.status or outcome.ended_as != "done":
        last = last_word((*outcome.log, *errors.getvalue().decode(errors="replace").splitlines()))
        raise RunFailed(f"calibrate: {outcome.ended_as}{last and f': {last}'}")
    found = ladder.search
    return Calibration(
        machine(setting),
        hosts,
        found.faithful_bps,
        found.unfaithful_bps,
        time.strftime("%Y-%m-%d"),
    )
