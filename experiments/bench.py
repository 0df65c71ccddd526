"""The figures that this project promises, measured now: `run_experiment bench [NAME...]`.

Medians of several runs, with the least and the greatest; where two things are compared, both are measured in this call.
"""

from __future__ import annotations

import io
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.papers import fast08_points
from analysis.transport.labels_tshark import Agreement
from experiments import (
    bench_analyze,
    bench_captures,
    bench_clocks,
    bench_collectives,
    bench_growth,
    bench_lossless,
    bench_sweep,
    fast08,
    limits,
    rundir,
    screen,
)
from experiments import bench_machine as machine_figures
from experiments.bench_fabrics import REACHED
from experiments.bench_fabrics import measure as fabrics_measure
from experiments.bench_growth import ratios
from experiments.bench_mininet import measure as mininet_measure
from experiments.bench_ns3 import NOT_FOUND, find_ns3
from experiments.bench_ns3 import measure as measure_ns3
from experiments.catalog import plan
from experiments.own_kernel import machine_obstacles
from experiments.runner import Setting, Task, guest_environment, run_all, run_task
from experiments.spec import Spec, parse
from lab.boot import run as boot
from lab.kernel import Kernel
from lab.session import Job, Stop
from topologies.ground import LAB, MACHINE
from topologies.units import BadRequest, format_bytes, format_duration, format_rate

_REPEATS = 5
_MTU_PAYLOAD_BYTES = 1448
_FAT_TREES = ((4, 2.0, 5), (8, 6.0, 3), (16, 60.0, 1))  # k, promised seconds, repeats
_STOCK_MININET = {4: 0.0, 8: 10.0}  # k -> how many times ours it is promised to take; k=16 would take half an hour


@dataclass(frozen=True)
class Figure:
    """One promised figure: what, the measured values, their unit, the promise in words, and whether the median
    keeps it."""

    name: str
    values: tuple[float, ...]
    unit: str
    promise: str
    holds: Callable[[float], bool] | None = None

    @property
    def median(self) -> float:
        """The value to quote."""
        return statistics.median(self.values)

    def row(self) -> list[str]:
        """Cells for a person."""
        kept = "-" if self.holds is None else "yes" if self.holds(self.median) else "NO"
        spread = f"{min(self.values):,.4g} to {max(self.values):,.4g}" if len(self.values) > 1 else ""
        return [self.name, f"{self.median:,.4g} {self.unit}", spread, self.promise, kept]


def main(names: Sequence[str], kernel: Kernel) -> int:
    """Run the named benches (default: all) and print their tables; exit status 1 when a promise is not kept."""
    unknown = sorted(set(names) - set(_BENCHES))
    if unknown:
        raise BadRequest(f"bench: {', '.join(unknown)} unknown; allowed: {', '.join(_BENCHES)}")
    broken = 0
    for name in names or _BENCHES:
        screen.say(f"bench: {name} ...")
        figures = _BENCHES[name](kernel)
        broken += sum(figure.holds is not None and not figure.holds(figure.median) for figure in figures)
        columns = ("figure", "median", "least to greatest", "promise", "kept")
        screen.table(name, columns, [figure.row() for figure in figures])
    return 1 if broken else 0


def bench_start(kernel: Kernel) -> list[Figure]:
    """Boot to a program and down again; 64 hosts set up; a whole `incast` from prompt to report."""
    boots = tuple(_boot_s(kernel, ("true",)) for _ in range(_REPEATS))
    setups = tuple(_w(kernel, capture="off")["wall"]["setup_s"] for _ in range(_REPEATS))
    return [
        Figure("boot, run `true`, power off", boots, "s", "under 0.5 s", lambda value: value < 0.5),
        Figure("65 hosts from boot to ready", setups, "s", "under 1 s", lambda value: value < 1),
        Figure(
            "`incast --only` from prompt to report", (_prompt_to_report_s("--only"),), "s", "under 15 s", _at_most(15)
        ),
        Figure("`incast` with all cures", (_prompt_to_report_s(),), "s", "under 60 s", _at_most(60)),
    ]


