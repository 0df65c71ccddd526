"""What pages share: the policy, the library inside, hostile text in every place; the data of timelines; the page that
compares runs and that of captures; values by which tables sort."""

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import json
import pickle
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import text
from analysis.capture.packets import Damage
from analysis.columns import Table
from analysis.explain.damage import damage_words
from analysis.explain.explain import explain
from analysis.explain.model import UNSURE
from analysis.explain.page import tiles_of, write_page
from analysis.explain.terminal import shown
from analysis.explain.timelines import capture_charts
from analysis.pages import shell
from analysis.pages.cases import page_columns
from analysis.pages.comparison_page import comparison_page, names, write_comparison
from analysis.pages.markup import Html, table
from analysis.pages.run_page import write_report
from analysis.pages.run_timelines import overlaid_charts, run_charts
from analysis.pages.timeline_lines import goodput_chart, queue_chart
from analysis.pages.timelines import STEPS, Bars, Chart, Clock, Level, Line, View, as_json, joined_spans, thinned
from analysis.run import Run
from experiments import cli
from tests.unit.explained import explanation, flow
from tests.unit.frames import T0_NS
from tests.unit.test_analysis_long_flows import two_run
from tests.unit.test_analysis_report import sweep
from tests.unit.test_analysis_run import make_run
from topologies.units import BadRequest

BAD_REQUEST = 2
GOLDEN = Path(__file__).parents[1] / "golden"
EVIL = "</script><!--<img src=x onerror=alert(1)>\u2028\u2029\"'&"


def some_chart(name: str = "a") -> Chart:
    """A chart that has a name in every place for one."""
    line = Line(name, "#000000", np.array([0.0, 1.0]), np.array([1.0, np.nan]), notes=[name, name])
    bars = Bars(name, "#000000", [0], np.array([0.0]), np.array([1.5]), notes=[name])
    told = {"lines": (line,), "bars": (bars,), "levels": (Level(name, 2.0),), "views": (View(name, 0.0, 1.0),)}
    return Chart("x", name, name, name, "ms", (name,), rows=(name,), **told)  # type: ignore[arg-type]


def page_of(*charts: Chart) -> str:
    return shell.render(shell.Page("t", "k", "h", [shell.timelines(charts)], charts))


# --- the shell


