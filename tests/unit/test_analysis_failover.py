"""Streams over a small leaf-spine whose link dies: losses by failure, recovery, repair, and the verdict on them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from analysis import summarize
from analysis.kinds import failover
from analysis.kinds.failover import (
    CUT_OFF,
    DUPLICATED,
    LOST_OTHERWISE,
    NOTHING_FAILED,
    RECOVERS,
    REPAIRED_LATE,
    TOO_LATE,
    TOO_MANY,
    verdict,
)
from analysis.kinds.losses import delivered_share, failures, path_ns, unattributed
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Verdict
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_kinds import fabric_json, fabric_run
from tests.unit.test_analysis_run import evidence
from topologies.units import BadRequest

INTERVAL_NS, SENT = 10_000, 4000
DOWN_NS, UP_NS = T0_NS + 10_000_000, T0_NS + 30_000_000
PATH_NS = 4 * 1000 + 3 * 500  # a leaf-spine's links and switches; a frame alone is sent in no time


def stream(sender: int, lost: Iterable[int] = (), **changes: Any) -> dict[str, Any]:
    receiver = (sender + 7) % 16 + 1
    plain = {
        "flow": f"h{sender}>h{receiver}",
        "sender": f"h{sender}",
        "receiver": f"h{receiver}",
        "first_ns": T0_NS,
        "interval_ns": INTERVAL_NS,
        "sent": SENT,
        "lost": list(lost),
        "duplicates": 0,
        "reordered": 0,
        "longest_gap_ns": INTERVAL_NS * (1 + len(list(lost))),
    }
    return {**plain, **changes}


def failure(time_ns: int, action: str, in_flight: int, target: str = "leaf1-spine1") -> dict[str, Any]:
    held = {"leaf1-eth5": in_flight, "spine1-eth1": 0} if in_flight else {}
    return {"time_ns": time_ns, "target": target, "action": action, "in_flight": held}


def control(failed_ns: int, action: str, latency_ns: int = 5_000_000, heard_ns: int = 200) -> list[dict[str, Any]]:
    heard = {"time_ns": failed_ns + heard_ns, "event": f"port_{action}", "switch": "leaf1", "port": 5}
    return [heard, {"time_ns": failed_ns + latency_ns + 500_000, "event": "repaired"}]


def facts(streams: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    plain = {
        "workload": "streams",
        "streams": streams,
        "failures": [failure(DOWN_NS, "down", 2), failure(UP_NS, "up", 0)],
        "control_events": [*control(DOWN_NS, "down"), *control(UP_NS, "up")],
    }
    return {**plain, **changes}


def run_of(path: Path, measured: dict[str, Any], fast: bool = True, **spec: Any) -> Run:
    asked = {
        "fast_failover": fast,
        "control_latency": "5ms",
        "failure": "leaf1-spine1:down@10ms,leaf1-spine1:up@30ms",
        "interval": "10us",
        "duration": "40ms",
        **spec,
    }
    return fabric_run(path, fabric_json("leaf_spine", leaves=4, spines=2, hosts_per_leaf=4), measured, asked)


def fast_run(path: Path, **changes: Any) -> Run:
    """h1 and h2 lose what was on the wire: one datagram each."""
    lost = {1: [1000], 2: [1000]}
    return run_of(path, facts([stream(number, lost.get(number, ())) for number in range(1, 17)], **changes))


def slow_run(path: Path, **spec: Any) -> Run:
    """Without fast failover, h1 and h9 lose all until the controller's rules are there, 5.5 ms later."""
    gone = range(1000, 1550)
    streams = [stream(number, gone if number in (1, 9) else ()) for number in range(1, 17)]
    return run_of(path, facts(streams), fast=False, **spec)


def tolerance(told: Verdict, name: str) -> str:
    return next(piece.tolerance for piece in told.evidence if piece.name == name)


def test_each_loss_belongs_to_the_failure_before_it(tmp_path: Path) -> None:
    streams = [stream(1, [1000, 2999]), stream(2, [3000, 3001])]
    down, up = failures(run_of(tmp_path / "run", facts(streams)))
    assert [(loss.flow, loss.sent_ns - DOWN_NS) for loss in down.losses] == [("h1>h9", 0), ("h1>h9", 19_990_000)]
    assert [loss.sent_ns - UP_NS for loss in up.losses] == [0, INTERVAL_NS]