def bench_packets(kernel: Kernel) -> list[Figure]:
    """Data packets per second of wall time: W(64, 400 Gb/s, 600 KB, 256 KiB, 4 rounds, cubic), the port's whole
    stack."""
    bare, captured = [], []
    for _ in range(_REPEATS):
        bare.append(_packets_per_s(_w(kernel, capture="off")))
        captured.append(_packets_per_s(_w(kernel, capture="hot")))
    figures = [
        Figure("W, no capture", tuple(bare), "packets/s", "at least 200,000", lambda value: value >= 200_000),
        Figure(
            "W, hot port captured", tuple(captured), "packets/s", "at least 150,000", lambda value: value >= 150_000
        ),
    ]
    return figures + _ns3_figures(statistics.median(bare))


def _ns3_figures(ours: float) -> list[Figure]:
    """The same work in ns-3 beside ours, where it is installed."""
    python = find_ns3()
    if python is None:
        screen.say(f"bench: {NOT_FOUND}: no comparison")
        return []
    theirs = tuple(run["data_packets"] / run["wall_s"] for run in (measure_ns3(python) for _ in range(3)))
    ratio = ours / statistics.median(theirs)
    return [
        Figure("W in ns-3", theirs, "packets/s", "for scale"),
        Figure("ours over ns-3", (ratio,), "times", "for scale"),
    ]


def bench_fabrics(kernel: Kernel) -> list[Figure]:
    """Fat-trees from boot to every rack heard in every other, beside what stock Mininet takes to build and start
    them."""
    figures = []
    for k, limit_s, repeats in _FAT_TREES:
        screen.say(f"bench: fat-tree k={k} ...")
        ours = tuple(fabrics_measure(kernel, k)[REACHED] for _ in range(repeats))
        promise = f"under {limit_s:g} s"
        figures.append(Figure(f"fat-tree k={k}, routed and reached", ours, "s", promise, _at_most(limit_s)))
        if k in _STOCK_MININET:
            stock = mininet_measure(kernel, k)
            stock_s = stock["build_s"] + stock["start_s"]
            ratio = (stock_s / statistics.median(ours),)
            figures.append(Figure(f"fat-tree k={k}, stock Mininet, built and started", (stock_s,), "s", "for scale"))
            least = _STOCK_MININET[k]
            promise = f"at least {least:g}" if least else "for scale"
            figures.append(
                Figure(f"stock Mininet over ours, k={k}", ratio, "times", promise, _at_least(least) if least else None)
            )
    return figures


def _at_most(limit: float) -> Callable[[float], bool]:
    return lambda value: value <= limit


def _at_least(limit: float) -> Callable[[float], bool]:
    return lambda value: value >= limit


def bench_rounds(kernel: Kernel) -> list[Figure]:
    """How long the rounds of W are, over seeds: the collapse that the demonstration shows."""
    seconds: list[float] = []
    for seed in range(1, _REPEATS + 1):
        seconds += _round_seconds(_w(kernel, capture="off", seed=seed))
    ideal_s = 64 * 262_144 * 8 / 400e9
    return [
        Figure(
            "rounds of W", tuple(value * 1e3 for value in seconds), "ms", "200 ms or more", lambda value: value >= 200
        ),
        Figure("ideal", (ideal_s * 1e3,), "ms", "payload over line rate"),
        Figure(
            "share of rounds of 200 ms or more",
            (sum(value >= 0.2 for value in seconds) / len(seconds),),
            "",
            "for scale",
        ),
    ]


