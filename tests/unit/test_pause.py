"""PFC: thresholds by the papers' figures, machines by sequences worked by hand and by properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.pause import (
    Event,
    Hold,
    Paused,
    Pauser,
    SharedBuffer,
    Watchdog,
    headroom_bytes,
    least_quanta,
    pause_ns,
    reaction_ns,
)
from controller.pfc_frame import FRAME_BYTES, MOST_QUANTA

GBPS = 10**9
FRAME = 1514
RATES_BPS = st.sampled_from([GBPS, 10 * GBPS, 40 * GBPS, 100 * GBPS, 400 * GBPS])

# --- quanta


@pytest.mark.parametrize(
    ("quanta", "rate_bps", "expected_ns"),
    [
        (65535, 40 * GBPS, 838_848),
        (65535, 10 * GBPS, 3_355_392),
        (1, GBPS, 512),
        (1, 400 * GBPS, 1),  # 1.28
        (0, GBPS, 0),
    ],
)
def test_quanta_are_512_bit_times(quanta: int, rate_bps: int, expected_ns: int) -> None:
    assert pause_ns(quanta, rate_bps) == expected_ns


@pytest.mark.parametrize(
    ("frame_bytes", "rate_bps", "order_ns", "quanta"),
    [
        (1514, GBPS, 0, 50),  # 2 x 1574 x 8 / 512 = 49.2
        (9014, GBPS, 0, 284),
        (4110, GBPS, 0, 131),
        (1514, 400 * GBPS, 50, 128),  # 20,000 bit times more: 2 x 32,592 / 512 = 127.3
        (1514, 400 * GBPS, 2000, 3175),
    ],
)
def test_the_fewest_quanta(frame_bytes: int, rate_bps: int, order_ns: int, quanta: int) -> None:
    """Half of them last as long as the order of a refresh, a frame in its way and the pause frame itself."""
    assert least_quanta(frame_bytes, rate_bps, order_ns) == quanta


# --- headroom


def test_headroom_worked_by_hand() -> None:
    """40 Gb/s, 1.5 us one way: 15,000 bytes fly both ways; 1 us of reaction are 5,000; and two frames."""
    assert headroom_bytes(40 * GBPS, 1500, FRAME, 1000) == 15_000 + 5_000 + 2 * 1514
    assert headroom_bytes(40 * GBPS, 1500, FRAME, 0) == 15_000 + 2 * 1514
    assert headroom_bytes(40 * GBPS, 0, FRAME, 0) == 2 * 1514
    assert headroom_bytes(10 * GBPS, 0, FRAME, 1) == 2 + 2 * 1514  # 1.25 bytes: a whole one more


def test_reaction_worked_by_hand() -> None:
    """100 Gb/s: the switch's delay twice, 60 bytes in 4.8 ns, and 50 ns of the program."""
    assert reaction_ns(100 * GBPS, 300) == 600 + 5 + 50


@given(RATES_BPS, st.integers(0, 10**6), st.integers(64, 9014), st.integers(0, 10**6))
def test_headroom_grows_with_each_of_its_terms(rate_bps: int, delay_ns: int, frame_bytes: int, reaction: int) -> None:
    here = headroom_bytes(rate_bps, delay_ns, frame_bytes, reaction)
    assert headroom_bytes(rate_bps, delay_ns, frame_bytes + 1, reaction) == here + 2
    assert headroom_bytes(rate_bps, delay_ns + 8, frame_bytes, reaction) == here + 2 * rate_bps // GBPS
    assert headroom_bytes(rate_bps, delay_ns, frame_bytes, reaction + 8) == here + rate_bps // GBPS


# --- thresholds of DCQCN's section 4


PAPER = SharedBuffer(buffer_bytes=12_000_000, ports=32, classes=8, headroom_bytes=22_400)


