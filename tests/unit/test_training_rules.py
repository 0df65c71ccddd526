"""Specs of training steps: what is refused, and what a spec becomes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from experiments import drive_training, limits
from experiments.catalog import find, plan
from experiments.drive_training import job_of, used_channels
from experiments.playing import Run
from experiments.spec import Spec, parse
from topologies.units import BadRequest
from workloads import digits
from workloads.training.log import Step, Turn


def resolved(**keys: Any) -> Spec:
    return limits.resolve(parse({"workload": "training", "topology": "star", "ranks": 4, **keys}))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"parallelism": "tensor", "model": "digits"}, "model: digits is given with parallelism=tensor"),
        ({"parallelism": "pipeline", "compression": "sign"}, "compression: sign is given with parallelism=pipeline"),
        ({"parallelism": "pipeline", "layers": 3}, "layers: 3 is given with ranks=4; allowed: 4 or more"),
        (
            {"parallelism": "tensor", "algorithm": "parameter_server", "backup_workers": 1},
            "backup_workers: 1 is given with parallelism=tensor",
        ),
        ({"compression": "int8", "algorithm": "tree"}, "compression: int8 is given with algorithm=tree; allowed: ring"),
        ({"compression": "topk", "algorithm": "parameter_server"}, "compression: topk is given with algorithm"),
        ({"model": "digits", "gradient": "336B"}, "gradient: 336B is given with model=digits; allowed: 340B"),
        ({"algorithm": "parameter_server", "shards": 3, "gradient": "8B"}, "gradient: 8B is given with shards=3"),
        ({"backup_workers": 1, "algorithm": "ring"}, "backup_workers: 1 is given with algorithm=ring"),
        ({"algorithm": "parameter_server", "backup_workers": 4}, "backup_workers: 4 is given with ranks=4"),
        ({"slow_host": "h9:2"}, "slow_host: there is no host h9"),
    ],
)
def test_what_does_not_go_together_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        resolved(**keys)


def test_the_smallest_model_fits_the_smallest_gradient_that_is_allowed() -> None:
    assert (digits.widest(340 // 4), digits.widest(336 // 4)) == (1, 0)


def test_a_spec_becomes_a_job() -> None:
    job = job_of(resolved(gradient="10B", bucket="5B", slow_host="h3:2.5", compute="3ms", overlap="off", seed=7))
    assert (job.ranks, job.gradient_items, job.bucket_items, job.overlap, job.seed) == (4, 3, 2, False, 7)
    assert job.slowness == (1, 1, 2.5, 1)
    assert job_of(resolved(bucket="off")).bucket_items is None


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({}, 4),
        ({"parallelism": "pipeline"}, 6),
        ({"algorithm": "in_network"}, 0),
        ({"algorithm": "parameter_server", "shards": 2, "backup_workers": 1}, 2 * 2 * 4),
        ({"compression": "sign"}, 4),
        ({"compression": "int8", "algorithm": "direct", "model": "digits"}, 12),
    ],
)
def test_a_rehearsal_tells_the_connections(keys: dict[str, Any], count: int) -> None:
    assert len(used_channels(job_of(resolved(**keys)))) == count


@pytest.mark.parametrize("name", ["straggler", "overlap"])
def test_every_case_of_an_experiment_can_be_run(name: str) -> None:
    planned = plan(find(name), {})
    jobs = [job_of(limits.resolve(spec)) for spec in (planned.main, *(spec for _, spec in planned.cases))]
    assert len(planned.cases) == len(find(name).cases(planned.main))
    assert len({job.gradient_items for job in jobs}) == 1


@pytest.mark.parametrize(("over", "told"), [(0, []), (1, [70, 5, 0, 0]), (2, [65, 5, 0, 0])])
def test_bytes_of_a_step_that_broke_off_are_not_told_of_others(
    monkeypatch: pytest.MonkeyPatch, over: int, told: list[int]
) -> None:
    monkeypatch.setattr(drive_training, "Wire", lambda stage: SimpleNamespace(read=dict))
    parties: Any = SimpleNamespace(hosts=["h1", "h2", "h3", "h4"], connections=[], processors={}, aggregator=None)
    stage: Any = None
    rounds: list[int] = []
    run = Run(stage, {}, lambda done: rounds.append(done.bytes), Path())
    account = drive_training._Account(run, parties, job_of(resolved()))
    for step, sent_bytes in enumerate((70, 60)[:over]):
        account.sent.update({(0, 1): sent_bytes, (1, 0): 5})
        account.note(Step(step, {0: Turn(start_ns=step, end_ns=step + 1)}))
    account.sent[0, 1] += 40
    account.close()
    assert run.facts["training"]["bytes_per_step"] == told
    assert rounds == [75, 65][:over]
    assert sum(run.facts["traffic"].values()) == sum(rounds) + 40
