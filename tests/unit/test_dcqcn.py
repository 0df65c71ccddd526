"""DCQCN against sequences worked by hand from the paper's equations, and what must hold of any sequence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.dcqcn import Dcqcn, NotificationPoint, ReactionPoint

G = 10**9
LINE = 40 * G
PAPER = Dcqcn()
# Round numbers: a timer of 10 us lets 1 Gb/s send 1,250 bytes.
ROUND = Dcqcn(rate_timer_ns=10_000, alpha_timer_ns=10_000, rai_bps=1 * G, rhai_bps=5 * G, g=0.5)


def idle() -> int:
    return 0


def unread() -> int:
    raise AssertionError("bytes were asked for")


class Sending:
    """A queue pair that always has something to send: what it has sent when asked, at the rates of its limiter."""

    def __init__(self, point: ReactionPoint, efficiency: float = 1.0) -> None:
        self.point, self.efficiency = point, efficiency
        self.sent_bytes, self.readings, self._since_ns = 5_000_000.0, 0, 0

    def run_to(self, now_ns: int) -> None:
        self.sent_bytes += self.efficiency * self.point.rate_bps * (now_ns - self._since_ns) / 8e9
        self._since_ns = now_ns

    def read(self) -> int:
        self.readings += 1
        return int(self.sent_bytes)

    def timers(self, most: int = 10**6) -> Iterator[int]:
        """Let time pass, timer by timer, until the limiter is released; the time of each."""
        for _ in range(most):
            now_ns = self.point.next_ns
            if now_ns is None:
                return
            self.run_to(now_ns)
            self.point.advance(now_ns, self.read)
            yield now_ns


# --- notification point


def test_the_papers_parameters() -> None:
    """Zhu et al., SIGCOMM 2015."""
    assert (PAPER.cnp_interval_ns, PAPER.alpha_timer_ns, PAPER.rate_timer_ns) == (50_000, 55_000, 55_000)
    assert (PAPER.byte_counter_bytes, PAPER.f, PAPER.g) == (10_000_000, 5, 0.00390625)
    assert (PAPER.rai_bps, PAPER.rhai_bps, PAPER.initial_alpha) == (40_000_000, 200_000_000, 1)


def test_the_first_mark_is_answered_and_the_next_an_interval_later() -> None:
    point = NotificationPoint(50_000)
    times_ns = (1_000, 1_001, 50_999, 51_000, 51_001, 500_000, 549_999)
    assert [point.answers(17, now_ns) for now_ns in times_ns] == [True, False, False, True, False, True, False]


def test_queue_pairs_are_answered_each_for_itself() -> None:
    point = NotificationPoint(50_000)
    assert [point.answers(queue_pair, 0) for queue_pair in (17, 18, 17)] == [True, True, False]


@given(
    st.integers(1, 100_000),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60_000)), min_size=1, max_size=200),
)
def test_at_most_one_cnp_an_interval_and_at_least_one_while_marks_come(
    interval_ns: int, marks: list[tuple[int, int]]
) -> None:
    point, now_ns = NotificationPoint(interval_ns), 0
    last: dict[int, int] = {}
    for queue_pair, gap_ns in marks:
        now_ns += gap_ns
        is_due = queue_pair not in last or now_ns - last[queue_pair] >= interval_ns
        assert point.answers(queue_pair, now_ns) == is_due
        if is_due:
            last[queue_pair] = now_ns


# --- reaction point, by hand


def test_a_flow_begins_at_line_rate_without_a_limiter() -> None:
    point = ReactionPoint(PAPER, LINE)
    assert (point.rate_bps, point.target_bps, point.alpha(10**9), point.next_ns) == (LINE, LINE, 1, None)


def test_cnps_cut_by_half_of_alpha() -> None:
    """Equation (1): alpha stays 1 while no timer runs out without a CNP."""
    point = ReactionPoint(PAPER, LINE)
    seen = []
    for now_ns in (0, 50_000, 100_000):
        point.cnp(now_ns)
        seen.append((point.rate_bps, point.target_bps, point.alpha(now_ns), point.next_ns))
    assert seen == [
        (20 * G, 40 * G, 1, 55_000),
        (10 * G, 20 * G, 1, 105_000),
        (5 * G, 10 * G, 1, 155_000),
    ]


def test_alpha_decays_with_every_timer_and_rises_with_a_cnp() -> None:
    """Equations (2) and (1) with g = 1/2: 1 -> 1/2 -> 1/4, and 5/8 after the CNP, which cuts by an eighth."""
    point = ReactionPoint(ROUND, LINE)
    point.cnp(1_000)
    times_ns = (1_000, 10_999, 11_000, 20_999, 21_000)
    assert [point.alpha(now_ns) for now_ns in times_ns] == [1, 1, 0.5, 0.5, 0.25]
    point.cnp(24_000)
    assert (point.rate_bps, point.target_bps) == (17_500_000_000, 20 * G)
    # The alpha timer began again with the CNP.
    assert [point.alpha(now_ns) for now_ns in (24_000, 33_999, 34_000)] == [0.625, 0.625, 0.3125]


def test_five_fast_recoveries_then_additive_increase_to_the_line() -> None:
    """Equations (3) and (4): 40 Gb/s halved; the gap of 20 halves five times, then the target rises by 1 each time."""
    point = ReactionPoint(ROUND, LINE)
    point.cnp(0)
    steps = []
    for number in range(1, 7):
        point.advance(10_000 * number, idle)
        steps.append((point.rate_bps, point.target_bps, point.next_ns))
    assert steps == [
        (30 * G, 40 * G, 20_000),
        (35 * G, 40 * G, 30_000),
        (37_500_000_000, 40 * G, 40_000),
        (38_750_000_000, 40 * G, 50_000),
        (39_375_000_000, 40 * G, 60_000),
        (40 * G, 40 * G, None),  # (41 + 39.375) / 2 is over the line: released
    ]


def test_additive_increase_with_the_papers_step() -> None:
    """From 10 Gb/s, cut to 5: the sixth timer is the first with R_AI."""
    point = ReactionPoint(PAPER, LINE)
    point.cnp(0)
    point.cnp(1)
    point.cnp(2)
    assert (point.rate_bps, point.target_bps) == (5 * G, 10 * G)
    for number in range(1, 8):
        point.advance(2 + 55_000 * number, idle)
        if number == 5:
            assert (point.rate_bps, point.target_bps) == (9_843_750_000, 10 * G)
        if number == 6:
            assert (point.rate_bps, point.target_bps) == (9_941_875_000, 10_040_000_000)
    assert (point.rate_bps, point.target_bps) == (10_010_937_500, 10_080_000_000)


def test_the_byte_counter_raises_the_rate_too() -> None:
    """1,250,000 bytes are what 20 Gb/s send in 500 us: the counter runs out with the first timer of 500 us and every
    timer after it, whose rates are higher."""
    slow = replace(ROUND, rate_timer_ns=500_000, byte_counter_bytes=1_250_000)
    point = ReactionPoint(slow, LINE)
    point.cnp(0)
    point.advance(500_000, lambda: 7_000_000)  # so 5,750,000 when the CNP came
    assert point.rate_bps == 35 * G  # 20 -> 30 by the timer -> 35 by the counter
    point.advance(1_000_000, lambda: 7_000_000 + 2_187_500)  # one and three quarters of a counter
    assert point.rate_bps == 38_750_000_000


def test_what_an_idle_queue_pair_has_not_sent_is_not_counted() -> None:
    slow = replace(ROUND, rate_timer_ns=500_000, byte_counter_bytes=2_000_000)
    point = ReactionPoint(slow, LINE)
    point.cnp(0)
    for number in (1, 2, 3):
        point.advance(500_000 * number, lambda: 6_000_000)
    assert point.rate_bps == 37_500_000_000  # three timers, no counter


def test_hyper_increase_once_both_have_run_out_more_than_f_times() -> None:
    """With F = 1: fast recovery, then timer and counter both at 2: i = 1 and R_HAI, at 3: i = 2."""
    fast = replace(ROUND, f=1, rate_timer_ns=500_000, byte_counter_bytes=1_250_000)
    point = ReactionPoint(fast, 400 * G)
    for now_ns in range(4):
        point.cnp(now_ns)  # 400 -> 25 Gb/s
    sent_bytes = 0
    steps = []
    for number in range(1, 4):
        sent_bytes += 1_250_000 + 312_500 * (number == 1)  # the first 500 us at 25 Gb/s: all of it is since the CNP
        point.advance(3 + 500_000 * number, lambda: sent_bytes)  # noqa: B023
        steps.append((point.rate_bps, point.target_bps))
    # timer 1: (25 + 50) / 2 = 37.5; counter 1: (37.5 + 50) / 2 = 43.75
    assert steps[0] == (43_750_000_000, 50 * G)
    # timer 2: min(2, 1) = F, so R_AI: 51, (43.75 + 51) / 2 = 47.375; counter 2: 1 x R_HAI: 56, (47.375 + 56) / 2
    assert steps[1] == (51_687_500_000, 56 * G)
    # timer 3: min(3, 2) - 1 = 1: 61, (51.6875 + 61) / 2 = 56.34375; counter 3: 2 x R_HAI: 71, (56.34375 + 71) / 2
    assert steps[2] == (63_671_875_000, 71 * G)


def test_a_cnp_begins_everything_again() -> None:
    point = ReactionPoint(ROUND, LINE)
    point.cnp(0)
    point.advance(10_000, idle)
    point.cnp(15_000)
    assert (point.target_bps, point.next_ns) == (30 * G, 25_000)
    for number in range(5):  # five fast recoveries again
        point.advance(25_000 + 10_000 * number, idle)
        assert point.target_bps == 30 * G
    point.advance(75_000, idle)
    assert point.target_bps == 31 * G


def test_a_released_limiter_is_quiet_and_its_alpha_decays_on() -> None:
    point = ReactionPoint(ROUND, LINE)
    point.cnp(0)
    for number in range(1, 7):
        point.advance(10_000 * number, idle)
    assert point.next_ns is None
    point.advance(10**9, unread)
    assert point.rate_bps == LINE
    point.cnp(80_000)  # 8 decays: alpha 1/256, so the cut is by 1/512
    assert (point.rate_bps, point.target_bps, point.next_ns) == (LINE - LINE // 512, LINE, 90_000)
    assert point.alpha(80_000) == 0.5 / 256 + 0.5


def test_late_timers_are_made_up_for() -> None:
    late, exact = ReactionPoint(ROUND, LINE), ReactionPoint(ROUND, LINE)
    late.cnp(0)
    exact.cnp(0)
    late.advance(34_000, idle)
    for now_ns in (10_000, 20_000, 30_000):
        exact.advance(now_ns, idle)
    assert (late.rate_bps, late.next_ns) == (exact.rate_bps, exact.next_ns) == (37_500_000_000, 40_000)


def test_the_rate_falls_no_lower_than_the_least() -> None:
    point = ReactionPoint(PAPER, LINE)
    for number in range(100):
        point.cnp(50_000 * number)
    assert point.rate_bps == 10_000_000


def test_bytes_are_asked_for_seldom() -> None:
    """After the CNP, and when a counter can have run out: 1.1 MB go out in five timers at 20 to 38.75 Gb/s."""
    sending = Sending(ReactionPoint(replace(PAPER, byte_counter_bytes=1_100_000), LINE))
    sending.point.cnp(0)
    assert [sending.readings for _ in sending.timers(6)] == [1, 1, 1, 1, 2, 2]


# --- any sequence

PARAMETERS = st.builds(
    Dcqcn,
    cnp_interval_ns=st.integers(1_000, 100_000),
    alpha_timer_ns=st.integers(1_000, 100_000),
    rate_timer_ns=st.integers(1_000, 1_000_000),
    byte_counter_bytes=st.integers(10_000, 100_000_000),
    f=st.integers(1, 10),
    g=st.floats(1 / 1024, 1),
    rai_bps=st.integers(1_000_000, 10 * G),
    rhai_bps=st.integers(1_000_000, 10 * G),
    min_rate_bps=st.integers(1_000_000, G),
    initial_alpha=st.floats(0, 1),
)
LINES = st.integers(G, 400 * G)
GAPS_NS = st.lists(st.integers(0, 2_000_000), min_size=1, max_size=40)


@given(PARAMETERS, LINES, GAPS_NS, st.floats(0, 1))
def test_rate_alpha_and_target_stay_in_their_bounds(
    parameters: Dcqcn, line_bps: int, gaps_ns: list[int], efficiency: float
) -> None:
    point = ReactionPoint(parameters, line_bps)
    sending, now_ns = Sending(point, efficiency), 0
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        while point.next_ns is not None and point.next_ns <= now_ns:
            next(sending.timers(1))
            assert parameters.min_rate_bps <= point.rate_bps <= line_bps
            assert point.rate_bps <= point.target_bps
            assert point.next_ns is not None or point.rate_bps == point.target_bps == line_bps
        sending.run_to(now_ns)
        before_bps, alpha = point.rate_bps, point.alpha(now_ns)
        point.cnp(now_ns)
        assert parameters.min_rate_bps <= point.rate_bps <= before_bps <= line_bps
        assert point.target_bps == before_bps
        assert 0 <= alpha <= point.alpha(now_ns) + 1e-12 <= 1 + 1e-12
        assert point.next_ns == now_ns + parameters.rate_timer_ns


@given(PARAMETERS, LINES, st.integers(1, 20), st.floats(0, 1))
def test_without_cnps_the_rate_only_rises_and_alpha_only_falls(
    parameters: Dcqcn, line_bps: int, cnps: int, efficiency: float
) -> None:
    point = ReactionPoint(parameters, line_bps)
    sending = Sending(point, efficiency)
    for now_ns in range(cnps):
        point.cnp(now_ns)
    rate_bps, alpha, released = point.rate_bps, point.alpha(cnps), False
    for now_ns in sending.timers(300):
        assert point.rate_bps >= rate_bps
        assert point.alpha(now_ns) <= alpha
        rate_bps, alpha = point.rate_bps, point.alpha(now_ns)
        released = point.next_ns is None
    assert released or point.rate_bps < line_bps


@given(LINES, st.integers(1, 30), st.floats(0, 1))
def test_every_limiter_is_released_in_the_end(line_bps: int, cnps: int, efficiency: float) -> None:
    """Additive increase alone: a step a timer, and the rate two steps behind the target."""
    point = ReactionPoint(PAPER, line_bps)
    for now_ns in range(cnps):
        point.cnp(now_ns)
    timers = sum(1 for _ in Sending(point, efficiency).timers())
    assert point.next_ns is None
    assert point.rate_bps == line_bps
    assert timers <= PAPER.f + line_bps / PAPER.rai_bps + 3


@given(PARAMETERS, LINES, st.integers(1, 20))
def test_a_busy_queue_pairs_bytes_are_counted_as_if_read_at_every_timer(
    parameters: Dcqcn, line_bps: int, timers: int
) -> None:
    """Reading seldom changes nothing: the increases so far are the timers and the bytes sent since the CNP."""
    assume(parameters.byte_counter_bytes > line_bps * parameters.rate_timer_ns / 8e9)
    point = ReactionPoint(parameters, line_bps)
    sending = Sending(point)
    point.cnp(0)
    begin_bytes = sending.sent_bytes
    rate, target = line_bps * max(1 - parameters.initial_alpha / 2, parameters.min_rate_bps / line_bps), float(line_bps)
    byte_stage = 0
    for timer_stage, _ in enumerate(sending.timers(timers), start=1):
        events = [timer_stage]
        # A reading is in whole bytes: at a count's very edge it may be one timer late.
        share = (sending.sent_bytes - begin_bytes) / parameters.byte_counter_bytes
        assume(abs(share - round(share)) * parameters.byte_counter_bytes > 10)
        if int(share) > byte_stage:
            assert int(share) == byte_stage + 1
            events.append(timer_stage)
        for index, _ in enumerate(events):
            byte_stage += index
            target += _step(parameters, timer_stage, byte_stage)
            rate = (rate + target) / 2
        if rate >= line_bps:
            assert point.next_ns is None
            return
        assert point.rate_bps == pytest.approx(rate, rel=1e-9, abs=1)


def _step(parameters: Dcqcn, timer_stage: int, byte_stage: int) -> int:
    """What the target rises by: figure 7 of the paper."""
    if max(timer_stage, byte_stage) <= parameters.f:
        return 0
    if min(timer_stage, byte_stage) <= parameters.f:
        return parameters.rai_bps
    return parameters.rhai_bps * (min(timer_stage, byte_stage) - parameters.f)
