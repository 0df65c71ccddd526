"""The records of pauses and of DCQCN: spans, counts, rates, and files that are damaged or missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from analysis.dcqcn import CNP_RECEIVED, CNP_SENT, DcqcnLog, read_dcqcn
from analysis.pause_log import HELD, REFRESH, XOFF, PauseLog, read_pauses, total_s
from topologies.units import BadRequest


def pause_log(*events: tuple[int, str, str]) -> PauseLog:
    times, ports, names = (list(column) for column in zip(*events))
    return PauseLog(np.array(times), np.array(ports, object), np.array(names, object), np.zeros(len(times), np.int64))


def test_a_port_is_held_until_it_is_resumed_or_the_pause_runs_out() -> None:
    log = pause_log((1, "a", "held"), (2, "b", "held"), (5, "a", "released"), (6, "a", "held"), (9, "b", "expired"))
    assert log.held == {"a": [(1, 5), (6, 9)], "b": [(2, 9)]}
    assert total_s(log.held["a"]) == pytest.approx(7e-9)


def test_a_pause_that_is_held_again_goes_on(tmp_path: Path) -> None:
    assert pause_log((1, "a", "held"), (3, "a", "held"), (8, "a", "released")).held == {"a": [(1, 8)]}


def test_a_watchdog_ends_a_hold() -> None:
    log = pause_log((1, "a", "held"), (4, "a", "watchdog_on"), (7, "a", "watchdog_off"), (9, "a", "held"))
    assert log.held == {"a": [(1, 4), (9, 9)]}


def test_neighbours_are_paused_from_xoff_to_xon() -> None:
    log = pause_log((1, "a", "xoff_sent"), (2, "a", "refresh_sent"), (5, "a", "xon_sent"), (6, "a", "xon_sent"))
    assert log.pausing == {"a": [(1, 5)]}
    assert log.held == {}


def test_events_are_counted_by_port_and_time() -> None:
    log = pause_log((1, "a", XOFF), (2, "b", XOFF), (3, "a", REFRESH), (4, "a", XOFF), (5, "b", HELD))
    assert log.count(XOFF) == {"a": 2, "b": 1}
    assert log.count(XOFF, 2, 4) == {"b": 1}
    assert log.count("expired") == {}


def write(path: Path, columns: dict[str, object]) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_files_are_read_in_order_of_time(tmp_path: Path) -> None:
    names = pyarrow.array(["x", "y"]).dictionary_encode()
    columns: dict[str, object] = {"time_ns": [5, 2], "port": names, "event": ["held", "released"], "value": [1, 2]}
    log = read_pauses(write(tmp_path / "pauses.parquet", columns))
    assert (log.time_ns.tolist(), log.port.tolist(), log.value.tolist()) == ([2, 5], ["y", "x"], [2, 1])


def test_a_file_without_events_is_no_trouble(tmp_path: Path) -> None:
    numbers, words = pyarrow.array([], pyarrow.int64()), pyarrow.array([], pyarrow.string())
    columns: dict[str, object] = {"time_ns": numbers, "port": words, "event": words, "value": numbers}
    log = read_pauses(write(tmp_path / "pauses.parquet", columns))
    assert (log.held, log.pausing, log.count(XOFF)) == ({}, {}, {})


@pytest.mark.parametrize("content", [None, b"", b"PAR1 is not enough", {"time_ns": [1]}])
def test_a_file_that_is_none_is_named(tmp_path: Path, content: object) -> None:
    path = tmp_path / "x.parquet"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        write(path, content)
    with pytest.raises(BadRequest, match=r"x.parquet: .*pause events"):
        read_pauses(path)
    with pytest.raises(BadRequest, match=r"x.parquet: .*DCQCN events"):
        read_dcqcn(path)


def dcqcn_log() -> DcqcnLog:
    events = ["cnp_sent", "cnp_received", "rate", "cnp_received"]
    return DcqcnLog(
        time_ns=np.array([1, 2, 3, 4]),
        queue_pair=np.array(["a", "a", "a", "b"], object),
        event=np.array(events, object),
        rate_bps=np.array([0, 50, 75, 60]),
        alpha=np.array([0.0, 1.0, 0.9, 1.0]),
        target_bps=np.array([0, 100, 100, 100]),
    )


def test_rates_change_with_a_notification_and_without() -> None:
    rates = dcqcn_log().rates()
    assert rates["a"].rate_bps.tolist() == [50, 75]
    assert rates["a"].alpha.tolist() == [1.0, 0.9]
    assert rates["b"].time_ns.tolist() == [4]


def test_notifications_are_counted_where_they_are_sent_and_received() -> None:
    log = dcqcn_log()
    assert (log.count(CNP_SENT), log.count(CNP_RECEIVED)) == (1, 2)
    assert log.times_ns(CNP_RECEIVED).tolist() == [2, 4]
