"""How much memory of the lab a run may touch: fabric, controller, agents, workload, captures."""

from __future__ import annotations

from pathlib import Path

from experiments import cluster_memory, own_workloads
from experiments.spec import CLUSTER, IPERF3, LAUNCH, TRANSFERS, Spec, known, refuse
from topologies import own_fabric
from topologies.gpu_pod import GPUS_PER_SERVER as RAILS
from topologies.plugins import Plug
from topologies.rdma import MOST_UNACKED_PACKETS
from topologies.units import format_bytes, format_duration

_CLUSTERS = (*CLUSTER, LAUNCH)
_GUEST_BASE_BYTES = 320 << 20
_HOST_BYTES = 2 << 20
_SWITCH_BYTES, _SWITCH_LINK_BYTES = 1 << 20, 128 << 10
_CONTROLLER_BYTES, _CONTROLLER_LINK_BYTES = 100 << 20, 64 << 10
_AGENTS_BYTES = 64 << 20  # a Python process, and what it notes
_RDMA_DEVICE_BYTES = 1 << 20  # of soft-RoCE, in one namespace (0.7 to 0.8 MB were seen)
_CONNECTION_BYTES = 32 << 10  # both sockets, and what Python keeps of them
_QUEUE_PAIRS_BYTES = 384 << 10  # both ends' queues of 128 work requests, and what Python keeps (0.28 MB were seen)
_FACT_BYTES = 1 << 10  # a probe, or a datagram of a stream, until it is written down
_FLOW_BYTES = 8 << 10  # a datagram with a socket of its own
_CAPTURE_BYTES = 24 << 20  # a tcpdump with its ring
_CAPTURED_PACKET_BYTES = 116
_LEAST_SOCKET_BUFFER_BYTES, _BDPS_BUFFERED = 6 << 20, 4
_MOST_SOCKET_BUFFER_BYTES = (1 << 31) - 1  # tcp_rmem and tcp_wmem are ints
_LEAST_RING_BYTES, _MOST_RING_BYTES, _ALL_RINGS_BYTES = 256 << 10, 4 << 20, 2 << 30
_MOST_STREAMS = 3_000  # each takes 4 of a process's 16,384 descriptors, and some 14 of its 65,530 pieces of memory
_PROCESS_BYTES = 24 << 20  # a Python that drives iperf3 (15 MB were seen of its own), its buffers and pipe
_SKB_OVERHEAD = 3  # kernel memory per payload byte in flight: sender's copy, receiver's, and their headers


def memory_bytes(spec: Spec) -> int:
    """Guest memory that the run may touch. Raises BadRequest when it is not there, or one process has no room."""
    _check_streams(spec)
    parts = (_fabric_bytes, _agents_bytes, _workload_bytes, _captured_bytes)
    needed_bytes = _GUEST_BASE_BYTES + sum(part(spec) for part in parts)
    available_bytes = _available_bytes()
    if needed_bytes > available_bytes:
        key, number = _size(spec)
        refuse(
            key,
            f"{number} with {_demands(spec)} need {needed_bytes >> 20} MiB of memory",
            f"what this machine has free, {available_bytes >> 20} MiB",
        )
    return needed_bytes


def _check_streams(spec: Spec) -> None:
    if spec.workload in CLUSTER and spec.transport == "roce" and pairs(spec) > _MOST_STREAMS:
        key, number = _size(spec)
        refuse(
            key,
            f"{number} with {_demands(spec)} have {pairs(spec):,} flows over queue pairs",
            f"up to {_MOST_STREAMS:,}, or transport=tcp",
        )


def socket_buffer_bytes(spec: Spec) -> int:
    """Several times the bandwidth-delay product: Linux counts the memory of a packet, about twice its payload."""
    bdp_bytes = spec.rate_bps * spec.rtt_ns // 8_000_000_000
    return min(max(_LEAST_SOCKET_BUFFER_BYTES, _BDPS_BUFFERED * bdp_bytes), _MOST_SOCKET_BUFFER_BYTES)


def ring_bytes(spec: Spec) -> int:
    """The ring of a stream over a queue pair: that of NCCL (NCCL_BUFFSIZE), where connections are many a part of it."""
    most_bytes = _ALL_RINGS_BYTES // (2 * pairs(spec))
    return max(_LEAST_RING_BYTES, min(_MOST_RING_BYTES, 1 << most_bytes.bit_length() - 1))