def test_the_papers_static_thresholds() -> None:
    """XOFF at most 24.47 KB; marking would have to begin below 0.76 KB, which is less than a frame."""
    assert PAPER.shared_bytes == 6_265_600
    assert PAPER.most_xoff_bytes == pytest.approx(24_470, abs=10)
    assert PAPER.static_ecn_bytes == pytest.approx(765, abs=5)
    assert PAPER.static_ecn_bytes < FRAME


def test_the_papers_dynamic_thresholds() -> None:
    """With beta = 8 marking begins below 21.75 KB, so that it acts before PFC."""
    assert PAPER.dynamic_ecn_bytes(beta=8) == pytest.approx(21_750, abs=10)
    assert PAPER.dynamic_xoff_bytes(beta=8, used_bytes=0) == PAPER.shared_bytes
    assert PAPER.dynamic_xoff_bytes(beta=8, used_bytes=PAPER.shared_bytes) == 0


@given(st.integers(2, 64), st.sampled_from([1, 2, 8]), st.floats(1 / 16, 64))
def test_at_the_marking_threshold_pfc_is_just_not_reached(ports: int, classes: int, beta: float) -> None:
    """The paper's worst case: every queue of every port is as long as marking lets it, and what came in by one port
    lies in all of one class."""
    buffer = SharedBuffer(1_000_000 * ports, ports, classes, 10_000)
    ecn_bytes = buffer.dynamic_ecn_bytes(beta)
    assert ports * ecn_bytes == pytest.approx(buffer.dynamic_xoff_bytes(beta, used_bytes=classes * ports * ecn_bytes))


# --- the sending side


def test_a_pauser_by_hand() -> None:
    """1,000 quanta at 1 Gb/s last 512 us: refreshed every 256 us until resumed."""
    pauser = Pauser(1000, GBPS)
    assert pauser.due_ns is None
    assert pauser.crossing(10, xoff=False) is None  # was not paused
    assert pauser.crossing(100, xoff=True) is Event.XOFF_SENT
    assert pauser.due_ns == 256_100
    assert pauser.crossing(200, xoff=True) is None  # is paused
    assert pauser.wake(256_099) is None
    assert pauser.wake(256_100) is Event.REFRESH_SENT
    assert pauser.wake(512_105) is Event.REFRESH_SENT  # woken late: counts from what was sent
    assert pauser.due_ns == 768_105
    assert pauser.crossing(600_000, xoff=False) is Event.XON_SENT
    assert pauser.due_ns is None
    assert pauser.wake(10**9) is None
    assert [pauser.quanta_of(event) for event in (Event.XOFF_SENT, Event.REFRESH_SENT, Event.XON_SENT)] == [
        1000,
        1000,
        0,
    ]


# --- the receiving side


def test_a_paused_port_by_hand() -> None:
    paused = Paused(GBPS)
    assert paused.frame(0, 0) is None  # a resume of what is not paused
    assert paused.frame(100, 10) is Event.HELD
    assert paused.due_ns == 5220
    assert paused.frame(3000, 10) is None  # refreshed
    assert paused.due_ns == 8120
    assert paused.wake(5220) is None
    assert paused.frame(3100, 1) is None  # the last frame counts, also when it says less
    assert paused.due_ns == 3612
    assert paused.wake(3612) is Event.EXPIRED
    assert paused.wake(3613) is None
    assert paused.frame(4000, 65535) is Event.HELD
    assert paused.frame(5000, 0) is Event.RELEASED
    assert paused.due_ns is None


# --- the watchdog


def test_a_watchdog_by_hand() -> None:
    dog = Watchdog(1000)
    dog.paused(0, True)
    dog.paused(999, False)
    assert dog.due_ns is None  # 999 ns were not too long
    dog.paused(2000, True)
    assert dog.wake(2999) is None
    assert dog.wake(3000) is Event.WATCHDOG_ON
    assert dog.bites
    assert dog.due_ns is None  # still paused
    dog.paused(5000, False)
    dog.paused(5500, True)
    assert dog.due_ns is None  # 500 ns of quiet were too short
    dog.paused(6000, False)
    assert dog.wake(6999) is None
    assert dog.wake(7000) is Event.WATCHDOG_OFF
    assert not dog.bites
    assert dog.wake(10**9) is None


