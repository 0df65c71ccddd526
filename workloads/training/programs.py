"""Training steps as programs (pure): what every rank computes, and when its numbers travel.

    rank      forward | backward, last layers first             | waits | update, next step
    network                      | all-reduce of bucket 0 | of 1 | of 2 |

In data parallelism each bucket of the gradient is reduced while backward computes the next one (overlap), as PyTorch's
DDP does (Li et al., VLDB 2020), or all are when backward has ended. A rank's step ends when it has all sums; it then
begins with the next, whatever the others do. Unlike in DDP the first bucket is as large as the others.
"""

from __future__ import annotations

from collections import Counter

from workloads.collectives.program import Aggregate, Program, Programs, Send
from workloads.training.data_parallel import DataParallel
from workloads.training.job import Job
from workloads.training.log import Log
from workloads.training.model_parallel import pipeline_parallel, tensor_parallel
from workloads.training.parameter_server import ServedTraining


def programs(job: Job, log: Log, sent: Counter[tuple[int, int]]) -> Programs:
    """What every party does, from the first step to the last; what happens is noted in the log, and the payload bytes
    from each party to each other are added to `sent`."""
    return {party: [_counting(program, party, job, sent) for program in its] for party, its in _made(job, log).items()}


def _made(job: Job, log: Log) -> Programs:
    if job.parallelism == "tensor":
        return tensor_parallel(job, log)
    if job.parallelism == "pipeline":
        return pipeline_parallel(job, log)
    if job.algorithm == "parameter_server":
        return ServedTraining(job, log).programs()
    return DataParallel(job, log).programs()


def _counting(program: Program, party: int, job: Job, sent: Counter[tuple[int, int]]) -> Program:
    """The program as it is, its bytes counted; an aggregator sends each rank as much as it gets from it."""
    for step in program:
        for operation in step if isinstance(step, tuple) else (step,):
            if isinstance(operation, Send):
                sent[party, operation.peer] += operation.data.nbytes
            elif isinstance(operation, Aggregate):
                (aggregator,) = job.helpers
                sent[party, aggregator] += operation.data.nbytes
                sent[aggregator, party] += operation.data.nbytes
        yield step