def _size(spec: Spec) -> tuple[str, int]:
    """The key that says how many take part."""
    sizes = {"senders": spec.senders, "clients": spec.clients, "ranks": spec.ranks}
    return next(((key, number) for key, number in sizes.items() if number is not None), ("hosts", known(spec.hosts)))


def _demands(spec: Spec) -> str:
    """The keys that memory follows from, as given."""
    interval, duration = (format_duration(span_ns or 0) for span_ns in (spec.interval_ns, spec.duration_ns))
    words = {
        "pings": "workload=pings",
        "datagrams": f"flows={spec.flows}",
        "streams": f"interval={interval}, duration={duration}",
        "long_flows": f"workload=long_flows, {len(spec.traffic or ())} flows of traffic, duration={duration}",
    }
    if spec.workload in CLUSTER:
        numbers = format_bytes(cluster_memory.numbers_bytes(spec))
        words[spec.workload] = f"workload={spec.workload}, up to {numbers} of numbers each"
    words[LAUNCH] = f"workload={LAUNCH}"
    words[IPERF3] = f"workload={IPERF3}, duration={duration}"
    workload = "" if spec.workload == "incast" else f"workload={spec.workload}, "
    transfers = f"{workload}bytes={format_bytes(spec.sru_bytes)}, rounds={spec.rounds}"
    return f"{words.get(str(spec.workload), transfers)}, capture={spec.capture}"


def _fabric_bytes(spec: Spec) -> int:
    """Hosts with their links and RDMA devices, switches and the links between them, and the controller that knows them
    all."""
    device_bytes = _RDMA_DEVICE_BYTES if spec.transport == "roce" else 0
    hosts_bytes = known(spec.hosts) * (_HOST_BYTES + device_bytes)
    if spec.uplink_rate_bps is None:
        return hosts_bytes
    switches, links = _switches_and_links(spec)
    controller_bytes = _CONTROLLER_BYTES + links * _CONTROLLER_LINK_BYTES
    return hosts_bytes + switches * _SWITCH_BYTES + links * _SWITCH_LINK_BYTES + controller_bytes


def _switches_and_links(spec: Spec) -> tuple[int, int]:
    """Switches, and links between them; a GPU's second link counts too."""
    if isinstance(spec.topology, Plug):
        found = own_fabric.described(spec.topology, spec.sizes)
        return len(found.switches), len(found.wires) - len(found.hosts)
    if spec.topology == "fat_tree":
        k = known(spec.k)
        return 5 * k**2 // 4, k**3 // 2
    if spec.topology == "dumbbell":
        return 2, 1
    if spec.topology == "ring":
        return known(spec.switches), known(spec.switches)
    leaves, spines, servers = spec.leaves or RAILS, known(spec.spines), spec.servers or 0
    return leaves + spines + servers, leaves * spines + RAILS * servers


def _agents_bytes(spec: Spec) -> int:
    """The process that pauses ports and paces queue pairs."""
    return _AGENTS_BYTES if spec.pfc == "on" or spec.cc == "dcqcn" else 0


def pairs(spec: Spec) -> int:
    """Flows of transfers or long flows, or probes: how many pairs of hosts take part."""
    hosts = known(spec.hosts)
    several = {"incast": spec.senders or 0, "permutation": hosts, "long_flows": len(spec.traffic or ())}
    if spec.workload == IPERF3:
        return known(spec.senders) * known(spec.iperf3_streams)
    if spec.workload in _CLUSTERS:
        return cluster_memory.connections(spec)
    rehearsed = own_workloads.rehearsal(spec)
    if rehearsed is not None:
        return len(rehearsed.pairs)
    return several.get(str(spec.workload), hosts * (hosts - 1))