def bench_accuracy(kernel: Kernel) -> list[Figure]:
    """Configured against measured: rate, delay, buffer."""
    found = json.loads(_output(kernel, (sys.executable, "-m", "experiments.accuracy")))
    figures = [
        Figure(
            f"rate at {format_rate(int(asked))}",
            ((got / int(asked) - 1) * 100,),
            "% off",
            "within 1 %",
            lambda value: abs(value) <= 1,
        )
        for asked, got in found["rates_bps"].items()
    ]
    figures += [
        Figure(
            f"one-way delay at {format_duration(int(asked))} a link",
            (error,),
            "ns off",
            "within 10 ns",
            lambda value: abs(value) <= 10,
        )
        for asked, error in found["delay_errors_ns"].items()
    ]
    for asked, (queued, frame) in found["buffers_bytes"].items():
        name = f"first drop at a buffer of {format_bytes(int(asked))}: room left"
        figures.append(Figure(name, (int(asked) - queued,), "bytes", "0 to one frame", _below(frame)))
    return figures


def bench_marking(kernel: Kernel) -> list[Figure]:
    """How far the share of marked frames is from the configured line, at ten depths of the queue."""
    found = json.loads(_output(kernel, (sys.executable, "-m", "experiments.marking_curve")))
    return [
        Figure(
            f"marks at {format_rate(int(rate))} and {format_bytes(point['depth_bytes'])}: {point['line']:.1%} asked",
            ((point["measured"] - point["line"]) * 100,),
            "points off",
            "within 5 points",
            lambda value: abs(value) <= 5,
        )
        for rate, points in found.items()
        for point in points
    ]


def bench_roce(kernel: Kernel) -> list[Figure]:
    """One queue pair of soft-RoCE: what it gets of 100 Gb/s, and packets per second of wall time."""
    found = [bench_lossless.roce_speed(_setting(kernel)) for _ in range(_REPEATS)]
    shares, speeds = tuple(each.share * 100 for each in found), tuple(each.packets_per_s for each in found)
    return [
        Figure("one queue pair at 100 Gb/s, packets of 4 KB", shares, "% of the line", "at least 90 %", _at_least(90)),
        Figure("RoCE packets of 4 KB", speeds, "packets/s", "at least 25,000", _at_least(25_000)),
    ]


def bench_pause(kernel: Kernel) -> list[Figure]:
    """From the crossing of XOFF to the neighbour's silence."""
    reactions_ns, spec = bench_lossless.pause_reactions_ns(_setting(kernel))
    bound_ns = bench_lossless.reaction_bound_ns(spec)
    promise = f"at most 1 us, the link's delay and a frame: {bound_ns:,} ns"
    return [Figure(f"slowest of {len(reactions_ns):,} pauses", (max(reactions_ns),), "ns", promise, _at_most(bound_ns))]


def bench_dctcp(kernel: Kernel) -> list[Figure]:
    """The queue of two DCTCP flows at 1 Gb/s with K = 20 packets; on hardware 19, 21 and 22 packets."""
    median, most_of_the_time, greatest = bench_lossless.dctcp_queue_packets(_setting(kernel))
    return [
        Figure("DCTCP's queue, median", (median,), "packets", "18 to 22", lambda value: 18 <= value <= 22),
        Figure("DCTCP's queue, 95th percentile", (most_of_the_time,), "packets", "at most 25", _at_most(25)),
        Figure("DCTCP's queue, maximum", (greatest,), "packets", "hardware: 22"),
    ]


def bench_dcqcn(kernel: Kernel) -> list[Figure]:
    """N to 1 at 40 and 100 Gb/s once settled: the line's use, fairness, queue and pauses, by the thresholds of
    DCQCN's authors and, where so named, of HPCC's."""
    figures = []
    for label, found in bench_lossless.dcqcn_ratios(_setting(kernel)).items():
        kmax_kb, queue_kb = found.kmax_bytes / 1e3, found.queue_p99_bytes / 1e3
        figures += [
            Figure(f"{label}: of what the line carries", (found.share * 100,), "%", "at least 95 %", _at_least(95)),
            Figure(f"{label}: Jain's index", (found.jain,), "", "at least 0.95", _at_least(0.95)),
            Figure(f"{label}: queue, p99", (queue_kb,), "KB", f"under Kmax, {kmax_kb:g} KB", _below(kmax_kb)),
            Figure(f"{label}: pauses", (found.pauses,), "", "none", _at_most(0)),
        ]
    return figures


