"""iperf3 from many hosts to one: what the tool tells of the fabric, beside what the packets tell (a kind, see
analysis/kinds)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from analysis import text
from analysis.columns import Column, Table
from analysis.figures.iperf3 import rates, silence
from analysis.figures.style import Drawn, drawn
from analysis.kinds.iperf3_told import SenderTest, sender_tests
from analysis.measures import retransmits
from analysis.pages.markup import Html, table
from analysis.run import Run
from analysis.verdicts import NOT_PROVEN, Evidence, Verdict, processor, total_drops

AGREES, DIFFERS, FAILED = "iperf3 tells what the packets tell", "iperf3 tells otherwise", "a test failed"
# A server counts what it has read when its client says that the time is over; what is on its way then is not counted.
RATE_TOLERANCE = 0.05
# It asks for the number when the time is over, and the last losses are mended after that.
RESENT_TOLERANCE = 0.05
_SHOWN_TESTS = 32

RULE = (
    f"iperf3 tells what the packets tell when every test has ended well, its receivers' rates are within "
    f"{RATE_TOLERANCE:.0%} of what was acknowledged in the same time, and the segments that it tells of as sent again "
    f"are within {RESENT_TOLERANCE:.0%} of those in the captures."
)

COLUMNS = (
    Column("senders", "senders", text.count, essential=True),
    Column("told: sent", "sent_bps", text.rate),
    Column("told: received", "received_bps", text.rate, essential=True),
    Column("packets", "delivered_bps", text.rate, essential=True),
    Column("slowest", "slowest_bps", text.rate),
    Column("fastest", "fastest_bps", text.rate),
    Column("told: resent", "told_retransmits", text.count),
    Column("resent", "retransmits", text.count),
    Column("timeouts", "timeouts", text.count, essential=True),
    Column("longest silence", "silence_s", text.seconds, essential=True),
    Column("drops", "drops", text.count, essential=True),
)
_OWN_COLUMNS = (
    Column("sender", "sender", is_number=False, essential=True),
    Column("told: sent", "sent_bps", text.rate),
    Column("told: received", "received_bps", text.rate, essential=True),
    Column("packets", "delivered_bps", text.rate, essential=True),
    Column("told: resent", "told_retransmits", text.count, essential=True),
    Column("resent", "resent", text.count),
    Column("told: round trip", "told_rtt_s", text.seconds),
    Column("round trip", "rtt_s", text.seconds),
    Column("longest silence", "silence_s", text.seconds, essential=True),
    Column("timeouts", "timeouts", text.count, essential=True),
    Column("failed", "failed", is_number=False),
)


def summarize(run: Run) -> dict[str, Any]:
    """What iperf3 and the packets tell of every test, and of all together."""
    told = row(run)
    version = run.measured.get("iperf3", {})
    return {
        "goodput_bps": told["delivered_bps"] if told["delivered_bps"] is not None else told["received_bps"],
        "iperf3": {
            "version": version.get("version"),
            "wrapper": version.get("wrapper"),
            "sent_bps": told["sent_bps"],
            "received_bps": told["received_bps"],
            "retransmits": told["told_retransmits"],
            "silence_s": told["silence_s"],
            "tests": {
                each.sender: {
                    **_line(each),
                    "intervals": [note._asdict() for note in each.told.received] if each.told else [],
                    "packets": asdict(each.seen) if each.seen else None,
                }
                for each in sender_tests(run)
            },
        },
    }


def own_table(run: Run) -> Table:
    """A line for each sender, what iperf3 tells beside what the packets tell."""
    return Table("iperf3 and the packets", _OWN_COLUMNS, [_line(each) for each in sender_tests(run)[:_SHOWN_TESTS]])


def _line(each: SenderTest) -> dict[str, Any]:
    told, seen = each.told, each.seen
    return {
        "sender": each.sender,
        "sent_bps": told.sent_bps if told else None,
        "received_bps": told.received_bps if told else None,
        "delivered_bps": seen.delivered_bps if seen else None,
        "told_retransmits": told.retransmits if told else None,
        "resent": seen.resent if seen else None,
        "told_rtt_s": told.mean_rtt_s if told else None,
        "rtt_s": seen.median_rtt_s if seen else None,
        "silence_s": seen.silence_s if seen else None,
        "timeouts": each.timeouts,
        "failed": each.failed or None,
    }


def verdict(run: Run) -> Verdict:
    """Whether iperf3 tells what the packets tell."""
    ended, rate, resent, kept_up = pieces = (_ended(run), _rate(run), _resent(run), processor(run))
    if ended.holds is False:
        return Verdict("iperf3", FAILED, pieces, good=False)
    if not kept_up.holds or None in (ended.holds, rate.holds, resent.holds):
        return Verdict("iperf3", NOT_PROVEN, pieces)
    agrees = bool(rate.holds and resent.holds)
    return Verdict("iperf3", AGREES if agrees else DIFFERS, pieces, good=agrees)


def _ended(run: Run) -> Evidence:
    found = sender_tests(run)
    well = sum(not each.failed for each in found)
    known = bool(found) and not _interrupted(run)
    return Evidence(
        name="tests that ended well",
        configured=len(found) or None,
        modelled=None,
        measured=well if found else None,
        unit="tests",
        tolerance="all, with exit status 0 at both ends",
        holds=well == len(found) if known else None,
        source="iperf3_tests of measured.json" if known else "the run ended before the tests",
    )


def _interrupted(run: Run) -> bool:
    """Whether the run was ended from outside, and its tests with it."""
    return bool(run.measured.get("iperf3", {}).get("ended") == "interrupted")


def _rate(run: Run) -> Evidence:
    """All receivers' rates together: what iperf3 tells as measured, what the packets tell as modelled."""
    told = row(run)
    measured, by_packets = told["received_bps"], told["delivered_bps"]
    known = measured is not None and by_packets is not None
    return Evidence(
        name="rate that iperf3 tells, beside the packets'",
        configured=run.parameters.path.rate_bps,
        modelled=by_packets,
        measured=measured,
        unit="b/s",
        tolerance=f"within {RATE_TOLERANCE:.0%} of the packets'",
        holds=abs(measured - by_packets) <= RATE_TOLERANCE * by_packets if known else None,
        source="iperf3/client, capture of the hot port" if known else _missing(run, "the hot port's capture"),
    )


