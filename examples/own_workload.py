"""Two workloads that are not built in: a shuffle, and a pipelined broadcast.

./run_experiment own --set workload=examples/own_workload.py:Shuffle --set hosts=8
./run_experiment own --set workload=examples/own_workload.py:PipelinedBroadcast --set bytes=4MiB
"""


class Shuffle:
    """Every other host maps, the rest reduce: each mapper sends `bytes` to every reducer, to one after the
    other in an order of its own."""

    def __init__(self, hosts, asked):
        self.mappers, self.reducers, self.size_bytes = hosts[::2], hosts[1::2], asked.sru_bytes

    def pairs(self):
        return [(mapper, reducer) for mapper in self.mappers for reducer in self.reducers]

    def begin(self, traffic):
        for mapper in self.mappers:
            self.go_on(traffic, mapper, traffic.dice.sample(self.reducers, len(self.reducers)))

    def go_on(self, traffic, mapper, left):
        if left:
            traffic.send((mapper, left[0]), self.size_bytes, then=lambda: self.go_on(traffic, mapper, left[1:]))


class PipelinedBroadcast:
    """`bytes` of h1 go along the chain of all hosts in 16 pieces: each host passes a piece on when it has it."""

    def __init__(self, hosts, asked):
        self.chain, self.piece_bytes = list(zip(hosts, hosts[1:])), asked.sru_bytes // 16

    def pairs(self):
        return self.chain

    def begin(self, traffic, link=0, pieces=16):
        for _ in range(pieces if link < len(self.chain) else 0):
            traffic.send(self.chain[link], self.piece_bytes, then=lambda: self.begin(traffic, link + 1, 1))