def bench_allreduce(kernel: Kernel) -> list[Figure]:
    """All-reduces beside the line and the model, the aggregator's bytes, and how long large ones take to run."""
    ring, setting = bench_collectives.ring_speed(_setting(kernel)), _setting(kernel)
    off = tuple(abs(each - 1) * 100 for each in ring.of_model)
    ratio = bench_collectives.in_network_ratio(setting)
    figures = [
        Figure("ring, 16 hosts, 64 MiB: busbw", (ring.share * 100,), "% of the line", "at least 85 %", _at_least(85)),
        Figure("off the model, 1 to 64 MiB, worst size", (max(off),), "%", "at most 10 %", _at_most(10)),
        Figure("in-network over ring: a worker's bytes, 64 ranks", (ratio,), "", "at most 0.5", _at_most(0.5)),
    ]
    for name, measure in (
        ("all-reduce, 64 ranks x 16 MiB", bench_collectives.many_ranks_wall_s),
        ("federated, 200 clients, one round", bench_collectives.many_clients_wall_s),
    ):
        figures.append(Figure(f"{name}: wall time", (measure(setting),), "s", "under 60 s", _at_most(60)))
    return figures


def bench_launch(kernel: Kernel) -> list[Figure]:
    """PyTorch as it is, over gloo."""
    if not bench_collectives.has_torch():
        screen.say("bench: /usr/bin/python3 has no PyTorch (`./provision.sh examples`): nothing to measure")
        return []
    busbw_gbps = bench_collectives.gloo_busbw_bps(_setting(kernel)) / 1e9
    return [Figure("gloo, 4 ranks, 16 MiB: busbw", (busbw_gbps,), "Gb/s", "at least 80 of 100", _at_least(80))]


def bench_capture_reading(kernel: Kernel) -> list[Figure]:
    """Captures to columns, beside scapy, dpkt and tshark on the same capture, in processor time: of one core."""
    found = bench_captures.reading_speeds(_setting(kernel))
    name, ours = f"capture of {found.packets:,} packets to columns", statistics.median(found.ours)
    figures = [
        Figure("packets of the capture", (found.packets,), "", "at least 1 million", _at_least(1e6)),
        Figure(name, found.ours, "packets/s", "at least 1 million", _at_least(1e6)),
    ]
    for other, speeds, packets, least in (
        ("scapy's PcapReader", found.scapy, bench_captures.SCAPY_PACKETS, 50),
        ("dpkt", found.dpkt, bench_captures.DPKT_PACKETS, 5),
        ("tshark -T fields", found.tshark, bench_captures.TSHARK_PACKETS, 10),
    ):
        ratio = (ours / statistics.median(speeds),)
        figures.append(Figure(f"{other}, its first {packets:,}", speeds, "packets/s", "for scale"))
        figures.append(Figure(f"ours over {other}", ratio, "times", f"at least {least}", _at_least(least)))
    return [*figures, *_label_figures(bench_captures.label_agreement(_setting(kernel)))]


def _label_figures(found: Agreement) -> list[Figure]:
    """How many packets of the capture bear the labels that tshark gives them; the labels one by one as a table."""
    rows = [[each.name, *(f"{count:,}" for count in (each.both, each.ours, each.theirs))] for each in found.kinds]
    screen.table("labels of packets", ("label", "both", "ours alone", "tshark's alone"), rows)
    shares = (("packets", found.share), ("those that bear a label", found.labelled_share))
    return [
        Figure(f"labels as tshark's, of {name}", (100 * share,), "%", "at least 98 %", _at_least(98))
        for name, share in shares
    ]