def _resent(run: Run) -> Evidence:
    """Segments sent again, as iperf3 tells and as the senders' captures show."""
    found = sender_tests(run)
    measured = row(run)["told_retransmits"]
    seen = [each.seen.resent if each.seen else None for each in found]
    counted = sum(each for each in seen if each is not None) if found and None not in seen else None
    holds = None
    if measured is not None and counted is not None:
        holds = abs(measured - counted) <= RESENT_TOLERANCE * counted
    return Evidence(
        name="retransmits that iperf3 tells, beside the captures'",
        configured=None,
        modelled=counted,
        measured=measured,
        unit="segments",
        tolerance=f"within {RESENT_TOLERANCE:.0%} of the captures'",
        holds=holds,
        source="iperf3/client, captures of the senders"
        if holds is not None
        else _missing(run, "captures of all senders"),
    )


def _missing(run: Run, what: str) -> str:
    """Which of both is not there."""
    told = sender_tests(run)
    return f"{what} is missing" if told and all(each.told for each in told) else "iperf3 left no result of some test"


def headline(run: Run) -> str:
    """What iperf3 tells in all, what the packets tell, and what it does not tell."""
    told, found = row(run), sender_tests(run)
    failed = next((each for each in found if each.failed), None)
    if failed is not None and not _interrupted(run):
        return f"the test of {failed.sender} failed: {failed.failed}"
    if told["received_bps"] is None:
        return "the run ended before iperf3 told of all tests"
    line, senders = text.rate(run.parameters.path.rate_bps), text.counted(len(found), "sender")
    all_told, seen = text.rate(told["received_bps"]), text.rate(told["delivered_bps"])
    slowest, fastest = text.rate(told["slowest_bps"]), text.rate(told["fastest_bps"])
    untold = f"{text.count(told['timeouts'])} timeouts, {text.count(told['drops'])} drops"
    return (
        f"{senders} to one at {line}: iperf3 tells {all_told} in all (packets: {seen}), {slowest} to {fastest} each; it"
        f" does not tell of {untold} and a silence of {text.seconds(told['silence_s'])}"
    )


