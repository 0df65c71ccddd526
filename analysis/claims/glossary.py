"""The Korean terms of the lecture's subject, with what they mean here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A term in Korean, in English, and in one sentence."""

    korean: str
    english: str
    meaning: str


TERMS = (
    Term("통신 병목", "communication bottleneck", "what a step of training waits for when not for computing"),
    Term("분산 학습", "distributed training", "one model trained by many machines at once"),
    Term("데이터 병렬화", "data parallelism", "each rank has the whole model and a part of the batch"),
    Term("모델 병렬화", "model parallelism", "each rank has a part of the model"),
    Term("텐서 병렬화", "tensor parallelism", "each layer is shared by all ranks"),
    Term("파이프라인 병렬화", "pipeline parallelism", "each rank has some of the layers, one after the other"),
    Term("집합 통신", "collective communication", "an operation that all ranks take part in, such as all-reduce"),
    Term("파라미터 서버", "parameter server", "one host that adds up the gradients of all workers"),
    Term("링 올리듀스", "ring all-reduce", "every rank sends a part to its neighbour, 2 (N - 1) times"),
    Term("기울기", "gradient", "what each rank learns of its batch, and all ranks must add up"),
    Term("브로드캐스트", "broadcast", "one rank's data to all"),
    Term("올개더", "all-gather", "every rank's part to all"),
    Term("리프-스파인", "leaf-spine", "two tiers: every leaf switch has a link to every spine switch"),
    Term("팻 트리", "fat-tree", "three tiers of equal switches without a narrow place"),
    Term("이등분 대역폭", "bisection bandwidth", "what the links between two halves of the hosts carry"),
    Term("초과 구독", "oversubscription", "hosts' bandwidth under a switch over that of its uplinks"),
    Term("지연 시간", "latency", "from the first bit sent to the message arrived"),
    Term("대역폭", "bandwidth", "bits a second that a link carries"),
    Term("처리량", "throughput", "bits a second that got through"),
    Term("스위치 버퍼", "switch buffer", "memory in which packets wait for a port"),
    Term("인캐스트", "incast", "many senders to one receiver at once"),
    Term("패킷 손실", "packet loss", "a packet that a full buffer, or a cable, dropped"),
    Term("재전송 타임아웃", "retransmission timeout", "how long TCP waits before it sends again unasked"),
    Term("혼잡 제어", "congestion control", "how senders learn to send less"),
    Term("우선순위 흐름 제어", "priority flow control (PFC)", "a switch that asks its neighbour to pause a class"),
    Term("원격 직접 메모리 접근", "remote direct memory access (RDMA)", "a NIC that writes into another host's memory"),
    Term("커널 우회", "kernel bypass", "sending without the operating system on the way"),
    Term("스트래글러", "straggler", "the slowest rank, which all others wait for"),
    Term("CPU 오버헤드", "CPU overhead", "what copies, system calls and interrupts cost a processor"),
    Term("중첩", "overlap", "gradients that travel while others are still computed"),
    Term("기울기 압축", "gradient compression", "fewer bits for each number of a gradient"),
    Term("연합 학습", "federated learning", "clients that train on data of their own and send updates alone"),
    Term("집계 서버", "aggregator", "the host that averages the clients' updates"),
    Term("계층적 연합 학습", "hierarchical federated learning", "aggregators near the clients, and one above them"),
    Term("장애 복구", "failure recovery", "from a broken link to traffic on another way"),
    Term("네트워크 내 연산", "in-network computing", "switches that add up partial gradients"),
)
