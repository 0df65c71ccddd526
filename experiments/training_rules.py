"""What a resolved spec of training steps must not ask for (pure)."""

from __future__ import annotations

from experiments.cluster import ITEM_BYTES
from experiments.spec import Spec, known, refuse
from topologies.units import format_bytes

_GATHERED = ("ring", "halving_doubling", "direct")  # algorithms that an all-gather has
_LEAST_MODEL_BYTES = 4 * 85  # gradients of the smallest network (workloads/digits.py), of one hidden unit
_ITEM_BYTES = ITEM_BYTES["float32"]


def check_training(spec: Spec) -> None:
    """Raises BadRequest naming the key for what does not go together in workload=training."""
    if spec.workload != "training":
        return
    _check_shared(spec)
    _check_compression(spec)
    _check_gradient(spec)


def _check_shared(spec: Spec) -> None:
    """What there is in data parallelism alone; a stage without a layer."""
    if spec.parallelism != "data":
        for key, given, nothing in (
            ("compression", spec.compression, "none"),
            ("model", spec.model, "none"),
            ("backup_workers", spec.backup_workers or 0, 0),
        ):
            if given != nothing:
                refuse(key, f"{given} is given with parallelism={spec.parallelism}", "with parallelism=data")
    if spec.parallelism == "pipeline" and known(spec.layers) < known(spec.ranks):
        refuse("layers", f"{spec.layers} is given with ranks={spec.ranks}", f"{spec.ranks} or more, one for each stage")


def _check_compression(spec: Spec) -> None:
    """What cannot be added up on its way is sent to all."""
    if spec.compression != "none" and spec.algorithm not in _GATHERED:
        refuse("compression", f"{spec.compression} is given with algorithm={spec.algorithm}", " or ".join(_GATHERED))


def _check_gradient(spec: Spec) -> None:
    gradient_bytes = known(spec.gradient_bytes)
    if spec.model != "none" and gradient_bytes < _LEAST_MODEL_BYTES:
        refuse(
            "gradient",
            f"{format_bytes(gradient_bytes)} is given with model={spec.model}",
            f"{_LEAST_MODEL_BYTES}B or more: the smallest model's",
        )
    if gradient_bytes < _ITEM_BYTES * (spec.shards or 1):
        least_bytes = _ITEM_BYTES * (spec.shards or 1)
        refuse(
            "gradient", f"{format_bytes(gradient_bytes)} is given with shards={spec.shards}", f"{least_bytes}B or more"
        )
