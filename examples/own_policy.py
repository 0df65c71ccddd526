"""Three policies of the controller that are not built in; each runs inside its Ryu application.

./run_experiment own --set policy=examples/own_policy.py:Elephants
./run_experiment own --set topology=examples/own_topology.py:jellyfish --set policy=examples/own_policy.py:ByPaths
./run_experiment own --set queue=dctcp --set policy=examples/own_policy.py:EarlyMarks
"""

from dataclasses import replace

import networkx as nx

from controller.policy import Policy


class Elephants(Policy):
    """Each host's flow to the one half of all hosts further on (workload=permutation) gets an uplink of its rack by
    turns: no two share one, as they do where a hash decides."""

    def pinned(self, network, switch):
        hosts, uplinks = list(network.hosts), network.up_ports(switch)
        senders = [number for number, host in enumerate(hosts) if uplinks and network.homes[host][0] == switch]
        partner = {number: hosts[(number + len(hosts) // 2) % len(hosts)] for number in senders}
        return {(hosts[each], partner[each]): uplinks[turn % len(uplinks)] for turn, each in enumerate(senders)}


class ByPaths(Policy):
    """A port gets as many shares of the flows as shortest ways lead on behind it: equal load on ways, not on ports."""

    def ways(self, network, switch, target, ports):
        graph = nx.Graph((here, there) for here in network.trunks for there, _ in network.trunks[here].values())
        behind = {port: network.trunks[switch][port][0] for port in ports}
        return [port for port in ports for _ in nx.all_shortest_paths(graph, behind[port], target)]


class EarlyMarks(Policy):
    """Marking begins at a half of the usual queue: shorter queues, for some of the throughput."""

    def curve(self, rate_bps, usual):
        return replace(usual, kmin_bytes=usual.kmin_bytes // 2, kmax_bytes=usual.kmax_bytes // 2)
