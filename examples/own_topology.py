"""Two fabrics that are not built in: a dragonfly (Kim et al., ISCA 2008) and a random one (Jellyfish, NSDI 2012).

    ./run_experiment topo examples/own_topology.py:dragonfly --set hosts_per_leaf=4
    ./run_experiment run examples/own.yaml

Every node of the graph is a switch with `hosts_per_leaf` hosts, every edge a link of `uplink_rate`.
"""

from itertools import combinations

import networkx as nx


def dragonfly(switches=4, hosts_per_leaf=2):
    """Groups of `switches` routers, all linked to each other; each router has one link to another group, and each two
    groups have one: `switches` + 1 groups."""
    graph = nx.Graph()
    groups = [[f"g{group}r{router}" for router in range(switches)] for group in range(switches + 1)]
    for group in groups:
        graph.add_nodes_from(group)
        graph.add_edges_from(combinations(group, 2))
    for here, there in combinations(range(len(groups)), 2):  # a group's router i leads to the i-th of the others
        graph.add_edge(groups[here][there - 1], groups[there][here])
    return graph


def jellyfish(switches=16, k=4, hosts_per_leaf=2, seed=1):
    """Each of the switches linked to `k` others at random."""
    return nx.random_regular_graph(k, switches, seed=seed)