def test_a_datagram_on_its_way_when_the_link_dies_is_the_failures(tmp_path: Path) -> None:
    """One sent 5 us before needs 5.5 us; one sent 10 us before had arrived."""
    early = [failure(T0_NS + 5_000, "down", 1)]
    run = run_of(tmp_path / "run", facts([stream(1, [0])], failures=early))
    assert ([each.lost for each in failures(run)], unattributed(run)) == ([1], 0)
    assert path_ns(run) == PATH_NS
    assert failures(run)[0].last_loss_ns == PATH_NS - 5_000
    late = [failure(T0_NS + 10_000, "down", 1)]
    run = run_of(tmp_path / "late", facts([stream(1, [0])], failures=late))
    assert ([each.lost for each in failures(run)], unattributed(run)) == ([0], 1)
    assert verdict(run).verdict == LOST_OTHERWISE


def test_recovery_ends_with_the_last_loss(tmp_path: Path) -> None:
    """Sent 5.49 ms after the failure, lost at the latest one path later."""
    run = slow_run(tmp_path / "run")
    assert (failures(run)[0].lost, failures(run)[0].last_loss_ns) == (1100, 5_490_000 + path_ns(run))
    told = verdict(run)
    assert (told.verdict, told.good) == (RECOVERS, True)
    assert "lost to a failure" not in evidence(told)  # the switches do nothing by themselves


def test_losing_no_more_than_was_in_flight_is_in_time(tmp_path: Path) -> None:
    run = fast_run(tmp_path / "run")
    assert failures(run)[0].in_flight == 2
    assert verdict(run).verdict == RECOVERS
    assert set(evidence(verdict(run)).values()) == {True}


def test_what_reached_a_dead_port_unnoticed_may_be_lost_too(tmp_path: Path) -> None:
    """h1's datagrams reach leaf1-eth5 1,000 ns after they were sent; h2, under the same leaf, lost none, so that it
    may have gone another way."""
    streams = [stream(1, [1000, 1001, 1002]), stream(2)]
    events = [*control(DOWN_NS, "down", heard_ns=25_000), *control(UP_NS, "up")]
    told = verdict(run := run_of(tmp_path / "run", facts(streams, control_events=events)))
    down = failures(run)[0]
    assert (down.in_flight, down.noticed_ns, down.unnoticed, down.allowed) == (2, 25_000, 3, 5)
    assert (told.verdict, evidence(told)["lost to a failure"]) == (RECOVERS, True)
    assert "before the switches noticed (25 µs later: 3)" in tolerance(told, "lost to a failure")
    early = [*control(DOWN_NS, "down", heard_ns=900), *control(UP_NS, "up")]
    assert failures(run_of(tmp_path / "early", facts(streams, control_events=early)))[0].unnoticed == 0


def test_losing_more_than_was_in_flight_is_said(tmp_path: Path) -> None:
    told = verdict(fast_run(tmp_path / "run", failures=[failure(DOWN_NS, "down", 1), failure(UP_NS, "up", 0)]))
    assert (told.verdict, told.good, evidence(told)["lost to a failure"]) == (TOO_MANY, False, False)


