"""Code of the user's own: a fabric, a workload or a policy of the controller that is not built in."""

from __future__ import annotations

from experiments.catalog import Experiment

EXPERIMENT = Experiment(
    name="own",
    question="How does a fabric, a workload or a policy of your own fare?",
    claim="none of the lecture's: you ask",
    expects="all that is sent arrives; what was dropped, sent again and late is told",
    defaults={"topology": "leaf_spine", "workload": "permutation", "rounds": 2, "bytes": "1MiB", "capture": "off"},
)
