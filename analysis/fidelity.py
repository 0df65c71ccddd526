"""Whether a run on the real clock can be trusted: what the machine did while it lasted, beside limits that follow from
what a packet must not notice.

In virtual time computing takes no time. On the real clock a CPU that is late looks like a network that is slow, so that
a run is faithful only when every limit was measured and holds. A limit without its measurement decides nothing by
silence: the run is then "not measured", unless another limit is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analysis import shaping, text
from analysis.parquet import read_columns
from analysis.patience import patience
from analysis.run import UNFINISHED, Run
from analysis.shaping_ports import Port, shaped_ports
from topologies.units import BadRequest

FAITHFUL, UNFAITHFUL, NOT_MEASURED = "faithful", "unfaithful", "not measured"
VIRTUAL = "virtual"

# The CPUs' idle time is told in ticks of 10 ms, and looked at every 100 ms: with less than one tick in ten nothing
# shows that they were not full all the time, and where all are full, work that becomes due waits.
LEAST_IDLE_SHARE = 0.1
# The process that plays the hosts has one CPU at most: what is left is what it could have done more.
MOST_HOSTS_SHARE = 0.9
FEWEST_NAPS = 20  # of which the 99th percentile is the latest
# Half of what a collapse verdict could bear, and what a comparison with virtual time asks for.
MOST_RATE_ERROR_SHARE = 0.02
# Faster or slower than this the kernel's own steering never makes the clock (MAXFREQ, linux/timex.h): what is more, was
# set.
MOST_STEERING = 500e-6
_LOSSLESS = "pfc"  # the kind of a port's queue of the lossless class
_WINDOW_NS, _FULL = 100_000_000, 0.5  # between two looks; one of less than half of that says little
_TOO_SHORT = "no 100 ms that the rounds fill: more rounds, or larger blocks"
_WAKES = ("time_ns", "late_ns")
_MACHINE = ("time_ns", "idle_ns", "hosts_ns", "dropped", "squeezed", "offset_ns", "reading_ns")


@dataclass(frozen=True)
class Limit:
    """One limit: what was measured (None: it was not), the most or the least that is allowed (the other is None),
    their unit ("s", "share", "packets"), what of it in words, whether it holds (None: not measured), why it is what it
    is, and where it was read, or why it was not."""

    name: str
    measured: float | None
    most: float | None
    least: float | None
    unit: str
    what: str
    holds: bool | None
    because: str
    source: str

    @property
    def allowed(self) -> str:
        """The limit in words: "at most 4.8 ms"."""
        if self.least is not None:
            return f"at least {quantity(self.least, self.unit)}"
        return text.NOTHING if self.most is None else f"at most {quantity(self.most, self.unit)}"

    @property
    def words(self) -> str:
        """The measurement beside the limit: "run-queue delay 6.1 ms at the 99th percentile (at most 4.8 ms)"."""
        what = f" {self.what}" if self.what else ""
        return f"{self.name} {quantity(self.measured, self.unit)}{what} ({self.allowed})"


@dataclass(frozen=True)
class Fidelity:
    """The verdict (FAITHFUL, UNFAITHFUL or NOT_MEASURED) and the limits that it rests on."""

    verdict: str
    limits: tuple[Limit, ...]

    @property
    def broken(self) -> tuple[Limit, ...]:
        """The limits that do not hold."""
        return tuple(limit for limit in self.limits if limit.holds is False)

    @property
    def unmeasured(self) -> tuple[Limit, ...]:
        """The limits of which nothing is known."""
        return tuple(limit for limit in self.limits if limit.holds is None)

    @property
    def words(self) -> str:
        """The verdict with its reasons, in one line."""
        told = [limit.words for limit in self.broken]
        if self.verdict == NOT_MEASURED:
            told = [f"{', '.join(names)} ({source})" for source, names in self._untold().items()]
        return f"{self.verdict}: {'; '.join(told)}" if told else self.verdict

    def _untold(self) -> dict[str, list[str]]:
        """The names of what was not measured, by the reason."""
        found: dict[str, list[str]] = {}
        for limit in self.unmeasured:
            found.setdefault(limit.source, []).append(limit.name)
        return found

    @property
    def advice(self) -> str:
        """What to make of a run that is not known to be faithful."""
        if self.verdict == UNFAITHFUL:
            return "what it shows may be this machine's doing (allowed: a lower rate, --scale, --clock virtual)"
        return "whether it shows the network or this machine is not known"


def quantity(value: float | None, unit: str) -> str:
    """A measured or allowed value in words."""
    if value is None:
        return text.NOTHING
    if unit == "s":
        return text.seconds(value)
    if unit == "share":
        return f"{text.digits(100 * value)} %"
    return f"{text.count(value)} {unit.rstrip('s') if value == 1 else unit}"


@lru_cache(maxsize=64)  # a report asks many times
def judge(run: Run) -> Fidelity | None:
    """How far the run can be trusted, from its files alone; None on the virtual clock, which needs no trust."""
    if run.spec.get("clock") == VIRTUAL:
        return None
    limits = tuple(_limits(run))
    holds = [limit.holds for limit in limits]
    return Fidelity(UNFAITHFUL if False in holds else NOT_MEASURED if None in holds else FAITHFUL, limits)


def _limits(run: Run) -> Iterator[Limit]:
    machine, wakes = _read(run, "machine", _MACHINE), _read(run, "wakes", _WAKES)
    yield _completed(run)
    yield _headroom(run, machine)
    yield _hosts(run, machine)
    yield _run_queue(run, wakes)
    yield from _shaping(run)
    if run.parameters.pfc and not _is_loss_allowed(run):
        yield _lossless(run)
    yield _dropped(machine)
    yield _uncaptured(run)
    yield _stepped(machine)


@dataclass(frozen=True)
class _Asked:
    """What a limit is about: its name, what it measures in words, its unit and why it is what it is."""

    name: str
    what: str
    unit: str
    because: str


@dataclass(frozen=True)
class _Found:
    """What was measured (None: nothing was), and where it was read, or why it was not."""

    measured: float | None
    source: str


def _at_most(asked: _Asked, most: float | None, found: _Found) -> Limit:
    """A limit that holds up to `most`, which nobody knows (None) where nothing was measured."""
    holds = None if found.measured is None or most is None else found.measured <= most
    return Limit(asked.name, found.measured, most, None, asked.unit, asked.what, holds, asked.because, found.source)


def _at_least(asked: _Asked, least: float, found: _Found) -> Limit:
    """A limit that holds from `least` on."""
    holds = None if found.measured is None else found.measured >= least
    return Limit(asked.name, found.measured, None, least, asked.unit, asked.what, holds, asked.because, found.source)


@dataclass(frozen=True, eq=False)
class _Record:
    """A record of the probe: its columns, each (n,), from the last row before the traffic to the first after it, and
    where they are from; without any (empty), `source` says why."""

    columns: dict[str, np.ndarray]
    source: str

    def steps(self, name: str) -> np.ndarray:
        """By how much a column grew from row to row (n - 1,)."""
        return np.diff(self.columns.get(name, np.zeros(0, np.int64)))

    def within(self, span_ns: tuple[int, int] | None, name: str) -> np.ndarray:
        """A column's values of that time (n,)."""
        if span_ns is None or not self.columns:
            return np.zeros(0)
        times = self.columns["time_ns"]
        return self.columns[name][(times >= span_ns[0]) & (times <= span_ns[1])]