def _stream_datagrams(spec: Spec) -> int:
    return known(spec.hosts) * -(-known(spec.duration_ns) // known(spec.interval_ns))


def _workload_bytes(spec: Spec) -> int:
    """Connections and their bytes in flight, or what is noted of each datagram."""
    if spec.workload == "pings":
        return pairs(spec) * _FACT_BYTES
    if spec.workload == "datagrams":
        return known(spec.flows) * _FLOW_BYTES
    if spec.workload == "streams":
        return _stream_datagrams(spec) * _FACT_BYTES
    if spec.workload in _CLUSTERS:
        return _cluster_bytes(spec)
    processes_bytes = 2 * known(spec.senders) * _PROCESS_BYTES if spec.workload == IPERF3 else 0
    return processes_bytes + pairs(spec) * _connected_bytes(spec)


def _cluster_bytes(spec: Spec) -> int:
    """Buffers or processes, connections, and what is under way; a queue pair's rings are there, used or not."""
    is_roce = spec.transport == "roce" and spec.workload != LAUNCH
    ends_bytes = _QUEUE_PAIRS_BYTES + 2 * ring_bytes(spec) if is_roce else _CONNECTION_BYTES
    flight_bytes = min(_flight_bytes(spec), ring_bytes(spec)) if is_roce else socket_buffer_bytes(spec)
    under_way_bytes = cluster_memory.in_flight_bytes(spec, flight_bytes) * _SKB_OVERHEAD
    return cluster_memory.kept_bytes(spec) + pairs(spec) * ends_bytes + under_way_bytes


def _flight_bytes(spec: Spec) -> int:
    """Most bytes of a queue pair that are not acknowledged."""
    return MOST_UNACKED_PACKETS * known(spec.roce_mtu_bytes)


def _connected_bytes(spec: Spec) -> int:
    """A connection or pair of queue pairs, with what it may have in flight."""
    roce = spec.transport == "roce"
    flight_bytes = _flight_bytes(spec) if roce else socket_buffer_bytes(spec)
    flight_bytes = min(largest_bytes(spec) or flight_bytes, flight_bytes)
    return (_QUEUE_PAIRS_BYTES if roce else _CONNECTION_BYTES) + flight_bytes * _SKB_OVERHEAD


def largest_bytes(spec: Spec) -> int | None:
    """The most that a flow has to send at a time; None where nothing says so."""
    rehearsed = own_workloads.rehearsal(spec)
    if rehearsed is not None:
        return rehearsed.largest_bytes
    return spec.sru_bytes if spec.workload in TRANSFERS else None


def _packets(spec: Spec) -> int:
    """Data packets, probes or datagrams that the workload sends, at most."""
    if spec.workload == "pings":
        return pairs(spec)
    if spec.workload == "datagrams":
        return known(spec.flows)
    if spec.workload == "streams":
        return _stream_datagrams(spec)
    payload_bytes = spec.roce_mtu_bytes or spec.mtu_bytes
    if spec.workload == "long_flows":
        return _long_flow_bytes(spec) // payload_bytes
    if spec.workload == IPERF3:
        return known(spec.duration_ns) * spec.rate_bps // 8_000_000_000 // payload_bytes
    if spec.workload in _CLUSTERS:
        return 2 * cluster_memory.sent_bytes(spec) // payload_bytes  # messages end in short packets
    rehearsed = own_workloads.rehearsal(spec)
    if rehearsed is not None:
        return rehearsed.size_bytes // payload_bytes + rehearsed.transfers
    return pairs(spec) * spec.rounds * (spec.sru_bytes // payload_bytes + 1)


def _long_flow_bytes(spec: Spec) -> int:
    """What all flows can carry while they last: no more than their receivers' links."""
    flows, duration_ns = known(spec.traffic), known(spec.duration_ns)
    receivers = len({flow.receiver for flow in flows})
    lasting_ns = sum(known(flow.end_ns) - flow.begin_ns for flow in flows)
    return min(lasting_ns, receivers * duration_ns) * spec.rate_bps // 8_000_000_000


def _captured_bytes(spec: Spec) -> int:
    """Capture rings, and the capture files, which lie in guest memory until the end."""
    points = {"off": 0, "hot": 1, "all": 1 + (spec.senders or known(spec.hosts))}[spec.capture]
    times_seen = {"off": 0, "hot": 2, "all": 4}[spec.capture]  # data and acknowledgements, at each point on the path
    return points * _CAPTURE_BYTES + _packets(spec) * times_seen * _CAPTURED_PACKET_BYTES


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("/proc/meminfo tells no MemAvailable")
