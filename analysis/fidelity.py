"""Whether a run on the real clock can be trusted: what the machine did while it lasted, beside limits that follow from
what a packet must not notice.

In virtual time computing takes no time. On the real clock a CPU that is late looks like a network that is slow, so that
a run is faithful only when every limit was measured and holds. A limit without its measurement decides nothing by
silence: the run is then "not measured", unless another limit is broken.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from analysis import shaping, text
from analysis.parquet import read_columns
from analysis.run import Run
from analysis.shaping_ports import shaped_ports
from topologies.units import BadRequest

FAITHFUL, UNFAITHFUL, NOT_MEASURED = "faithful", "unfaithful", "not measured"
VIRTUAL = "virtual"

# The CPUs' idle time is told in ticks of 10 ms, and looked at every 100 ms: with less than one tick in ten nothing
# shows that they were not full all the time, and where all are full, work that becomes due waits.
LEAST_IDLE = 0.1
# The process that plays the hosts has one CPU at most: what is left is what it could have done more.
MOST_HOSTS = 0.9
# Of a round, or of the time in which a port's buffer drains where processes decide when packets leave.
MOST_LATE = 0.1
_PACED_BY_THE_KERNEL = ("incast", "permutation", "all_to_all", "long_flows", "iperf3")
FEWEST_NAPS = 20  # of which the 99th percentile is the latest
MOST_RATE_ERROR = 0.02  # half of what a collapse verdict could bear, and what a comparison with virtual time asks for
# Faster or slower than this the kernel's own steering never makes the clock (MAXFREQ, linux/timex.h): what is more, was
# set.
MOST_STEERING = 500e-6
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
    yield _headroom(run, machine)
    yield _hosts(run, machine)
    yield _run_queue(run, wakes)
    yield from _shaping(run)
    yield _dropped(machine)
    yield _uncaptured(run)
    yield _stepped(machine)


def _limit(
    name: str,
    measured: float | None,
    unit: str,
    because: str,
    source: str,
    most: float | None = None,
    least: float | None = None,
    what: str = "",
) -> Limit:
    holds = None if measured is None else measured <= most if most is not None else measured >= (least or 0.0)
    return Limit(name, measured, most, least, unit, what, holds, because, source)


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


def _shares(run: Run, machine: _Record, name: str) -> np.ndarray:
    """By how much a column of CPU time grew beside the clock, between any two looks that the traffic fills."""
    if not machine.columns or run.traffic_ns is None:
        return np.zeros(0)
    times = machine.columns["time_ns"]
    inside = np.minimum(times[1:], run.traffic_ns[1]) - np.maximum(times[:-1], run.traffic_ns[0])
    length = np.diff(times)
    full = (length >= _FULL * _WINDOW_NS) & (inside >= _FULL * length)
    return machine.steps(name)[full] / length[full]


def _headroom(run: Run, machine: _Record) -> Limit:
    shares = _shares(run, machine, "idle_ns")
    least = float(shares.min()) / run.measured["fidelity"]["cpus"] if len(shares) else None
    return _limit(
        "CPU headroom",
        least,
        "share",
        "with less, work that becomes due finds every CPU busy, and waits",
        machine.source if len(shares) or not machine.columns else _TOO_SHORT,
        least=LEAST_IDLE,
        what="idle in the busiest 100 ms",
    )


def _hosts(run: Run, machine: _Record) -> Limit:
    shares = _shares(run, machine, "hosts_ns")
    return _limit(
        "hosts' process",
        float(shares.max()) if len(shares) else None,
        "share",
        "it plays all hosts on one CPU: where that is full, hosts answer late",
        machine.source if len(shares) or not machine.columns else _TOO_SHORT,
        most=MOST_HOSTS,
        what="of one CPU in the busiest 100 ms",
    )


def _run_queue(run: Run, wakes: _Record) -> Limit:
    late_ns = wakes.within(run.traffic_ns, "late_ns")
    enough = len(late_ns) >= FEWEST_NAPS
    span_s, because = _patience(run)
    few = f"{text.counted(len(late_ns), 'nap')} of the guard in the rounds, of {FEWEST_NAPS} needed: more rounds"
    return _limit(
        "run-queue delay",
        shaping.percentile_99(late_ns) / 1e9 if enough else None,
        "s",
        because,
        wakes.source if enough or not wakes.columns else few,
        most=MOST_LATE * span_s,
        what="at the 99th percentile",
    )


def _patience(run: Run) -> tuple[float, str]:
    """The time (s) of which processes may be late a tenth, and why it is that one."""
    if run.workload in _PACED_BY_THE_KERNEL and run.rounds:
        round_s = statistics.median(each.end_ns - each.start_ns for each in run.rounds) / 1e9
        return round_s, (
            f"a tenth of the median round of {text.seconds(round_s)}: hosts only begin flows and see them end, and what"
            " their packets wait for is the shaper's, judged below"
        )
    drain_s = run.parameters.buffer_bytes * 8 / run.parameters.path.rate_bps
    return drain_s, (
        f"a tenth of the {text.seconds(drain_s)} in which the buffer of a port drains: by so much of it a late host"
        " moves the queue"
    )


def _shaping(run: Run) -> Iterator[Limit]:
    """Of the port that kept its rate worst."""
    ports, trouble = shaped_ports(run)
    worst = max(ports, key=lambda each: abs(each.error), default=None)
    shakiest = max(ports, key=lambda each: each.jitter_s / each.saved_s, default=None)
    yield _limit(
        "shaper accuracy",
        abs(worst.error) if worst else None,
        "share",
        "a rate that is off by more cannot be told from the configured one, nor compared with virtual time's",
        worst.source if worst else trouble,
        most=MOST_RATE_ERROR,
        what="off the configured rate",
    )
    yield _limit(
        "timestamp jitter",
        shakiest.jitter_s if shakiest else None,
        "s",
        "so much of the line's time the shaper's bucket saves up: a timer that is later loses it",
        shakiest.source if shakiest else trouble,
        most=shakiest.saved_s if shakiest else None,
        what="about a frame's time, of 99 gaps in 100",
    )


def _dropped(machine: _Record) -> Limit:
    squeezed = int(machine.steps("squeezed").sum())
    return _limit(
        "softnet drops",
        int(machine.steps("dropped").sum()) if machine.columns else None,
        "packets",
        "no switch or NIC of the fabric dropped them: the kernel had no room for them between two of its queues",
        f"{machine.source}; a CPU put work off {squeezed} times" if machine.columns else machine.source,
        most=0,
    )


def _uncaptured(run: Run) -> Limit:
    losses = run.measured.get("capture", {})
    return _limit(
        "capture losses",
        sum(losses.values()) if losses else None,
        "packets",
        "what a capture lacks looks like loss in the network",
        f"tcpdump's own count at {text.counted(len(losses), 'point')}" if losses else "nothing was captured",
        most=0,
    )


def _stepped(machine: _Record) -> Limit:
    """How far the clock of the time stamps was moved against one that nobody moves, less what reading both may err."""
    moved_ns = np.abs(machine.steps("offset_ns"))
    reading_ns = machine.columns.get("reading_ns", np.zeros(1, np.int64))
    sure_ns = np.maximum(moved_ns - (reading_ns[1:] + reading_ns[:-1]) / 2, 0)
    longest_ns = float(machine.steps("time_ns").max(initial=_WINDOW_NS))
    return _limit(
        "clock steps",
        float(sure_ns.max(initial=0)) / 1e9 if machine.columns else None,
        "s",
        "the kernel steers its clock by 500 ppm at most: what is more was set, and intervals across it are wrong",
        machine.source,
        most=MOST_STEERING * longest_ns / 1e9,
        what="between two looks",
    )