def _read(run: Run, name: str, columns: tuple[str, ...]) -> _Record:
    path = f"telemetry/{name}.parquet"
    if run.traffic_ns is None:
        return _Record({}, "measured.json has no finished round")
    try:
        found = read_columns(run.path / path, (), columns, "what the fidelity guard saw")
    except BadRequest as error:
        return _Record({}, str(error).replace(f"{run.path}/", ""))
    first, last = np.searchsorted(found["time_ns"], run.traffic_ns)
    kept = {key: column[max(first - 1, 0) : last + 1] for key, column in found.items()}
    return _Record(kept, path) if len(kept["time_ns"]) > 1 else _Record({}, f"{path} has no rows of the rounds")


def _windows(run: Run, machine: _Record, column: str) -> tuple[np.ndarray, str]:
    """By how much a column of CPU time grew beside the clock, between any two looks that the traffic fills (k,), and
    where this was read, or why there are none."""
    if not machine.columns or run.traffic_ns is None:
        return np.zeros(0), machine.source
    times = machine.columns["time_ns"]
    inside = np.minimum(times[1:], run.traffic_ns[1]) - np.maximum(times[:-1], run.traffic_ns[0])
    length = np.diff(times)
    full = (length >= _FULL * _WINDOW_NS) & (inside >= _FULL * length)
    return machine.steps(column)[full] / length[full], machine.source if full.any() else _TOO_SHORT


def _completed(run: Run) -> Limit:
    """One that ended early, or whose agents did, may have lacked them for longer than anybody knows."""
    is_complete = bool(run.measured.get("complete"))
    asked = _Asked(
        "completion", "of the run", "share", "where a process of the run ended early, what it was to do is missing"
    )
    return _at_least(asked, 1.0, _Found(1.0, "measured.json") if is_complete else _Found(None, UNFINISHED))


def _headroom(run: Run, machine: _Record) -> Limit:
    shares, source = _windows(run, machine, "idle_ns")
    least = float(shares.min()) / run.measured["fidelity"]["cpus"] if len(shares) else None
    because = "with less, work that becomes due finds every CPU busy, and waits"
    asked = _Asked("CPU headroom", "idle in the busiest 100 ms", "share", because)
    return _at_least(asked, LEAST_IDLE_SHARE, _Found(least, source))


