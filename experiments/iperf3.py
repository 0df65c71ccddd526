"""iperf3 from many hosts to one: what the usual tool tells of a fabric, beside what the packets say."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import replace

from experiments.catalog import Case, Experiment
from experiments.spec import IPERF3, Spec, known, refuse
from topologies.units import format_duration
from workloads.iperf3_process import LIBRARY, MOST_STREAMS, PIPE_BYTES, WRAPPER

_SECOND_NS = 1_000_000_000
_USUAL_NS = 2 * _SECOND_NS
_LEAST_INTERVAL_NS, _MOST_INTERVAL_NS = 100_000_000, 60 * _SECOND_NS  # of iperf3 (MIN_INTERVAL, MAX_INTERVAL)
_NOTE_BYTES = 512  # of JSON for each stream and interval (480 were seen), and for their sum
_RESULT_BYTES = 4 << 10  # of JSON beside the notes, and a fifth of a stream's own


def with_seconds(spec: Spec) -> Spec:
    """The spec with a duration that iperf3 can be asked for, where none is given."""
    return replace(spec, duration_ns=_USUAL_NS) if spec.workload == IPERF3 and spec.duration_ns is None else spec


def check_iperf3(spec: Spec) -> None:
    """Raise BadRequest for what iperf3 cannot do, or what its wrapper would wait for without end."""
    if spec.workload != IPERF3:
        return
    duration_ns, interval_ns = known(spec.duration_ns), known(spec.iperf3_interval_ns)
    streams = known(spec.iperf3_streams)
    if streams > MOST_STREAMS:
        refuse("iperf3_streams", f"{streams} is given", f"up to {MOST_STREAMS}, as many as iperf3 takes")
    if duration_ns % _SECOND_NS:
        refuse(
            "duration", f"{format_duration(duration_ns)} is given with workload={IPERF3}", "whole seconds, 1s or more"
        )
    if not _LEAST_INTERVAL_NS <= interval_ns <= _MOST_INTERVAL_NS:
        refuse(
            "iperf3_interval",
            f"{format_duration(interval_ns)} is given",
            f"{format_duration(_LEAST_INTERVAL_NS)} to {format_duration(_MOST_INTERVAL_NS)}",
        )
    # The wrapper reads the result only after iperf3 has written all of it to a pipe.
    most = (PIPE_BYTES - _RESULT_BYTES) // ((streams + 1) * _NOTE_BYTES) - 2
    if duration_ns > most * interval_ns:
        refuse(
            "duration, iperf3_interval",
            f"{-(-duration_ns // interval_ns)} intervals of {streams} streams are given",
            f"up to {most} intervals, which is what the wrapper's pipe holds",
        )


def check_iperf3_tool(spec: Spec) -> None:
    """Raise BadRequest when iperf3, or its wrapper, is not there, as far as that shows from outside."""
    if spec.workload != IPERF3:
        return
    if importlib.util.find_spec(WRAPPER) is None:
        refuse(
            "workload", f"{IPERF3} needs iperf3's Python wrapper, which is missing", f"{IPERF3} after make environment"
        )
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        refuse("workload", f"{IPERF3} needs {LIBRARY}, which is missing", f"{IPERF3} after apt-get install iperf3")


def fewer_and_more(spec: Spec) -> tuple[Case, ...]:
    """One sender alone; four streams each; and notes every 100 ms instead of every second."""
    return (
        Case("alone", {"senders": 1}),
        Case("streams-4", {"iperf3_streams": 4}),
        Case("interval-100ms", {"iperf3_interval": "100ms"}),
    )


EXPERIMENT = Experiment(
    name=IPERF3,
    question="What does iperf3, with which everybody measures networks, tell of a fabric, and what not?",
    claim="slide 14: TCP waits 200 to 500 ms in an incast; does the usual tool see it?",
    expects="rates that are the packets', and the kernel's retransmits; no word of drops, timeouts and silences, which"
    " vanish in averages of a second",
    defaults={
        "workload": IPERF3,
        "senders": 8,
        "rate": "100Mbps",
        "delay": "50us",
        "buffer": "64KB",
        "duration": "4s",
    },
    cases=fewer_and_more,
)
