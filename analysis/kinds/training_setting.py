"""What the model of a training step says of a run, from its spec and its fabric.json alone."""

from __future__ import annotations

from dataclasses import replace

from analysis.kinds import training_model as model
from analysis.kinds.collective_model import Setting, seconds
from analysis.kinds.collective_setting import setting
from analysis.kinds.training_model import Step
from analysis.kinds.training_steps import rank_hosts
from analysis.run import Run
from topologies.units import BadRequest, parse_bytes, parse_duration_ns

_TENSOR_REDUCTIONS = 4  # of a layer: two in forward, two in backward (Shoeybi et al. 2019)
UNMODELLED = {  # key -> why a run that has it is no case for the model
    "lossy_link": "cables lose packets",
    "failure": "links fail",
    "host_cost": "processors cost time",
}


def slowness(run: Run) -> list[float]:
    """How many times longer each rank computes than it should, by the spec."""
    text = str(run.spec.get("slow_host") or "none")
    told = dict(word.strip().split(":") for word in text.split(",")) if text not in ("none", "auto") else {}
    return [float(told.get(host, 1.0)) for host in rank_hosts(run)]


def unmodelled(run: Run) -> str:
    """Why the model has nothing to say of the run; empty when it has."""
    if run.fabric is None:
        return "fabric.json is missing"
    if not rank_hosts(run):
        return "measured.json tells no ranks"
    if run.spec.get("parallelism") == "pipeline":
        return "a pipeline's step is told by analysis/kinds/parallel_model.py"
    reasons = [why for key, why in UNMODELLED.items() if str(run.spec.get(key) or "none") not in ("none", "auto")]
    return reasons[0] if reasons else ""


def modelled(run: Run) -> Step | None:
    """The step as modelled; None where the model has nothing to say (`unmodelled`)."""
    if unmodelled(run):
        return None
    try:
        return _modelled(run, replace(setting(run), collective="all_reduce"))
    except BadRequest:  # an algorithm that has no model
        return None


def _modelled(run: Run, asked: Setting) -> Step:
    own_s = _compute_s(run)
    if run.spec.get("parallelism") == "tensor":
        reductions = _TENSOR_REDUCTIONS * int(run.spec["layers"])
        return model.tensor_parallel(own_s, asked.ranks, reductions, seconds(asked, _bytes(run, "activation") or 0))
    sizes = bucket_bytes(run)
    overlap = run.spec.get("overlap") is True
    if asked.algorithm == "parameter_server":
        return model.served(own_s, sizes, _served_byte_s(asked), overlap)
    return model.data_parallel(own_s, sizes, [_travel_s(run, asked, size) for size in sizes], overlap)


def bucket_bytes(run: Run) -> list[int]:
    """The buckets of the run's gradient."""
    return model.bucket_sizes(_bytes(run, "gradient") or 1, _bytes(run, "bucket"))


def _travel_s(run: Run, asked: Setting, size_bytes: int) -> float:
    """A bucket's time on the network; what is compressed is sent to all, not added up on its way."""
    ratio = (run.measured.get("compression") or {}).get("ratio", 1.0)
    if run.spec.get("compression") in (None, "none", "auto"):
        return seconds(asked, size_bytes)
    return seconds(replace(asked, collective="all_gather"), ratio * size_bytes * asked.ranks)


def _served_byte_s(asked: Setting) -> float:
    """A byte of every rank's gradient: over the servers' links together, or over a rank's own."""
    return max(asked.ranks * asked.helper.beta_s / asked.shards, asked.outer.beta_s)


def _compute_s(run: Run) -> float:
    """What the slowest rank computes of those that are waited for."""
    waited = sorted(slowness(run))[: len(rank_hosts(run)) - int(run.given("backup_workers") or 0)]
    return waited[-1] * parse_duration_ns(run.spec["compute"], "compute") / 1e9


def _bytes(run: Run, key: str) -> int | None:
    value = run.given(key)
    return None if value in (None, "off") else parse_bytes(value, key)