def _hosts(run: Run, machine: _Record) -> Limit:
    shares, source = _windows(run, machine, "hosts_ns")
    because = "it plays all hosts on one CPU: where that is full, hosts answer late"
    asked = _Asked("hosts' process", "of one CPU in the busiest 100 ms", "share", because)
    return _at_most(asked, MOST_HOSTS_SHARE, _Found(float(shares.max()) if len(shares) else None, source))


def _run_queue(run: Run, wakes: _Record) -> Limit:
    late_ns = wakes.within(run.traffic_ns, "late_ns")
    allowed = patience(run)
    asked = _Asked("run-queue delay", "at the 99th percentile", "s", allowed.because)
    found = _Found(None, allowed.because) if allowed.most_s is None else _lateness(late_ns, wakes)
    return _at_most(asked, allowed.most_s, found)


def _lateness(late_ns: np.ndarray, wakes: _Record) -> _Found:
    if len(late_ns) >= FEWEST_NAPS:
        return _Found(shaping.percentile_99(late_ns) / 1e9, wakes.source)
    few = f"{text.counted(len(late_ns), 'nap')} of the guard in the rounds, of {FEWEST_NAPS} needed: more rounds"
    return _Found(None, few if wakes.columns else wakes.source)


def _shaping(run: Run) -> Iterator[Limit]:
    """Of the port that kept its rate worst."""
    ports, trouble = shaped_ports(run)
    worst = max(ports, key=lambda each: abs(each.error), default=None)
    shakiest = max(ports, key=lambda each: each.jitter_s / each.saved_s, default=None)
    yield _accuracy(worst, trouble)
    yield _jitter(shakiest, trouble)


def _accuracy(worst: Port | None, trouble: str) -> Limit:
    because = "a rate that is off by more cannot be told from the configured one, nor compared with virtual time's"
    asked = _Asked("shaper accuracy", "off the configured rate", "share", because)
    found = _Found(abs(worst.error), worst.source) if worst else _Found(None, trouble)
    return _at_most(asked, MOST_RATE_ERROR_SHARE, found)


def _jitter(shakiest: Port | None, trouble: str) -> Limit:
    because = "so much of the line's time the shaper's bucket saves up: a timer that is later loses it"
    asked = _Asked("timestamp jitter", "about a frame's time, of 99 gaps in 100", "s", because)
    found = _Found(shakiest.jitter_s, shakiest.source) if shakiest else _Found(None, trouble)
    return _at_most(asked, shakiest.saved_s if shakiest else None, found)


def _is_loss_allowed(run: Run) -> bool:
    """Whether the spec asks for less room than pauses need: then a loss need not be the machine's."""
    return run.spec.get("allow_loss") in (True, "on")


def _lossless(run: Run) -> Limit:
    """What a watchdog discarded was not lost for want of room."""
    queues = [queue for port in run.measured.get("ports", {}).values() for queue in port.get("qdiscs", ())]
    lost = [queue.get("drops", 0) - queue.get("discards", 0) for queue in queues if queue.get("kind") == _LOSSLESS]
    because = (
        "with pauses in time nothing is lost, as in virtual time: what is lost here, a process paused too late for"
    )
    source = f"queue counters of {text.counted(len(lost), 'port')}"
    found = _Found(sum(lost), source) if lost else _Found(None, "no port of measured.json has a lossless class")
    return _at_most(_Asked("lossless drops", "", "packets", because), 0, found)


def _dropped(machine: _Record) -> Limit:
    because = "no switch or NIC of the fabric dropped them: the kernel had no room for them between two of its queues"
    asked = _Asked("softnet drops", "", "packets", because)
    if not machine.columns:
        return _at_most(asked, 0, _Found(None, machine.source))
    source = f"{machine.source}; a CPU put work off {int(machine.steps('squeezed').sum())} times"
    return _at_most(asked, 0, _Found(int(machine.steps("dropped").sum()), source))


def _uncaptured(run: Run) -> Limit:
    losses = run.measured.get("capture", {})
    asked = _Asked("capture losses", "", "packets", "what a capture lacks looks like loss in the network")
    source = f"tcpdump's own count at {text.counted(len(losses), 'point')}"
    return _at_most(asked, 0, _Found(sum(losses.values()), source) if losses else _Found(None, "nothing was captured"))


def _stepped(machine: _Record) -> Limit:
    """How far the clock of the time stamps was moved against one that nobody moves, less what reading both may err."""
    moved_ns = np.abs(machine.steps("offset_ns"))
    reading_ns = machine.columns.get("reading_ns", np.zeros(1, np.int64))
    sure_ns = np.maximum(moved_ns - (reading_ns[1:] + reading_ns[:-1]) / 2, 0)
    longest_ns = float(machine.steps("time_ns").max(initial=_WINDOW_NS))
    because = "the kernel steers its clock by 500 ppm at most: what is more was set, and intervals across it are wrong"
    asked = _Asked("clock steps", "between two looks", "s", because)
    measured_s = float(sure_ns.max(initial=0)) / 1e9 if machine.columns else None
    return _at_most(asked, MOST_STEERING * longest_ns / 1e9, _Found(measured_s, machine.source))
