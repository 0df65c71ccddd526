"""The benchmark's incast in ns-3, for scale: the same star, buffer, TCP settings and start times as ours.

The bench calls `find_ns3` and `measure`. As a program, under a Python that can import `ns` (`pip install ns3`),
it runs the workload once and prints one JSON line; the whole model is C++, compiled in the process by cppyy, so
that no Python runs between events. Deviations from our lab: the delay of the switch is spread over the links;
frames carry ns-3's 2-byte PPP header instead of Ethernet's 14; ns-3's TCP has neither RACK nor TLP nor Linux's
quick acknowledgements, so that a lone segment after a timeout also waits for the delayed-ACK timer.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

PYTHON_VARIABLE = "FABRICLAB_NS3_PYTHON"
NOT_FOUND = f"ns-3 is not here: pip install ns3, or name a Python that can import ns in {PYTHON_VARIABLE}"

SENDERS, SRU_BYTES, ROUNDS, JITTER_NS, SEED = 64, 256 << 10, 4, 100_000, 1
BUFFER_BYTES, MSS_BYTES = 600_000, 1448
_HAS_NS3 = "import sys; from importlib.util import find_spec as f; sys.exit(not (f('ns') and f('cppyy')))"

_DEFAULTS = {
    "PointToPointNetDevice::DataRate": "400Gbps",
    "PointToPointChannel::Delay": "700ns",  # 500 ns of the link and half of the switch's 400 ns
    "DropTailQueue<Packet>::MaxSize": "1000000000B",  # of every queue but the hot port's
    "TcpL4Protocol::SocketType": "ns3::TcpCubic",
    "TcpSocket::SegmentSize": str(MSS_BYTES),
    "TcpSocket::InitialCwnd": "10",
    "TcpSocket::SndBufSize": str(4 << 20),
    "TcpSocket::RcvBufSize": str(4 << 20),
    "TcpSocket::DelAckCount": "2",
    "TcpSocket::DelAckTimeout": "40ms",
    "TcpSocketBase::MinRto": "200ms",
    "TcpSocketBase::Sack": "true",
}

_MODEL = r"""
namespace fabriclab {
using namespace ns3;

// ns-3's optimised and release profiles compile logging and assertions out, its default profile does not.
bool HasLogging() {
  std::ostringstream log;
  auto usual = std::clog.rdbuf(log.rdbuf());
  LogComponentEnable("Simulator", LOG_LEVEL_ALL);
  Simulator::Stop();
  LogComponentDisable("Simulator", LOG_LEVEL_ALL);
  std::clog.rdbuf(usual);
  return !log.str().empty();
}

// Host 0 receives. The switch is no IP router but a table of ports: nothing in ns-3 forwards with less work.
struct Incast {
  Incast(uint32_t senders, uint32_t sruBytes, uint32_t bufferBytes, std::vector<int> startsNs)
      : m_senders(senders), m_sruBytes(sruBytes), m_startsNs(startsNs), m_switch(CreateObject<Node>()) {
    NodeContainer hosts(senders + 1);
    InternetStackHelper().Install(hosts);
    for (uint32_t i = 0; i <= senders; ++i) Attach(hosts.Get(i), i);
    m_ports[0]->GetQueue()->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, bufferBytes));
    InetSocketAddress receiver(AddressOf(0), 5001);
    m_listener = Socket::CreateSocket(hosts.Get(0), TcpSocketFactory::GetTypeId());
    m_listener->Bind(receiver);
    m_listener->Listen();
    m_listener->SetAcceptCallback({}, MakeCallback(&Incast::Accepted, this));
    for (uint32_t i = 1; i <= senders; ++i) {
      m_sending.push_back(Socket::CreateSocket(hosts.Get(i), TcpSocketFactory::GetTypeId()));
      m_sending.back()->Bind();
      m_sending.back()->Connect(receiver);
    }
  }

  static Ipv4Address AddressOf(uint32_t host) { return Ipv4Address(0x0a000001 + host); }

  // No queue disc: without one the traffic-control layer hands packets straight to the device.
  void Attach(Ptr<Node> host, uint32_t index) {
    auto link = CreateObject<PointToPointChannel>();
    auto nic = Device(host, link);
    m_ports.push_back(Device(m_switch, link));
    m_ports.back()->SetReceiveCallback(MakeCallback(&Incast::Forward, this));
    auto ip = host->GetObject<Ipv4>();
    auto id = ip->AddInterface(nic);
    ip->AddAddress(id, Ipv4InterfaceAddress(AddressOf(index), Ipv4Mask("255.0.0.0")));
    ip->SetUp(id);
  }

  static Ptr<PointToPointNetDevice> Device(Ptr<Node> node, Ptr<PointToPointChannel> link) {
    auto device = CreateObject<PointToPointNetDevice>();
    device->SetQueue(CreateObject<DropTailQueue<Packet>>());
    node->AddDevice(device);
    device->Attach(link);
    return device;
  }

  bool Forward(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address&) {
    uint8_t ip[20];
    packet->CopyData(ip, sizeof ip);
    auto& port = m_ports[(ip[18] << 8 | ip[19]) - 1];  // the low half of the destination's address
    return port->Send(packet->Copy(), port->GetBroadcast(), protocol);
  }

  void Accepted(Ptr<Socket> socket, const Address&) {
    socket->SetRecvCallback(MakeCallback(&Incast::Received, this));
    if (++m_accepted == m_senders) NextRound();
  }

  void NextRound() {
    auto pause = MicroSeconds(100);
    m_begin = Simulator::Now() + pause;
    m_missingBytes = int64_t(m_senders) * m_sruBytes;
    for (uint32_t i = 0; i < m_senders; ++i)
      Simulator::Schedule(pause + NanoSeconds(m_startsNs[rounds_s.size() * m_senders + i]), &Incast::Send, this, i);
  }

  void Send(uint32_t i) { m_sending[i]->Send(Create<Packet>(m_sruBytes)); }  // fits: SndBufSize is larger

  void Received(Ptr<Socket> socket) {
    while (auto packet = socket->Recv()) m_missingBytes -= packet->GetSize();
    if (m_missingBytes > 0) return;
    rounds_s.push_back((Simulator::Now() - m_begin).GetSeconds());
    if (rounds_s.size() * m_senders < m_startsNs.size()) NextRound();
    else Simulator::Stop();
  }

  std::vector<double> rounds_s;
  const uint32_t m_senders, m_sruBytes;
  uint32_t m_accepted = 0;
  const std::vector<int> m_startsNs;
  Ptr<Node> m_switch;
  std::vector<Ptr<PointToPointNetDevice>> m_ports;
  Ptr<Socket> m_listener;
  std::vector<Ptr<Socket>> m_sending;
  Time m_begin;
  int64_t m_missingBytes = 0;
};
}  // namespace fabriclab
"""


def find_ns3(environ: Mapping[str, str] = os.environ) -> str | None:
    """The Python named by FABRICLAB_NS3_PYTHON, else the running one; None when ns-3 is not installed there."""
    python = environ.get(PYTHON_VARIABLE) or sys.executable
    try:
        looked = subprocess.run([python, "-c", _HAS_NS3], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return python if looked.returncode == 0 else None


def measure(python: str, timeout_s: float = 180.0) -> dict[str, Any]:
    """One run in a process of its own: rounds_s, data_packets, wall_s, version; RuntimeError, one line, if it fails."""
    try:
        ran = subprocess.run([python, __file__], capture_output=True, text=True, timeout=timeout_s)
        if ran.returncode != 0:
            said = ran.stderr.strip() or f"exit status {ran.returncode}"
            raise RuntimeError(f"ns-3 ({python}) failed: {said.splitlines()[-1]}")
        return dict(json.loads(ran.stdout))
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"ns-3 ({python}) did not finish within {timeout_s:g} s") from None
    except ValueError:
        raise RuntimeError(f"ns-3 ({python}) printed no result") from None


def starts_ns() -> list[int]:
    """Start of each sender after its round's begin, round by round: the draws of workloads.rounds."""
    dice = [random.Random(f"{SEED}/{number}") for number in range(ROUNDS)]
    return [die.randint(0, JITTER_NS) for die in dice for _ in range(SENDERS)]


def data_packets() -> int:
    """Payload packets that the workload needs when nothing is lost."""
    return SENDERS * ROUNDS * -(-SRU_BYTES // MSS_BYTES)


def main() -> None:
    """Run the workload once and print the JSON line."""
    ns3 = importlib.import_module("ns").ns
    cppyy = importlib.import_module("cppyy")
    cppyy.cppdef(_MODEL)
    for name, value in _DEFAULTS.items():
        ns3.Config.SetDefault(f"ns3::{name}", ns3.StringValue(value))
    incast = cppyy.gbl.fabriclab.Incast(SENDERS, SRU_BYTES, BUFFER_BYTES, starts_ns())
    begin_s = time.perf_counter()
    ns3.Simulator.Run()
    wall_s = time.perf_counter() - begin_s
    version = next((found.version for found in importlib.metadata.distributions(name="ns3")), "of unknown version")
    profile = "default profile: logging compiled in" if cppyy.gbl.fabriclab.HasLogging() else "optimised profile"
    result = {"rounds_s": list(incast.rounds_s), "data_packets": data_packets(), "wall_s": wall_s}
    print(json.dumps({**result, "version": f"{version} ({profile})"}))


if __name__ == "__main__":
    main()
