"""A run directory, format 1, read lazily: each file when it is first asked for, and only once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from analysis import measured_shape
from analysis.capture.packets import Packets
from analysis.capture.reader import read_capture
from analysis.dcqcn import DcqcnLog, read_dcqcn
from analysis.fabric import Fabric
from analysis.pause_log import PauseLog, read_pauses
from analysis.queues import QueueSeries, read_queues
from analysis.spec import INCAST, Parameters, parameters, read_spec
from analysis.text import natural
from analysis.transport import roce
from analysis.transport.flows import flows_of
from analysis.transport.queue_pairs import RoceFlow, flow_between
from analysis.transport.recovery import Recovery
from analysis.transport.retransmits import Resent, retransmissions
from analysis.transport.sent import Flow, Sent
from analysis.transport.stalls import Round, Stall, stalls
from topologies.units import BadRequest

if TYPE_CHECKING:
    from typing_extensions import Self

FORMAT = 1
UNFINISHED = "measured.json: the run was not completed"
_FLOW_WORKLOADS = (INCAST, "permutation", "all_to_all")  # those whose flows send in rounds
_LONG_FLOWS, _IPERF3 = "long_flows", "iperf3"
_FLOW_KEYS = ("flow", "sender", "source", "destination")
_NAMES = ("receiver", *_FLOW_KEYS)
_SPAN = ("begin_ns", "end_ns")
_ALLOWED = {int: "a whole number", str: "a text"}
_LEAST_WHOLE, _MOST_WHOLE = -(2**63), 2**63 - 1


class Run:
    """One run directory. Raises BadRequest, naming the file, when one that is asked for is missing, damaged
    or of another format.

    Captures and queue samples may be missing (an interrupted run, `capture` off): `missing` says which
    evidence that takes away.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise BadRequest(f"{self.path}: not a folder; allowed: a run directory")

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The spec as resolved: the flat mapping of spec.yaml."""
        return read_spec(self.path / "spec.yaml")

    def given(self, key: str) -> Any:
        """The value of a key of the spec; None where it does not apply."""
        value = self.spec.get(key)
        return None if value == "auto" else value

    @cached_property
    def parameters(self) -> Parameters:
        """The spec in base units."""
        return parameters(self.spec, self.fabric)

    @cached_property
    def measured(self) -> dict[str, Any]:
        """The raw facts of measured.json, format and kinds of values checked."""
        measured = self._json("measured.json")
        if measured.get("format") != FORMAT:
            raise BadRequest(f"{self.path / 'measured.json'}: format {measured.get('format')!r}; allowed: {FORMAT}")
        wrong = measured_shape.trouble(measured)
        if wrong:
            raise BadRequest(f"{self.path / 'measured.json'}: {wrong}")
        return measured

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Where the run came from: versions, seed, command, times."""
        if not (self.path / "provenance.json").exists():
            raise BadRequest(f"{self.path}: has no provenance.json: its run was killed, or it still runs")
        return self._json("provenance.json")

    @property
    def time_words(self) -> str:
        """What the run's time is called: that of a real clock needs no adjective."""
        return "virtual time" if self.spec.get("clock") == "virtual" else "time"

    @cached_property
    def workload(self) -> str:
        """What the hosts did; runs from before there was a choice did an incast."""
        return str(self.measured.get("workload") or self.spec.get("workload") or INCAST)

    @cached_property
    def fabric(self) -> dict[str, Any] | None:
        """The switches, hosts and wires of fabric.json, format checked; None when the run directory has none."""
        if not (self.path / "fabric.json").exists():
            return None
        fabric = self._json("fabric.json")
        if fabric.get("format") != FORMAT:
            raise BadRequest(f"{self.path / 'fabric.json'}: format {fabric.get('format')!r}; allowed: {FORMAT}")
        return fabric

    @cached_property
    def controller(self) -> dict[str, Any] | None:
        """How the controller fared, as measured.json tells it; None for a run without one."""
        return self.measured.get("controller")

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The rounds that were finished, in order."""
        keys = ("start_ns", "end_ns", "bytes")
        return tuple(Round(*(entry[key] for key in keys)) for entry in self.entries("rounds", keys, whole=keys))

    @cached_property
    def traffic_ns(self) -> tuple[int, int] | None:
        """From the begin of the first long flow, or of the first round, to the end of the last; None without any."""
        spans = [(each.start_ns, each.end_ns) for each in self.rounds]
        if self.workload == _LONG_FLOWS:
            spans = [(entry["begin_ns"], entry["end_ns"]) for entry in self.entries("flows", _SPAN, whole=_SPAN)]
        return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None

    @cached_property
    def hot_port(self) -> str | None:
        """The switch port towards the receiver, or None when no port is marked as hot."""
        return next((name for name, port in self.measured.get("ports", {}).items() if port.get("hot")), None)

    @cached_property
    def tcp_counters(self) -> dict[str, int] | None:
        """The kernel's TCP counters over the rounds, summed over all hosts; None when the run has none."""
        if "tcp" not in self.measured:
            return None
        total: dict[str, int] = {}
        for counters in self.measured["tcp"].values():
            for name, count in counters.items():
                total[name] = total.get(name, 0) + count
        return total

    @cached_property
    def recovery(self) -> Recovery:
        """The loss recovery that the senders were configured with."""
        return Recovery(self.parameters.rto_min_ns, self.parameters.tlp, self.parameters.rack)

    @cached_property
    def roce_counters(self) -> dict[str, dict[str, int]] | None:
        """Soft-RoCE's counters of each host over the rounds; None when the run has none."""
        return self.measured.get("roce")

    @cached_property
    def sent_flows(self) -> tuple[Sent, ...]:
        """The measured flows as their senders' captures show them; those whose capture is missing are left
        out (see `missing`)."""
        if self.workload not in (*_FLOW_WORKLOADS, _IPERF3):
            return ()
        found = (self._sender_flow(entry) for entry in self.entries("flows", _FLOW_KEYS))
        return tuple(flow for flow in found if flow is not None)

    @cached_property
    def tcp_flows(self) -> tuple[Flow, ...]:
        """Those of the flows that are TCP's."""
        return tuple(flow for flow in self.sent_flows if isinstance(flow, Flow))

    @cached_property
    def roce_flows(self) -> tuple[RoceFlow, ...]:
        """Those of the flows that are queue pairs'."""
        return tuple(flow for flow in self.sent_flows if isinstance(flow, RoceFlow))

    @cached_property
    def senders(self) -> tuple[str, ...]:
        """The hosts that send the measured flows; none where the workload has no flows of its own."""
        if self.workload not in (*_FLOW_WORKLOADS, _LONG_FLOWS) and "flows" not in self.measured:
            return ()
        return tuple(dict.fromkeys(entry["sender"] for entry in self.entries("flows", _FLOW_KEYS)))

    @cached_property
    def retransmissions(self) -> dict[str, list[Resent]]:
        """What each flow sent again during the rounds, by flow name."""
        start_ns, end_ns = self.span_ns
        found: dict[str, list[Resent]] = {flow.name: roce.resent(flow) for flow in self.roce_flows}
        found.update({flow.name: list(retransmissions(flow, self.recovery)) for flow in self.tcp_flows})
        return {
            name: [event for event in events if start_ns <= event.time_ns <= end_ns] for name, events in found.items()
        }

    @cached_property
    def stalls(self) -> list[Stall]:
        """Every stall of the measured flows within the rounds, in order of time."""
        if not self.rounds or not self.sent_flows:
            return []
        if not self.parameters.is_roce:
            return stalls(self.tcp_flows, self.rounds, self.recovery)
        held = self.pauses.held if self.pauses else {}
        points = {entry["flow"]: _sender_point(entry) for entry in self.entries("flows", _FLOW_KEYS)}
        paused = {flow: held.get(point, []) for flow, point in points.items()}
        return roce.roce_stalls(self.roce_flows, self.rounds, paused)

    @cached_property
    def origin_ns(self) -> int | None:
        """Where the seconds of the run's tables begin: the start of the first round, or of the first long flow; None
        without any."""
        return self.rounds[0].start_ns if self.rounds else self.traffic_ns[0] if self.traffic_ns else None

    @property
    def span_ns(self) -> tuple[int, int]:
        """From the first round's start to the last one's end; raises BadRequest when no round was
        finished."""
        if not self.rounds:
            raise BadRequest(f"{self.path / 'measured.json'}: no finished round; nothing to analyse")
        return self.rounds[0].start_ns, self.rounds[-1].end_ns

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """The evidence files that are absent or unreadable, each with the reason."""
        unfinished = [] if self.measured.get("complete") else [UNFINISHED]
        failed = [f"cases/{name}: no measured.json" for name in self._case_names(finished=False)]
        reasons = [*unfinished, *self._captures_missing(), *self._lost_packets(), *self._samples_missing(), *failed]
        return tuple(dict.fromkeys(reason for reason in reasons if reason))

    def _captures_missing(self) -> list[str]:
        """What is wrong with the captures that the spec asks for, and which ones it does not ask for; nothing where
        the workload is judged by what hosts and switches counted."""
        if self.workload != INCAST:
            return []
        captured = self.spec.get("capture")
        if captured == "off":
            return ["captures: switched off by capture=off"]
        hot = self._capture_trouble(self.hot_port) if self.hot_port else "measured.json names no hot port"
        if captured == "hot":
            return [hot, "sender captures: switched off by capture=hot"]
        entries = self.entries("flows", _FLOW_KEYS)
        inside = [entry["flow"] for entry in entries if self._is_inside(entry)]
        nvlink = (
            f"captures of {', '.join(inside)}: their data takes NVLink, where nothing is captured" if inside else ""
        )
        return [hot, nvlink, *(self._flow_trouble(entry) for entry in entries if entry["flow"] not in inside)]

    def _is_inside(self, entry: Mapping[str, Any]) -> bool:
        """Whether a flow stays inside one server, on NVLink."""
        servers = Fabric.of(self.fabric).servers().values() if self.fabric else ()
        return any({entry["sender"], entry.get("receiver")} <= set(gpus) for gpus in servers)

    def _lost_packets(self) -> list[str]:
        """Captures that tcpdump itself called incomplete."""
        losses = self.measured.get("capture", {})
        return [f"pcap/{point}.pcap: the capture lost {lost} packets" for point, lost in losses.items() if lost]

    def _samples_missing(self) -> list[str]:
        logs = [self._pause_trouble(), self._dcqcn_trouble()]
        if self.workload != INCAST:
            return logs
        off = self.spec.get("telemetry") in ("off", False)
        return [*logs, "queue samples: switched off by telemetry=off" if off else self._queue_trouble()]

    @property
    def has_dcqcn(self) -> bool:
        """Whether NICs set the rates of their queue pairs by DCQCN."""
        return self.parameters.is_roce and self.parameters.cc == "dcqcn"

    @cached_property
    def pauses(self) -> PauseLog | None:
        """What the ports noted of pauses; None for a run without PFC, and for one whose file is missing."""
        return None if self._pause_trouble() or not self.parameters.pfc else self._pause_log

    @cached_property
    def dcqcn(self) -> DcqcnLog | None:
        """What the NICs noted of DCQCN; None for a run without it, and for one whose file is missing."""
        return None if self._dcqcn_trouble() or not self.has_dcqcn else self._dcqcn_log

    @cached_property
    def _pause_log(self) -> PauseLog:
        return read_pauses(self.path / "telemetry" / "pauses.parquet")

    @cached_property
    def _dcqcn_log(self) -> DcqcnLog:
        return read_dcqcn(self.path / "telemetry" / "dcqcn.parquet")

    def _pause_trouble(self) -> str:
        return _trouble(lambda: self._pause_log) if self.parameters.pfc else ""

    def _dcqcn_trouble(self) -> str:
        return _trouble(lambda: self._dcqcn_log) if self.has_dcqcn else ""

    @cached_property
    def cases(self) -> dict[str, Self]:
        """The further runs in cases/ that have results, by label (`missing` names the others): first the
        cases in natural order, then the points of a sweep by scheme and senders."""
        return {name: type(self)(self.path / "cases" / name) for name in self._case_names(finished=True)}

    def _case_names(self, finished: bool) -> list[str]:
        folder = self.path / "cases"
        found = [case for case in folder.iterdir() if case.is_dir()] if folder.is_dir() else []
        found.sort(key=lambda case: (is_sweep_point(case.name), natural(case.name)))
        return [case.name for case in found if (case / "measured.json").is_file() == finished]

    def packets(self, point: str) -> Packets:
        """The capture at `point`, such as "leaf1-eth1" or "h2-eth0"."""
        if point not in self._packets:
            self._packets[point] = read_capture(self.path / "pcap" / f"{point}.pcap")
        return self._packets[point]

    def has_capture(self, point: str | None) -> bool:
        """Whether there is a readable capture at `point`."""
        return point is not None and not self._capture_trouble(point)

    def queue(self, port: str | None) -> QueueSeries | None:
        """The queue samples of a port; None when the run has none of it."""
        return None if self._queue_trouble() or port is None else self._queues.get(port)

    @property
    def sampled_ports(self) -> tuple[str, ...]:
        """The ports that the run has queue samples of."""
        return () if self._queue_trouble() else tuple(self._queues)

    @property
    def longest_queue_bytes(self) -> int | None:
        """The most that any sampled port held; None without samples."""
        if self._queue_trouble():
            return None
        return max(int(series.queue_bytes.max(initial=0)) for series in self._queues.values())

    @cached_property
    def _packets(self) -> dict[str, Packets]:
        return {}

    @cached_property
    def _sender_flows(self) -> dict[str, Sent | None]:
        return {}

    @cached_property
    def _queues(self) -> dict[str, QueueSeries]:
        return read_queues(self.path / "telemetry" / "queue.parquet")

    def _queue_trouble(self) -> str:
        try:
            return "" if self._queues else "telemetry/queue.parquet holds no samples"
        except BadRequest as error:
            return str(error)

    def _capture_trouble(self, point: str) -> str:
        return _trouble(lambda: self.packets(point))

    def _flow_trouble(self, entry: Mapping[str, Any]) -> str:
        point = _sender_point(entry)
        missing = f"{self.path / 'pcap' / point}.pcap: no data of flow {entry['flow']}"
        return self._capture_trouble(point) or ("" if self._sender_flow(entry) else missing)

    def _sender_flow(self, entry: Mapping[str, Any]) -> Sent | None:
        """The flow of an entry of measured.json as its sender's capture shows it; None when it is not
        there."""
        if entry["flow"] not in self._sender_flows:
            point = _sender_point(entry)
            there = self.has_capture(point)
            self._sender_flows[entry["flow"]] = self._captured(self.packets(point), entry) if there else None
        return self._sender_flows[entry["flow"]]

    def _captured(self, packets: Packets, entry: Mapping[str, Any]) -> Sent | None:
        name, ends = entry["flow"], (entry["source"], entry["destination"])
        if self.parameters.is_roce:
            return flow_between(packets, *ends, name)
        return next((flow for flow in flows_of(packets, {ends: name}) if flow.name == name), None)

    def entries(self, key: str, needed: Sequence[str], whole: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The list at `key` of measured.json, every entry of which must have the keys `needed`, and whole numbers at
        those of `whole` that it has; an unfinished run may lack it."""
        entries = self.measured.get(key, None if self.measured.get("complete") else [])
        if not isinstance(entries, list):
            raise BadRequest(f"{self.path / 'measured.json'}: key {key!r} is missing or not a list")
        for entry in entries:
            if not isinstance(entry, dict) or not set(needed) <= set(entry):
                raise BadRequest(f"{self.path / 'measured.json'}: an entry of {key!r} lacks one of {', '.join(needed)}")
            for name in {*needed, *whole} & set(entry):
                kind = int if name in whole else str if name in _NAMES else object
                self._check_value(key, name, entry[name], kind)
        return entries

    def _check_value(self, key: str, name: str, value: object, kind: type) -> None:
        """Raises BadRequest for a value of an entry that is no number, or no text, where one is needed."""
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            where, allowed = f"{self.path / 'measured.json'}: {name} of an entry of {key!r}", _ALLOWED[kind]
            raise BadRequest(f"{where}: {value!r} is given; allowed: {allowed}")

    def document(self, name: str) -> dict[str, Any]:
        """A further JSON file of the run directory, which holds a mapping; raises BadRequest naming it."""
        return self._json(name)

    def _json(self, name: str) -> dict[str, Any]:
        path = self.path / name
        try:
            content = json.loads(
                path.read_text(encoding="utf-8"), parse_constant=_refuse, parse_int=_whole, parse_float=_finite
            )
        except OSError as error:
            raise BadRequest(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{path}: is not JSON: {error}") from error
        if not isinstance(content, dict):
            raise BadRequest(f"{path}: holds {type(content).__name__}; allowed: a mapping")
        return content


def is_sweep_point(label: str) -> bool:
    """Whether a case is one point of a sweep over senders: its label ends with their number, as "dctcp-n16"."""
    return bool(re.search(r"-n\d+$", label))


def _refuse(word: str) -> float:
    """Python reads NaN and Infinity, which JSON does not have."""
    raise ValueError(f"{word} is given; allowed: finite numbers")


def _finite(word: str) -> float:
    value = float(word)
    return value if math.isfinite(value) else _refuse(word)


def _whole(word: str) -> int:
    value = int(word)
    if not _LEAST_WHOLE <= value <= _MOST_WHOLE:
        raise ValueError(f"{word} is given; allowed: whole numbers of 64 bits")
    return value


def _trouble(read: Callable[[], object]) -> str:
    """Why something cannot be read; empty when it can."""
    try:
        read()
    except BadRequest as error:
        return str(error)
    return ""


def _sender_point(entry: Mapping[str, Any]) -> str:
    """The capture point of a flow's sender: its only interface."""
    return f"{entry['sender']}-eth0"