def test_a_hold_with_a_watchdog_by_hand() -> None:
    """100 quanta at 1 Gb/s last 51.2 us; the watchdog waits 60 us."""
    hold = Hold(GBPS, 60_000)
    assert hold.due_ns is None
    assert hold.frame(0, 100) == [Event.HELD]
    assert hold.due_ns == 51_200
    assert hold.frame(25_600, 100) == []
    assert hold.due_ns == 60_000
    assert hold.wake(60_000) == [Event.WATCHDOG_ON, Event.RELEASED]
    assert not hold.held
    assert hold.frame(61_000, 100) == []  # not heeded
    assert not hold.held
    assert hold.wake(112_200) == []  # its quanta are over; quiet from now on
    assert hold.due_ns == 172_200
    assert hold.frame(172_000, 100) == []  # not long enough
    assert hold.frame(173_000, 0) == []
    assert hold.wake(233_000) == [Event.WATCHDOG_OFF]
    assert hold.frame(300_000, 100) == [Event.HELD]
    assert hold.frame(310_000, 0) == [Event.RELEASED]
    assert hold.due_ns is None


def test_a_pause_that_ends_as_the_watchdog_waits_was_not_too_long() -> None:
    hold = Hold(GBPS, 51_200)
    assert hold.frame(0, 100) == [Event.HELD]
    assert hold.wake(51_200) == [Event.EXPIRED]
    assert hold.due_ns is None


# --- properties

FRAMES = st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 60)), max_size=60)  # ns since the last, quanta
CROSSINGS = st.lists(st.integers(1, 100_000), max_size=40)  # ns since the last: XOFF and XON in turn


def played(hold: Hold, frames: Sequence[tuple[int, int]], end_ns: int) -> Iterator[tuple[int, Event]]:
    """What happens at a hold that gets frames (time, quanta) and is woken whenever it asks for it."""
    for time_ns, quanta in [*frames, (end_ns, None)]:
        while hold.due_ns is not None and hold.due_ns < time_ns:
            now_ns = hold.due_ns
            yield from ((now_ns, event) for event in hold.wake(now_ns))
        if quanta is not None:
            yield from ((time_ns, event) for event in hold.frame(time_ns, quanta))