def test_the_policy_names_the_scripts_and_nothing_else() -> None:
    html = page_of(some_chart())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].replace("&#x27;", "'").split(";"))
    assert {name: rules[name] for name in ("default-src", "img-src", "base-uri", "form-action")} == {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    own = re.findall(r"<script>(.*?)</script>", html, re.S)
    packed = re.search(r'id="plotly">([^<]*)<', html)
    assert packed is not None
    library = gzip.decompress(base64.b64decode(packed[1]))
    allowed = [base64.b64encode(hashlib.sha256(code).digest()).decode() for code in (own[0].encode(), library)]
    assert rules["script-src"] == " ".join(f"'sha256-{each}'" for each in allowed)
    assert library.startswith(b"/**\n* plotly.js")


def test_the_library_is_stored_once_and_only_for_timelines() -> None:
    assert page_of(some_chart(), some_chart()).count('id="plotly"') == 1
    without = page_of()
    assert 'id="plotly"' not in without
    assert len(without) < 50_000
    assert "timelines" not in without.split("<script>")[0]


def test_nothing_in_the_data_of_timelines_ends_their_script() -> None:
    html = page_of(some_chart(EVIL))
    data = html.split('id="charts">')[1].split("</script>")[0]
    assert not re.search(r"[<>&\u2028\u2029]", data)
    (told,) = json.loads(data)
    assert (told["rows"], told["lines"][0]["name"], told["bars"][0]["notes"]) == ([EVIL], EVIL, [EVIL])
    assert html.count("<script") == html.count("</script>") == 3
    assert "<img src=x" not in html


@pytest.mark.parametrize("is_capture", [False, True])
def test_hostile_names_are_text_in_every_page(tmp_path: Path, is_capture: bool) -> None:
    if is_capture:
        html = write_page(explanation(EVIL, EVIL), tmp_path / "out").read_text()
    else:
        runs = [make_run(tmp_path / f"{EVIL.replace('/', '')}{number}", {"label": EVIL}) for number in range(2)]
        html = comparison_page(runs, tmp_path / EVIL)
    assert "<img src=x" not in html
    assert html.count("<script") == html.count("</script>") == 3
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 4


# --- the data of timelines


def test_what_is_thinned_keeps_its_extremes_its_ends_and_what_must_stay() -> None:
    values = np.sin(np.arange(100_000) / 300.0)
    values[54_321] = 9.0
    keep = np.zeros(len(values), bool)
    keep[777] = True
    some = thinned(values, 1000, keep)
    assert {0, 54_321, 777, 99_999} <= set(some.tolist())
    assert len(some) <= 1003
    assert np.all(np.diff(some) > 0)
    assert thinned(values[:10], 10).tolist() == list(range(10))


def test_spans_are_joined_across_the_shortest_gaps() -> None:
    spans = [(0, 10), (11, 20), (100, 110), (113, 120)]
    assert joined_spans(spans, 4) == [(0, 10, 1, 10), (11, 20, 1, 9), (100, 110, 1, 10), (113, 120, 1, 7)]
    assert joined_spans(spans, 2) == [(0, 20, 2, 19), (100, 120, 2, 17)]
    assert joined_spans(spans, 1) == [(0, 120, 4, 36)]
    assert joined_spans([], 3) == []


def test_times_keep_their_nanoseconds() -> None:
    clock = Clock.over(T0_NS, 800_000_000)
    assert (clock.unit, clock.at([T0_NS + 123_456_789]).tolist()) == ("ms", [123.456789])
    assert [Clock.over(0, span).unit for span in (1, 2_000_000, 2_000_001, 20_000_000_000, 20_000_000_001)] == [
        *("µs", "µs", "ms", "ms"),
        "s",
    ]


def test_numbers_that_json_lacks_become_null() -> None:
    (told,) = json.loads(as_json([some_chart()]))
    assert told["lines"][0]["y"] == [1, None]


def test_a_collapse_has_its_queue_its_flows_and_its_goodput(tmp_path: Path) -> None:
    run = sweep(tmp_path / "run")
    charts = {chart.name: chart for chart in run_charts(run)}
    assert list(charts) == ["queue", "flows", "goodput"]
    main, *behind = [line for line in charts["queue"].lines if line.form == STEPS]
    assert (main.name, main.is_hidden) == ("droptail", False)
    assert [(line.name, line.is_hidden) for line in behind] == [("droptail, RTOmin 1ms", True)]
    assert charts["queue"].still == "queue"
    (stall,) = [bars for bars in charts["flows"].bars if bars.name == "rto_tail_loss"]
    assert (charts["flows"].rows[stall.rows[0]], stall.lengths.tolist()) == ("h3", [pytest.approx(201)])
    assert charts["goodput"].lines[0].y.max() == pytest.approx(1000 * 8 / 100, rel=0.5)  # a packet each 100 ns


def test_a_queue_holds_no_longer_than_it_was_sampled(tmp_path: Path) -> None:
    """The last sample of a burst is empty; what is drawn falls to zero at the latest 20 us after a sample."""
    run = make_run(tmp_path / "run")
    (chart,) = [each for each in run_charts(run) if each.name == "queue"]
    line = chart.lines[0]
    assert line.y.tolist() == [0, 1.5, 3, 1.5, 0]
    assert line.x.tolist() == pytest.approx([0, 0.001, 0.002, 0.003, 0.004])


def test_a_run_without_traffic_or_files_has_no_timelines(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for file in [*(run.path / "pcap").iterdir(), run.path / "telemetry" / "queue.parquet"]:
        file.unlink()
    assert [chart.name for chart in run_charts(Run(run.path))] == ["goodput"]  # of the rounds alone
    (run.path / "measured.json").write_text('{"format": 1, "complete": false, "rounds": []}')
    assert run_charts(Run(run.path)) == []


def test_runs_of_one_scheme_are_laid_over_each_other_in_colours_of_their_own(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two", {"seed": 2})
    goodput, queue = overlaid_charts([("one", one), ("two", two)])
    assert [line.name for line in goodput.lines] == ["one", "two"]
    assert len({line.colour for line in queue.lines}) == 2
    other = make_run(tmp_path / "three", {"queue": "dctcp"})
    goodput, _ = overlaid_charts([("one", one), ("three", other)])
    assert [line.colour for line in goodput.lines] == ["#D55E00", "#009E73"]


def test_charts_of_nothing_are_none() -> None:
    assert queue_chart([]) is None
    assert goodput_chart([]) is None


def test_captures_have_flows_goodput_delays_and_pauses() -> None:
    charts = {chart.name: chart for chart in capture_charts(explanation())}
    assert list(charts) == ["flows", "goodput", "delay", "pauses"]
    stall = next(bars for bars in charts["flows"].bars if bars.name == "rto_tail_loss")
    assert (stall.begins.tolist(), stall.lengths.tolist(), list(stall.notes)) == (
        [100.0],
        [200.0],
        ["likely: 10.0.0.2:5000 > 10.0.0.1:4000"],
    )
    assert charts["pauses"].bars[0].lengths.tolist() == [10.0, 5.0]
    together = charts["goodput"].lines[0]
    assert together.y.mean() == pytest.approx(2 * 3620 * 8 / 0.01 / 1e9, rel=0.01)


def test_the_page_counts_each_flow_once_as_the_terminal_does() -> None:
    """Golden captures of one incast, at its eight hosts and at the hot port: most packets are seen twice."""
    found = explain([GOLDEN / "incast" / "pcap"])
    tiles = dict(tiles_of(found))
    (again,) = [part for part in shown(found) if isinstance(part, Table) and part.title == "sent again, by kind"]
    told = sum(row["packets"].value for row in again.rows if not row["kind"].startswith("needless"))
    assert int(tiles["sent again"].replace(",", "")) == told < sum(flow.resent for flow in found.flows)
    assert int(tiles["flows"]) == len(found.once) < len(found.flows)


@pytest.mark.parametrize("kind", [each.name for each in fields(Damage)])
def test_every_kind_of_damage_has_words(kind: str) -> None:
    one: dict[str, Any] = {kind: 1}
    assert len(damage_words(Damage(**one))) == 1
    assert damage_words(Damage()) == []


def test_only_lost_time_is_told_as_standing_still(tmp_path: Path) -> None:
    """An idle application, the wait for a straggler, and what is unsure are no stall of the network's."""
    causes = ("application_idle", "waited_for_straggler", "rto_tail_loss")
    flows = [flow(f"h{place}", "p", cause=cause) for place, cause in enumerate(causes)]
    unsure = replace(flows[-1], stalls=tuple(replace(stall, confidence=UNSURE) for stall in flows[-1].stalls))
    found = replace(explanation(), flows=(*flows[:-1], unsure))
    assert dict(tiles_of(found))["stalls"] == "0"
    chart = next(chart for chart in capture_charts(found) if chart.name == "flows")
    assert (chart.title, chart.views) == ("Flows over time: none stalls", ())
    html = write_page(found, tmp_path).read_text()
    assert set(re.findall(r'data-head="stood still"[^>]*>([^<]*)<', html)) == {"0 ns"}


# --- pages


def test_several_runs_on_one_page(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two", {"cc": "dctcp", "queue": "dctcp"})
    page = write_comparison([one, two], tmp_path / "comparison.html")
    html = page.read_text()
    differing = html.split("<h2>What differs in the specifications and places</h2>")[1].split("</table>")[0]
    assert re.findall(r'<td data-head="key"[^>]*>(\w+)<', differing) == ["queue", "cc"]
    assert "<h2>Side by side</h2>" in html
    assert html.count('src="data:image/png;base64,') >= 6
    assert "Against one: two: as long." in html
    assert "kinds" not in html.split("<script")[0]


def test_places_are_among_what_differs(tmp_path: Path) -> None:
    runs = []
    for name, place in (("one", "lab"), ("two", "machine")):
        run = make_run(tmp_path / name, {"clock": "real"})
        (run.path / "provenance.json").write_text(json.dumps({**run.provenance, "place": place}))
        runs.append(Run(run.path))
    html = comparison_page(runs, tmp_path / "c.html")
    differing = html.split("<h2>What differs in the specifications and places</h2>")[1].split("</table>")[0]
    assert re.findall(r"<td data-head=[^>]*>(\w+)<", differing) == ["place", "lab", "machine"]


def test_runs_of_several_kinds_are_told_apart(tmp_path: Path) -> None:
    html = comparison_page([make_run(tmp_path / "one"), two_run(tmp_path / "long", 20e9, 15e9)], tmp_path / "c.html")
    assert "These runs are of 2 kinds" in html
    assert len(re.findall("<h2>Side by side: [^<]*</h2>", html)) == 2


def test_runs_that_differ_in_nothing_are_said_to(tmp_path: Path) -> None:
    html = comparison_page([make_run(tmp_path / "a"), make_run(tmp_path / "b", {"seed": 2})], tmp_path / "c.html")
    assert "The specifications are equal in every key but seed." in html


def test_runs_are_named_by_as_little_of_their_paths_as_tells_them_apart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / each) for each in ("a/run", "b/run")]
    assert names(runs) == ["a/run", "b/run"]
    with pytest.raises(BadRequest, match="given twice"):
        names([runs[0], Run(runs[0].path)])


def test_the_page_of_captures_tells_all_parts(tmp_path: Path) -> None:
    html = write_page(explanation(), tmp_path / "out").read_text()
    body = html.split("<script")[0]
    for words in ("stood still", "likely", "rto_tail_loss", "the file ends inside a packet", "incast collapse"):
        assert words in body
    heads = re.findall("<h2>([^<]*)</h2>", body)
    assert heads[:2] == ["Findings", "Evidence: incast"]
    assert heads[2:] == [
        *("What happened", "Flows", "Stalls", "Sent again", "Between capture points", "Pauses", "Captures"),
        *("Further facts", "How to reproduce"),
    ]
    assert "2 packets earlier than the one before" in body


def test_pages_without_findings_or_flows_say_so(tmp_path: Path) -> None:
    nothing = replace(explanation(), flows=(), hops=(), pauses=(), verdicts=(), findings=(), facts={}, lost_share=None)
    body = write_page(nothing, tmp_path / "out").read_text().split("<script")[0]
    assert "<h1>The captures hold no flow with data.</h1>" in body
    assert "No packet was sent again" in body


def test_the_size_of_a_page_stays_bounded(tmp_path: Path) -> None:
    """The library is 2 MB; a long queue adds a few hundred KB at the most."""
    import pyarrow
    import pyarrow.parquet

    run = make_run(tmp_path / "run")
    count = 300_000
    times = T0_NS + np.arange(count) * 600
    depth = np.random.default_rng(1).integers(0, 3000, count)
    flat = {"queue_packets": depth // 1500, "drops": np.arange(count) // 10, "marks": np.zeros(count, int)}
    told = {"time_ns": times, "queue_bytes": depth, **flat, "port": ["leaf1-eth1"] * count}
    pyarrow.parquet.write_table(pyarrow.table(told), run.path / "telemetry" / "queue.parquet")
    assert len(as_json(run_charts(Run(run.path)))) < 400_000


# --- tables


def test_quantities_keep_their_value_in_tables() -> None:
    html = table(("a", "b"), [[text.seconds(2e-6), text.count(None)], [Html("<b>x</b>"), "3"]])
    assert 'data-sort="2e-06">2 µs<' in html
    assert 'data-sort="">—<' in html
    assert '<td data-head="a" class="whole"><b>x</b></td>' in html


def test_quantities_are_texts_that_can_be_copied() -> None:
    told = text.rate(1.5e9)
    for again in (copy.deepcopy(told), pickle.loads(pickle.dumps(told))):
        assert (again, again.value) == ("1.5 Gb/s", 1.5e9)
    assert json.dumps(told) == '"1.5 Gb/s"'


def test_what_matters_comes_first_and_empty_columns_are_left_out(tmp_path: Path) -> None:
    from analysis.kinds import incast

    rows: list[dict[str, Any]] = [{**incast.row(make_run(tmp_path / "run")), "label": "x", "verdict": "y"}]
    shown = [column.name for column in page_columns(incast, rows)]
    assert shown[:6] == ["run", "verdict", "goodput", "median round", "x ideal", "timeouts"]
    assert not {"CNPs", "pauses", "paused", "senders"} & set(shown)


# --- the command


def test_several_folders_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(make_run(tmp_path / name, {"cc": cc}).path) for name, cc in (("a", "reno"), ("b", "cubic"))]
    assert cli.main(["report", *folders]) == 0
    assert capsys.readouterr().out == f"report: {tmp_path / 'comparison.html'}\n"
    assert cli.main(["report", *folders, "--out", str(tmp_path / "own.html"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["spec"]["cc"] for each in told] == ["reno", "cubic"]
    assert (tmp_path / "own.html").is_file()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["a", "--out", "x.html"], "--out: given with one DIR; allowed: with several"),
        (["a", "a"], "DIR: the same run directory is given twice; allowed: each once"),
        (["a", "nowhere"], "DIR: nowhere is no run directory"),
        (["a", "b", "--out", "gone/x.html"], "--out: gone/x.html cannot be written (No such file or directory)"),
        (["a", "b", "--out", "a"], "--out: a cannot be written (Is a directory)"),
    ],
)
def test_a_bad_comparison_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    assert cli.main(["report", *words]) == BAD_REQUEST
    told = capsys.readouterr().err
    assert told.startswith(f"run_experiment: {line}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("complete", "x", "complete: 'x' is given; allowed: true or false"),
        ("collective", {"ranks": "x"}, "collective.ranks: 'x' is given; allowed: a list"),
        ("training", {"ranks": "x"}, "training.ranks: 'x' is given; allowed: a list"),
        ("steps", [{"loss": "x"}], "loss of an entry of 'steps': 'x' is given; allowed: a number"),
        ("steps", [{"ranks": [{"late": 1}]}], "late of an entry of ranks of an entry of 'steps': 1 is given"),
        ("federated", {"parent": "x"}, "federated.parent: 'x' is given; allowed: a mapping"),
        ("tcp", {"h1": 7}, "tcp.h1: 7 is given; allowed: a mapping"),
        ("ports", {"leaf1-eth1": {"qdiscs": [{"drops": "many"}]}}, "drops of an entry of 'ports.leaf1-eth1.qdiscs'"),
        ("virtual_s", True, "virtual_s: True is given; allowed: a number"),
        ("rounds", ["x" * 99], "an entry of 'rounds': str is given; allowed: a mapping"),
    ],
)
def test_a_value_of_another_kind_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, value: Any, line: str
) -> None:
    run = make_run(tmp_path / "run", facts={key: value})
    assert cli.main(["report", str(run.path)]) == BAD_REQUEST
    told = capsys.readouterr().err
    assert told.startswith(f"run_experiment: {run.path / 'measured.json'}: {line}")
    assert told.count("\n") == 1


def test_what_may_be_null_may(tmp_path: Path) -> None:
    facts = {"controller": None, "roce": None, "virtual_s": None}
    assert write_report(make_run(tmp_path / "run", facts=facts)).is_file()