def beside(run: Run) -> str:
    """What iperf3 tells in each case."""
    told = [
        f"{label}: {text.rate(line['received_bps'])} told, {text.rate(line['delivered_bps'])} by the packets"
        for label, case in run.cases.items()
        for line in [row(case)]
    ]
    return text.beside(told)


def tiles(run: Run) -> list[tuple[str, str]]:
    """Told and seen."""
    told = row(run)
    return [
        ("iperf3: received", text.rate(told["received_bps"])),
        ("packets: delivered", text.rate(told["delivered_bps"])),
        ("iperf3: retransmits", text.count(told["told_retransmits"])),
        ("untold: timeouts", text.count(told["timeouts"])),
        ("untold: drops", text.count(told["drops"])),
        ("untold: longest silence", text.seconds(told["silence_s"])),
    ]


def figures(run: Run) -> list[Drawn]:
    """Each sender's rate by both, and over time the sender that was silent for longest."""
    found = sender_tests(run)
    ways = {"iperf3_rates": partial(rates, found), "iperf3_silence": partial(silence, run, found)}
    return [drawn(name, run.path / "figures", way) for name, way in ways.items()]


def sections(run: Run) -> Html:
    """Every test by both."""
    made = own_table(run)
    if not made.rows:
        return Html("")
    found = len(sender_tests(run))
    rest = f", the first {_SHOWN_TESTS} of {found}" if found > _SHOWN_TESTS else ""
    heads = [column.name for column in made.columns]
    rows = [[column.cell(line) for column in made.columns] for line in made.rows]
    numbers = [place for place, column in enumerate(made.columns) if column.is_number]
    files = '<p class="soft">What iperf3 itself wrote: iperf3/client/SENDER.json and iperf3/server/SENDER.json.</p>'
    return Html(f"<h2>Tests{rest}</h2>\n{files}\n{table(heads, rows, numbers=numbers, stacked=True)}")


def row(run: Run) -> dict[str, Any]:
    """All tests together; a sum is None where one of its parts is not known."""
    lines = [_line(each) for each in sender_tests(run)]
    received = [line["received_bps"] for line in lines]
    silences = [line["silence_s"] for line in lines if line["silence_s"] is not None]
    timeouts = [line["timeouts"] for line in lines]
    known = bool(received) and None not in received
    return {
        "senders": len(lines),
        "sent_bps": _sum(lines, "sent_bps"),
        "received_bps": _sum(lines, "received_bps"),
        "delivered_bps": _sum(lines, "delivered_bps"),
        "slowest_bps": min(received) if known else None,
        "fastest_bps": max(received) if known else None,
        "told_retransmits": _sum(lines, "told_retransmits"),
        "retransmits": retransmits(run),
        "timeouts": sum(timeouts) if timeouts and None not in timeouts else None,
        "silence_s": max(silences, default=None),
        "drops": total_drops(run),
    }


def _sum(lines: list[dict[str, Any]], key: str) -> Any:
    values = [line[key] for line in lines]
    return sum(values) if values and None not in values else None


def against(main: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """How what iperf3 tells compares."""
    if not main.get("received_bps") or row.get("received_bps") is None:
        return ""
    return f"{text.digits(row['received_bps'] / main['received_bps'])}x the rate told"