def bench_capture_analysis(kernel: Kernel) -> list[Figure]:
    """`analyze` from prompt to prompt, of the same capture, and of ten gigabytes made of it that come from a pipe."""
    capture = bench_captures.incast_capture(_setting(kernel))
    whole = [bench_analyze.analyze_cost(capture) for _ in range(_REPEATS)]
    explained = tuple(bench_analyze.explained_s(bench_analyze.RETRANSMISSIONS) for _ in range(_REPEATS))
    figures = [
        Figure(f"{bench_analyze.RETRANSMISSIONS:,} retransmissions told apart", explained, "s", "under 1 s", _below(1)),
        Figure("analyze a million packets", tuple(each.seconds for each in whole), "s", "under 5 s", _below(5)),
        Figure("its memory", tuple(each.peak_bytes / 1e9 for each in whole), "GB", "under 1 GB", _below(1)),
    ]
    for kind, told in ((bench_analyze.MANY, "many flows"), (bench_analyze.FEW, "two flows alone")):
        found = bench_analyze.streamed_cost(capture, bench_analyze.LONG_BYTES, kind)
        figures += [
            Figure(f"analyze 10 GB, {told}", (found.seconds,), "s", "for scale"),
            Figure("its memory", (found.peak_bytes / 1e9,), "GB", "under 2 GB", _below(2)),
        ]
    return figures


def _below(limit: float) -> Callable[[float], bool]:
    return lambda value: 0 <= value < limit


def bench_real_clock(kernel: Kernel) -> list[Figure]:
    """The lab kernel's real clock beside virtual time: 8 senders to 1 over 100 Mb/s, by seeds. A rate that could not be
    measured is infinitely far off."""
    found = bench_clocks.compare(_setting(kernel), _REPEATS)
    rows = [[str(each.seed), *each.verdicts, each.fidelity] for each in found]
    screen.table("by seed", ("seed", "virtual time", "real clock", "fidelity of the real clock"), rows)
    off = tuple(math.inf if each.rate_share is None else 100 * abs(each.rate_share - 1) for each in found)
    goodput = tuple(100 * abs(each.goodput_ratio - 1) for each in found)
    same = (100 * sum(each.is_same for each in found) / len(found),)
    looking = tuple(100 * each.guard_share for each in found)
    return [
        Figure("rate of the busy port, off the configured", off, "%", "within 2 %", _at_most(2)),
        Figure("goodput, off virtual time's", goodput, "%", "within 15 %", _at_most(15)),
        Figure("seeds with the same verdict", same, "%", "all", _at_least(100)),
        Figure("the guard's own share of the CPU", looking, "%", "for scale"),
    ]


def bench_machine(kernel: Kernel) -> list[Figure]:
    """Calibration in both places, and what `clean` takes after a SIGKILL."""
    figures = [
        Figure("calibrate, in the lab kernel", (machine_figures.calibrate_s(LAB),), "s", "under 120", _below(120))
    ]
    obstacles = machine_obstacles()
    if obstacles:
        screen.say(f"bench: nothing on this machine's own kernel: {obstacles[0].what}")
        return figures
    cleans = tuple(machine_figures.clean_s() for _ in range(3))
    return [
        *figures,
        Figure(
            "calibrate, on this machine's own", (machine_figures.calibrate_s(MACHINE),), "s", "under 120", _below(120)
        ),
        Figure("clean, after a SIGKILL", cleans, "s", "under 5", _below(5)),
    ]


