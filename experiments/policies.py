"""How the controller of a spec's fabric is to route and mark it: by our policy, or by the user's own."""

from __future__ import annotations

from dataclasses import replace

from controller.policy import KEY, SWITCH, Orders, Policy, policy_class
from controller.state import FabricState
from experiments.marks import marking
from experiments.shape import lay_out
from experiments.spec import Spec, known
from topologies import plugins
from topologies.describe import describe
from topologies.profiles import Marking


def policy_of(spec: Spec) -> Policy:
    """The policy of a resolved spec on a routed fabric."""
    return policy_class(spec.own.get(KEY))(
        known(spec.routing),
        known(spec.ecmp_seed),
        known(spec.fast_failover),
        known(spec.control_latency_ns),
        spec.seed,
        spec.marking or SWITCH,
        _thresholds(spec),
    )


def check_policy(spec: Spec) -> None:
    """Raise BadRequest when the policy of a resolved spec is the user's own and cannot route its fabric: all rules that
    follow from it are made once."""
    plug = spec.own.get(KEY)
    if plug is not None:
        with plugins.told(plug, KEY):
            FabricState(Orders(describe(lay_out(spec)), replace(policy_of(spec), thresholds=()), plug))


def _thresholds(spec: Spec) -> tuple[tuple[int, Marking], ...]:
    """The curve by which ports of each rate mark."""
    found = marking(spec)
    if found is None:
        return ()
    return tuple((rate_bps, found.at(rate_bps)) for rate_bps in sorted(set(spec.link_rates_bps)))