def test_a_link_that_comes_back_must_cost_nothing(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", facts([stream(1, [3000])]))
    assert [each.lost for each in failures(run)] == [0, 1]
    assert verdict(run).verdict == TOO_MANY


def test_a_stream_that_does_not_recover_proves_nothing_within_a_second(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", facts([stream(1, range(1000, SENT))]), fast=False)
    assert [each.open_flows for each in failures(run)] == [1, 0]
    assert verdict(run).verdict == NOT_PROVEN
    assert verdict(run).missing == ("1 stream ended before delivery resumed after leaf1-spine1 down",)
    assert "not all streams recovered" in failover.headline(run)


def test_a_second_of_losses_is_too_late(tmp_path: Path) -> None:
    long = {"interval_ns": 10**6}
    gone = stream(1, range(10, 1100), **long)
    down = facts([gone], failures=[failure(DOWN_NS, "down", 1)])
    assert verdict(run_of(tmp_path / "run", down, fast=False)).verdict == TOO_LATE
    ended = facts([stream(1, range(10, 1100), **long, sent=1100)], failures=[failure(DOWN_NS, "down", 1)])
    assert verdict(run_of(tmp_path / "ended", ended, fast=False)).verdict == TOO_LATE


def test_the_repair_is_the_one_after_the_last_news_of_this_failure(tmp_path: Path) -> None:
    """One that is confirmed when half of the failure's ports are known answers an earlier event. A flapping link's next
    news is not this failure's, and a repair that was due already may come at once."""
    spine = {"time_ns": DOWN_NS + 400, "event": "port_down", "switch": "spine1", "port": 1}
    earlier = {"time_ns": DOWN_NS + 300, "event": "repaired"}
    at_once = [*control(UP_NS, "up", latency_ns=-499_700)]
    events = [*at_once, *control(DOWN_NS, "down"), spine, earlier]
    down, up = failures(fast_run(tmp_path / "run", control_events=events))
    assert (down.heard_ns, down.repaired_ns, down.repair_ns) == (200, 5_500_000, 5_499_800)
    assert (up.heard_ns, up.repair_ns) == (200, 100)


def test_a_slow_repair_is_said(tmp_path: Path) -> None:
    slow = [*control(DOWN_NS, "down", latency_ns=60_000_000), *control(UP_NS, "up")]
    only_down = {"failures": [failure(DOWN_NS, "down", 2)], "control_events": slow[:2]}
    told = verdict(fast_run(tmp_path / "run", **only_down))
    assert (told.verdict, evidence(told)["controller's repair"]) == (REPAIRED_LATE, False)


def test_without_a_controllers_word_nothing_is_proven(tmp_path: Path) -> None:
    told = verdict(fast_run(tmp_path / "run", control_events=[]))
    assert (told.verdict, evidence(told)["controller's repair"]) == (NOT_PROVEN, None)


def killed(time_ns: int) -> dict[str, Any]:
    return {"time_ns": time_ns, "target": "controller", "action": "down", "in_flight": {}}


def test_a_controller_that_was_killed_repairs_nothing_and_need_not(tmp_path: Path) -> None:
    """What ends with it, such as its connections to the switches, is no word of the link that fails later."""
    dead = [killed(DOWN_NS - 5 * 10**6), failure(DOWN_NS, "down", 2), failure(UP_NS, "up", 0)]
    lost_switch = {"time_ns": DOWN_NS + 10, "event": "lost_switch", "switch": "leaf1"}
    run = fast_run(tmp_path / "run", failures=dead, control_events=[lost_switch])
    told = verdict(run)
    assert [(each.heard_ns, each.repaired_ns) for each in failures(run)] == [(None, None)] * 3
    assert (told.verdict, told.missing) == (RECOVERS, ())
    repair = next(piece for piece in told.evidence if piece.name == "controller's repair")
    reason = "not applicable: the controller was dead, killed 5 ms after the streams began"
    assert (repair.applies, repair.holds, repair.source) == (False, None, reason)
    assert failover.headline(run).startswith("controller down; leaf1-spine1 down, up: 2 of 64,000 datagrams lost")
    assert "killed 5 ms after the streams began; switches kept forwarding" in failover.sections(run)
    plain = fast_run(tmp_path / "plain")
    fast_run(plain.path / "cases" / "dies", failures=dead, control_events=[])
    assert "dies: 2 lost, over after 5.5 µs (controller dead from 5 ms on)" in failover.beside(plain)


def test_a_dead_controller_is_judged_for_what_it_repaired_alive(tmp_path: Path) -> None:
    some = [failure(DOWN_NS, "down", 2), killed(DOWN_NS + 10**8), failure(DOWN_NS + 2 * 10**8, "up", 0)]
    late = control(DOWN_NS, "down", latency_ns=60_000_000)
    told = verdict(fast_run(tmp_path / "run", failures=some, control_events=late))
    assert (told.verdict, evidence(told)["controller's repair"]) == (REPAIRED_LATE, False)
    assert "1 event excused: the controller was dead" in tolerance(told, "controller's repair")
    never = verdict(fast_run(tmp_path / "never", failures=some, control_events=late[:1]))
    assert (never.verdict, evidence(never)["controller's repair"]) == (NOT_PROVEN, None)


def test_an_outage_through_further_failures_counts_from_the_first(tmp_path: Path) -> None:
    """h1 hears nothing from the first failure until after the third event: 15 ms, not 5."""
    events = [failure(DOWN_NS + step * 5 * 10**6, "up" if step % 2 else "down", 0) for step in range(4)]
    run = run_of(tmp_path / "run", facts([stream(1, range(1000, 2500))], failures=events), fast=False)
    assert [each.lost for each in failures(run)] == [1500, 0, 0, 0]
    assert failover.row(run)["recovery_s"] == pytest.approx(0.015, rel=0.001)


def test_duplicates_are_said(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", facts([stream(1, duplicates=3, reordered=2)]))
    assert verdict(run).verdict == DUPLICATED
    told = failover.row(run)
    assert (told["duplicates"], told["reordered"]) == (3, 2)
    assert "h1&gt;h9" in failover.sections(run)


def test_a_run_in_which_nothing_fails(tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"failures": [], "control_events": []}
    assert verdict(run_of(tmp_path / "run", facts([stream(1)], **quiet))).verdict == NOTHING_FAILED
    assert verdict(run_of(tmp_path / "lossy", facts([stream(1, [7])], **quiet))).verdict == LOST_OTHERWISE
    without = {key: value for key, value in facts([stream(1)]).items() if key not in quiet}
    assert verdict(run_of(tmp_path / "bare", without)).verdict == NOTHING_FAILED


def test_an_interrupted_run_is_not_proven(tmp_path: Path) -> None:
    stopped = {"workload": "streams", "complete": False, "rounds": []}
    run = run_of(tmp_path / "run", stopped)
    assert (verdict(run).verdict, verdict(run).missing) == (NOT_PROVEN, ("measured.json has no streams",))
    assert failover.headline(run) == "no stream was finished"
    assert failover.sections(run) == ""
    assert [figure.path for figure in failover.figures(run)] == [None, None]
    assert failover.row(run)["lost"] is None


def test_a_damaged_stream_is_named(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", facts([{"flow": "h1>h9"}]))
    with pytest.raises(BadRequest, match=r"an entry of 'streams' lacks one of flow, first_ns"):
        verdict(run)


def test_the_share_delivered_over_time(tmp_path: Path) -> None:
    """Four datagrams of two flows in each 20 us; one of them lost in the second."""
    run = run_of(tmp_path / "run", facts([stream(1, [3], sent=6), stream(2, sent=6)]))
    assert delivered_share(run, 20_000) == ([0, 0.02, 0.04], [1, 0.75, 1])


def test_a_run_with_cases_is_compared_in_figures_and_words(tmp_path: Path) -> None:
    run = fast_run(tmp_path / "run")
    slow_run(run.path / "cases" / "alone", label="alone")
    assert failover.beside(run) == "Beside it, alone: 1,100 lost, over after 5.5 ms."
    drawn = {figure.name: figure for figure in failover.figures(run)}
    assert all(figure.path and figure.path.stat().st_size > 10_000 for figure in drawn.values())
    lost = "Datagrams lost: with fast failover 2, by the controller alone 1,100"
    assert drawn["failover_cases"].title == lost
    assert drawn["failover_timeline"].title == "leaf1-spine1 goes down: 2 flows lose 2 datagrams, over after 5.5 µs"
    assert failover.against(failover.row(run), failover.row(run.cases["alone"])) == "1,098 more lost"
    assert "5.5 ms" in failover.sections(run)


def test_the_summary_is_json(tmp_path: Path) -> None:
    told = json.loads(json.dumps(summarize(slow_run(tmp_path / "run"))))["failover"]
    assert (told["lost"], told["lost_without_failure"], told["repair_s"]) == (1100, 0, 0.0054998)
    assert told["failures"][0]["at_s"] == 0.01
    assert told["streams"]["h1>h9"]["lost"] == 550


def test_what_has_no_way_left_is_cut_off(tmp_path: Path) -> None:
    """leaf1 is dead, and with it the only way of h1 and h2; h5, under leaf2, has lost one datagram for which there was
    another way."""
    dead = [failure(DOWN_NS, "down", 0)]
    dead[0].update({"target": "leaf1", "in_flight": dict.fromkeys((f"leaf1-eth{port}" for port in range(1, 7)), 0)})
    streams = [stream(1, range(1000, 1100)), stream(5, [1000])]
    run = run_of(tmp_path / "run", facts(streams, failures=dead))
    down = failures(run)[0]
    assert verdict(run_of(tmp_path / "all", facts(streams[:1], failures=dead))).verdict == CUT_OFF
    assert (down.cut_off, len(down.losses), down.lost, down.allowed) == (100, 1, 101, 100)