def bench_fast08(kernel: Kernel) -> list[Figure]:
    """The curves of FAST 2008: paper, the same stack here, the modern default."""
    goodput = _fast08_goodput(kernel)
    rows = []
    for buffer, published in fast08_points.PUBLISHED_MBPS.items():
        for servers, paper in zip(fast08_points.SERVERS, published):
            cells = [goodput[fast08.label(stack, buffer, servers)] for stack in fast08.STACKS]
            rows.append(
                [buffer, str(servers), str(paper), *(f"{value:.0f}" for value in cells), f"{cells[0] / paper:.2f}"]
            )
    columns = ("buffer", "servers", "paper Mb/s", *(f"{stack} Mb/s" for stack in fast08.STACKS), "newreno / paper")
    screen.table("FAST 2008, goodput (Phanishayee et al., figure 2)", columns, rows)
    return _fast08_figures(goodput)


def _fast08_goodput(kernel: Kernel) -> dict[str, float]:
    """Case label -> goodput in Mb/s."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = plan(fast08.EXPERIMENT, {})
        tasks = [
            Task(name, limits.resolve(spec), rundir.case_folder(Path(scratch), name), "fast08")
            for name, spec in asked.cases
        ]
        with screen.progress([task.label for task in tasks]) as note:
            failures = run_all(tasks, _setting(kernel), Stop(), note)
        if failures:
            raise RuntimeError(failures[0])
        return {task.label: _goodput_mbps(task.folder) for task in tasks}


def _goodput_mbps(folder: Path) -> float:
    rounds = json.loads((folder / "measured.json").read_text())["rounds"]
    seconds = sum(each["end_ns"] - each["start_ns"] for each in rounds) / 1e9
    return sum(each["bytes"] for each in rounds) * 8 / seconds / 1e6


def _onset(curve: Sequence[float]) -> int:
    """Index of the first number of servers with less than half of the link; the number of points when there is none."""
    return next((index for index, value in enumerate(curve) if value < 500), len(curve))


def _fast08_figures(goodput: dict[str, float]) -> list[Figure]:
    """Onset and collapsed points of both stacks against the paper's NewReno, and of the old one against its Reno."""
    pairs = [
        (stack, buffer, published, f"{stack} {buffer}")
        for stack in fast08.STACKS
        for buffer, published in fast08_points.PUBLISHED_MBPS.items()
    ]
    pairs.append(("newreno", "64KB", fast08_points.PUBLISHED_RENO_MBPS, "newreno 64KB, paper's Reno"))
    figures = []
    for stack, buffer, published, name in pairs:
        ours = [goodput[fast08.label(stack, buffer, servers)] for servers in fast08_points.SERVERS]
        shift = _onset(ours) - _onset(published)
        figures.append(
            Figure(f"{name}: onset, ours - paper", (shift,), "steps of N", "0 or 1", lambda value: value in (0, 1))
        )
        factors = tuple(max(a / b, b / a) for a, b in zip(ours, published) if a < 500 and b < 500)
        figures.append(Figure(f"{name}: collapsed, factor", factors, "times", "within 2", lambda value: value <= 2))
    return figures


def bench_sweeps(kernel: Kernel) -> list[Figure]:
    """Many small runs from prompt to page, and what a second core gives."""
    if len(os.sched_getaffinity(0)) < 2:
        screen.say("bench: one processor alone: nothing to measure")
        return []
    alone_s, both_s = (bench_sweep.sweep_s(bench_sweep.RUNS, workers) for workers in (1, 2))
    name = f"{bench_sweep.RUNS} small incast runs on 2 cores"
    return [
        Figure(name, (both_s,), "s", "under 300 s", _below(300)),
        Figure("two cores over one", (alone_s / both_s,), "times", "at least 1.9", _at_least(1.9)),
    ]