def absolute(steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    now_ns, found = 0, []
    for after_ns, quanta in steps:
        now_ns += after_ns
        found.append((now_ns, quanta))
    return found


def spans(events: Sequence[tuple[int, Event]], begin: Event, end: set[Event]) -> list[tuple[int, int]]:
    """From each `begin` to the `end` that follows it; they must alternate."""
    found, since = [], None
    for time_ns, event in events:
        if event is begin:
            assert since is None
            since = time_ns
        elif event in end:
            assert since is not None
            found.append((since, time_ns))
            since = None
    assert since is None
    return found


FOREVER_NS = 10**12


@given(FRAMES)
@example([(0, 1), (1, 0), (0, 1)])  # resumed and paused again in one instant: two spans
def test_a_port_is_silent_exactly_while_the_last_frame_says_so(steps: list[tuple[int, int]]) -> None:
    frames = absolute(steps)
    events = list(played(Hold(GBPS), frames, FOREVER_NS))
    held = spans(events, Event.HELD, {Event.RELEASED, Event.EXPIRED})
    expected: list[list[int]] = []
    goes_on = False
    for (time_ns, quanta), (next_ns, _) in zip(frames, [*frames[1:], (FOREVER_NS, 0)]):
        until_ns = min(next_ns, time_ns + pause_ns(quanta, GBPS))
        if quanta and goes_on and expected[-1][1] == time_ns:
            expected[-1][1] = until_ns
        elif quanta:
            expected.append([time_ns, until_ns])
        goes_on = bool(quanta)
    assert [span for span in held if span[0] < span[1]] == [tuple(each) for each in expected if each[0] < each[1]]


@given(FRAMES, st.integers(1, 200_000))
def test_a_watchdog_ends_every_hold_and_lets_go_when_it_is_quiet(steps: list[tuple[int, int]], limit_ns: int) -> None:
    frames = absolute(steps)
    events = list(played(Hold(GBPS, limit_ns), frames, FOREVER_NS))
    held = spans(events, Event.HELD, {Event.RELEASED, Event.EXPIRED})
    bitten = spans(events, Event.WATCHDOG_ON, {Event.WATCHDOG_OFF})
    assert all(end_ns - begin_ns <= limit_ns for begin_ns, end_ns in held)
    # Without the watchdog, the same frames hold the port longer than it waits as often as it bites, at least.
    unguarded = spans(list(played(Hold(GBPS), frames, FOREVER_NS)), Event.HELD, {Event.RELEASED, Event.EXPIRED})
    too_long = [(begin_ns, end_ns) for begin_ns, end_ns in unguarded if end_ns - begin_ns > limit_ns]
    assert bool(too_long) == bool(bitten)
    for begin_ns, end_ns in bitten:
        assert any(held_end == begin_ns for _, held_end in held)
        # For `limit_ns` before it lets go nobody has asked for silence, and before that somebody had.
        asked = [span for span in unguarded if span[0] < end_ns]
        assert asked[-1][1] == end_ns - limit_ns


@given(CROSSINGS, RATES_BPS, st.integers(least_quanta(FRAME, 3200 * GBPS), MOST_QUANTA), st.integers(0, 10**6))
def test_a_neighbour_is_silent_from_xoff_to_xon_without_a_gap(
    steps: list[int], rate_bps: int, quanta: int, delay_ns: int
) -> None:
    """Refreshes arrive before the quanta are over: seen from the other end, one pause per XOFF."""
    crossings = absolute([(after_ns, number) for number, after_ns in enumerate(steps)])
    if len(crossings) % 2:
        crossings.append((crossings[-1][0] + 1, len(crossings)))
    pauser, frames = Pauser(quanta, rate_bps), []
    for time_ns, number in crossings:
        while pauser.due_ns is not None and pauser.due_ns < time_ns:
            now_ns = pauser.due_ns
            assert pauser.wake(now_ns) is Event.REFRESH_SENT
            frames.append((now_ns + delay_ns, pauser.quanta_of(Event.REFRESH_SENT)))
        event = pauser.crossing(time_ns, xoff=number % 2 == 0)
        assert event is not None
        frames.append((time_ns + delay_ns, pauser.quanta_of(event)))
    events = list(played(Hold(rate_bps), frames, FOREVER_NS))
    assert {event for _, event in events} <= {Event.HELD, Event.RELEASED}
    held = spans(events, Event.HELD, {Event.RELEASED})
    times_ns = [time_ns + delay_ns for time_ns, _ in crossings]
    assert held == list(zip(times_ns[::2], times_ns[1::2]))


@given(RATES_BPS, st.integers(576, 9014), st.integers(0, 100_000))
def test_the_fewest_quanta_outlast_a_refresh_that_has_to_wait_for_a_frame(
    rate_bps: int, frame_bytes: int, begin_ns: int
) -> None:
    quanta = least_quanta(frame_bytes, rate_bps)
    pauser = Pauser(quanta, rate_bps)
    pauser.crossing(begin_ns, xoff=True)
    assert pauser.due_ns is not None
    late_ns = Fraction((frame_bytes + FRAME_BYTES) * 8 * GBPS, rate_bps)
    assert pauser.due_ns + late_ns <= begin_ns + Fraction(quanta * 512 * GBPS, rate_bps)