def bench_of_growth(kernel: Kernel) -> list[Figure]:
    """A packet's wall time from the smallest to the largest fabric, beside what links and packets add."""
    growth = bench_growth.measure(kernel, screen.say)
    for title, rows in bench_growth.tables(growth).items():
        screen.table(title, bench_growth.COLUMNS, rows)
    sizes = f"{bench_growth.SIZES[-1]} hosts over {bench_growth.SIZES[0]}"
    most, turns, busy = bench_growth.MOST_GROWTH, growth.hosts, growth.busy
    packet, hop, cpu = (lambda cost: cost.packet_s), (lambda cost: cost.hop_s), (lambda cost: cost.cpu_s / cost.hops)
    return [
        Figure(f"a packet, {sizes}", ratios(turns, packet), "times", f"under {most:g}", _below(most)),
        Figure(f"a packet and link, {sizes}", ratios(turns, hop), "times", f"under {most:g}", _below(most)),
        Figure("the same, processor time", ratios(turns, cpu), "times", "for scale"),
        Figure("a packet where all send at once", ratios(busy, packet), "times", "for scale"),
    ]


def _setting(kernel: Kernel) -> Setting:
    return Setting(kernel, "virtual", ("./run_experiment", "bench"))


def _w(kernel: Kernel, **changes: Any) -> dict[str, Any]:
    """One run of W; its provenance and what it measured."""
    spec = limits.resolve(parse({"telemetry": "off", **changes}, Spec()))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run_task(Task("W", spec, folder, "bench"), _setting(kernel), Stop())
        provenance = json.loads((folder / "provenance.json").read_text())
        measured = json.loads((folder / "measured.json").read_text())
    return {"wall": provenance["wall"], "rounds": measured["rounds"], "spec": spec}


def _round_seconds(run: dict[str, Any]) -> list[float]:
    return [(each["end_ns"] - each["start_ns"]) / 1e9 for each in run["rounds"]]


def _packets_per_s(run: dict[str, Any]) -> float:
    spec = run["spec"]
    packets = spec.senders * spec.rounds * -(-spec.sru_bytes // _MTU_PAYLOAD_BYTES)
    return float(packets / run["wall"]["rounds_s"])


def _boot_s(kernel: Kernel, argv: tuple[str, ...]) -> float:
    began_s = time.monotonic()
    _output(kernel, argv)
    return time.monotonic() - began_s


def _output(kernel: Kernel, argv: tuple[str, ...]) -> str:
    """Standard output of a command in the lab; raises RuntimeError with its last words when it fails."""
    output, errors = io.BytesIO(), io.BytesIO()
    with tempfile.TemporaryDirectory() as scratch:
        job = Job(
            argv=argv,
            results=Path(scratch),
            env=guest_environment(),
            cwd=rundir.ROOT,
            memory_bytes=1 << 30,
            watchdog_s=120,
        )
        outcome = boot(kernel.path, job, stdout=output, stderr=errors)
    if outcome.status:
        raise RuntimeError(
            f"{argv[-1]}: {outcome.ended_as}: {errors.getvalue().decode(errors='replace').strip()[-200:]}"
        )
    return output.getvalue().decode()


def _prompt_to_report_s(*options: str) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        began_s = time.monotonic()
        words = [sys.executable, str(rundir.ROOT / "run_experiment"), "incast", *options]
        subprocess.run([*words, "--out", str(Path(scratch, "run"))], check=True, capture_output=True)
        return time.monotonic() - began_s


_BENCHES: dict[str, Callable[[Kernel], list[Figure]]] = {
    "start": bench_start,
    "packets": bench_packets,
    "fabrics": bench_fabrics,
    "rounds": bench_rounds,
    "accuracy": bench_accuracy,
    "marking": bench_marking,
    "roce": bench_roce,
    "pause": bench_pause,
    "dctcp": bench_dctcp,
    "dcqcn": bench_dcqcn,
    "collectives": bench_allreduce,
    "launch": bench_launch,
    "captures": bench_capture_reading,
    "analyze": bench_capture_analysis,
    "fast08": bench_fast08,
    "clocks": bench_real_clock,
    "machine": bench_machine,
    "sweep": bench_sweeps,
    "growth": bench_of_growth,
}
