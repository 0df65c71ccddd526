"""Summary, figures and report of small runs: the keys, the numbers, nothing that changes from call to call,
nothing unescaped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from analysis import summarize, text
from analysis.figures.style import look
from analysis.kinds import kind_of
from analysis.kinds.incast import beside, faster
from analysis.measures import peers
from analysis.pages.cases import columns
from analysis.pages.run_page import draw_all, page, write_report
from analysis.run import Run
from analysis.summary import write_summary
from experiments import screen
from tests.unit.frames import T0_NS, Capture
from tests.unit.test_analysis_run import ROUND_US, make_run, measured

DESIGN_KEYS = {
    "experiment", "spec", "seed", "clock", "goodput_bps", "rounds", "ideal_seconds", "packets", "drops",
    "retransmits", "timeouts", "stalls", "ecn_marks", "cnps", "pfc_pauses", "pfc_paused_s", "queue_bytes",
    "verdict", "virtual_s", "wall_s", "packets_per_wall_s", "kernel",
}  # fmt: skip
FIGURES = ["queue", "goodput_rounds", "sequence", "goodput_senders", "timeline"]
NO_COMPLETION = "nothing was completed, or measured.json does not tell when"


def sweep(path: Path) -> Run:
    """A run with a case of another scheme and one with more senders."""
    make_run(path / "cases" / "rto_1ms", {"label": "rto_1ms", "rto_min": "1ms"})
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + 2 * ROUND_US * 1000, "bytes": 24_000}]
    make_run(path / "cases" / "droptail-n4", {"label": "droptail-n4", "senders": 4}, {"rounds": rounds})
    return make_run(path)


def test_the_summary_holds_the_keys_of_the_design(tmp_path: Path) -> None:
    summary = summarize(make_run(tmp_path / "run"))
    assert set(summary) >= DESIGN_KEYS | {
        "comparison",
        "buffer_fill_s",
        "slowdown",
        "drops_by_port",
        "evidence",
        "missing",
    }


def test_the_figures_of_a_run_worked_by_hand(tmp_path: Path) -> None:
    summary = summarize(make_run(tmp_path / "run"))
    seconds = ROUND_US / 1e6
    ideal = 8 * (2 * (6000 + 5 * 66) + 1514) / 400e9 + 2.5e-6
    assert summary["goodput_bps"] == pytest.approx(96_000 / seconds)
    assert summary["rounds"] == [{"seconds": pytest.approx(seconds), "goodput_bps": pytest.approx(96_000 / seconds)}]
    assert summary["ideal_seconds"] == pytest.approx(ideal)
    assert summary["slowdown"] == pytest.approx(seconds / ideal)
    assert (summary["packets"], summary["retransmits"], summary["timeouts"]) == (14, 1, 1)
    assert (summary["drops"], summary["drops_by_port"], summary["ecn_marks"]) == (2, {"leaf1-eth1": 2}, 3)
    assert summary["queue_bytes"] == {"max": 3000, "p50": 1500, "p99": 3000}
    assert summary["buffer_fill_s"] == pytest.approx(0.1e-6)
    assert (summary["wall_s"], summary["packets_per_wall_s"]) == (0.5, 28.0)
    assert [match["agrees"] for match in summary["kernel_counters"]] == [True, True, True, True]
    assert (summary["verdict"], summary["kernel"], summary["seed"]) == ("incast collapse", "7.3.4", 1)


def test_the_buffer_is_timed_at_the_port_not_at_the_senders(tmp_path: Path) -> None:
    """Frames of 1066 B reach the port in pairs 1.5 us after they are sent, 0.1 us apart; one leaves after
    each of the first two pairs."""
    run = make_run(tmp_path / "run", {"buffer": "4KB"})
    Capture().send(1.51, 0).send(1.61, 1000).write(run.path / "pcap" / "leaf1-eth1.pcap")
    assert summarize(run)["buffer_fill_s"] == pytest.approx(0.2e-6)


def test_what_no_file_tells_is_none(tmp_path: Path) -> None:
    facts = {**measured(), "flows": [], "rounds": []}
    del facts["tcp"]
    run = make_run(tmp_path / "run")
    (run.path / "measured.json").write_text(json.dumps(facts))
    summary = summarize(Run(run.path))
    for key in (
        "goodput_bps",
        "slowdown",
        "packets",
        "retransmits",
        "timeouts",
        "packets_per_wall_s",
        "cnps",
    ):
        assert summary[key] is None, key
    assert summary["verdict"] == "not proven"


def test_equal_files_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (sweep(tmp_path / name / "run") for name in ("a", "b"))
    assert write_summary(first).read_bytes() == write_summary(second).read_bytes()
    pages = []
    for run in (first, second):
        monkeypatch.chdir(run.path.parent)  # the page names its folder as seen from here
        pages.append(write_report(run).read_bytes())
    assert pages[0] == pages[1]
    for name in FIGURES:
        figure = Path("figures") / f"{name}.png"
        assert (first.path / figure).read_bytes() == (second.path / figure).read_bytes()


def test_one_row_per_case_and_the_run_itself_first(tmp_path: Path) -> None:
    rows = summarize(sweep(tmp_path / "run"))["comparison"]
    assert [(row["label"], row["scheme"], row["senders"]) for row in rows] == [
        ("main", "droptail", 2),
        ("rto_1ms", "droptail, RTOmin 1ms", 2),
        ("droptail-n4", "droptail", 4),
    ]
    assert rows[2]["median_round_seconds"] == pytest.approx(2 * ROUND_US / 1e6)


def test_every_figure_is_drawn_and_captioned(tmp_path: Path) -> None:
    figures = draw_all(sweep(tmp_path / "run"))
    assert [figure.name for figure in figures] == [*FIGURES, "tail"]
    assert figures[-1].reason == NO_COMPLETION
    for figure in figures[:-1]:
        assert figure.path is not None
        assert figure.path.read_bytes()[:4] == b"\x89PNG"
        assert figure.title
        assert figure.caption


def test_the_sweep_tells_how_far_goodput_falls(tmp_path: Path) -> None:
    titles = {figure.name: figure.title for figure in draw_all(sweep(tmp_path / "run"))}
    assert titles["goodput_senders"].startswith("Goodput grows with the senders")

    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + 10 * ROUND_US * 1000, "bytes": 24_000}]
    make_run(tmp_path / "run" / "cases" / "droptail-n4", {"label": "droptail-n4", "senders": 4}, {"rounds": rounds})
    titles = {figure.name: figure.title for figure in draw_all(Run(tmp_path / "run"))}
    assert titles["goodput_senders"] == "droptail falls from 477 kb/s with 2 senders to 95.5 kb/s with 4"


def test_a_figure_without_its_inputs_says_which(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for file in [*(run.path / "pcap").iterdir(), run.path / "telemetry" / "queue.parquet"]:
        file.unlink()
    skipped = {figure.name: figure.reason for figure in draw_all(run) if figure.path is None}
    assert skipped == {
        "queue": "no queue samples of the hot port in the first round",
        "sequence": "no flow stalled, or its sender's capture is missing",
        "goodput_senders": "no sweep over senders in cases/",
        "timeline": NO_COMPLETION,
        "tail": NO_COMPLETION,
    }
    html = page(run, draw_all(run))
    assert "Not drawn: queue (no queue samples" in html
    assert html.count("<img") == 1


def test_the_report_tells_the_finding_and_is_one_file(tmp_path: Path) -> None:
    html = write_report(sweep(tmp_path / "run")).read_text()
    assert "rounds take 201 ms where" in html
    assert "incast collapse" in html
    assert html.count('src="data:image/png;base64,') == 5
    assert not re.search(r"<script[^>]+src|<link|@import|url\(|https?://", html)
    assert not re.search(r"\$[a-z]", html)


def test_a_run_alone_is_not_compared(tmp_path: Path) -> None:
    html = write_report(make_run(tmp_path / "run")).read_text()
    assert "<h2>Comparison</h2>" not in html
    assert "The same rounds with" not in html


def test_a_cure_is_told_for_as_many_senders_only(tmp_path: Path) -> None:
    rounds = [{"start_ns": T0_NS, "end_ns": T0_NS + ROUND_US * 100, "bytes": 12_000}]
    make_run(tmp_path / "run" / "cases" / "other", {"label": "other", "cc": "dctcp"}, {"rounds": rounds})
    make_run(tmp_path / "run" / "cases" / "more", {"label": "more", "senders": 4}, {"rounds": rounds})
    html = write_report(make_run(tmp_path / "run")).read_text()
    assert "The same rounds with other: 20.1 ms, collapse not proven (10x faster)." in html
    assert html.count("10x faster") == 2


def test_only_a_case_without_collapse_is_called_cured(tmp_path: Path) -> None:
    longer = [{"start_ns": T0_NS, "end_ns": T0_NS + ROUND_US * 1500, "bytes": 12_000}]
    ideal = [{"start_ns": T0_NS, "end_ns": T0_NS + 2011, "bytes": 12_000}]
    make_run(tmp_path / "run" / "cases" / "a", {"label": "a", "cc": "bbr"})
    make_run(tmp_path / "run" / "cases" / "b", {"label": "b", "cc": "dctcp"}, {"rounds": ideal})
    make_run(tmp_path / "run" / "cases" / "c", {"label": "c", "cc": "reno"}, {"rounds": longer})
    assert beside(make_run(tmp_path / "run", facts={"rounds": longer})) == (
        "The same rounds with a: 201 ms, still a collapse (1.5x faster); b: 2.01 µs, cured (150,000x faster); "
        "c: 302 ms, still a collapse (as long)."
    )


def test_without_a_collapse_nothing_is_cured(tmp_path: Path) -> None:
    ideal = [{"start_ns": T0_NS, "end_ns": T0_NS + 2011, "bytes": 12_000}]
    make_run(tmp_path / "run" / "cases" / "b", {"label": "b", "cc": "dctcp"}, {"rounds": ideal})
    run = make_run(tmp_path / "run", facts={"rounds": ideal})
    assert beside(run) == "The same rounds with b: 2.01 µs, no collapse (as long)."


@pytest.mark.parametrize(
    ("seconds", "words"), [(1.0, "as long"), (0.0188, "53x faster"), (1.9, "1.9x slower"), (None, "")]
)
def test_rounds_against_those_of_the_main_run(seconds: float | None, words: str) -> None:
    assert faster(1.0, seconds) == words


def test_the_points_of_a_sweep_are_folded_away(tmp_path: Path) -> None:
    html = write_report(sweep(tmp_path / "run")).read_text()
    beside, folded = html.split("<details>")[0], html.split("<details>")[1].split("</details>")[0]
    assert ">rto_1ms</td>" in beside
    assert ">droptail-n4</td>" in folded
    assert ">droptail-n4</td>" not in beside
    assert "<summary>Sweep over senders: 1 run</summary>" in folded


def test_the_comparison_has_the_terminals_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    run = sweep(tmp_path / "run")
    html = write_report(run).read_text()
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", html.split("<h2>Comparison</h2>")[1].split("</thead>")[0])
    heads.remove("against main")
    screen.comparison(columns(kind_of(run)), summarize(run)["comparison"], "")
    shown = [cell.strip() for cell in capsys.readouterr().out.splitlines()[1].strip("┃| ").split("┃")]
    assert heads[:2] == [shown[0], shown[-1]] == ["run", "verdict"]
    told = [column.name for column in kind_of(run).COLUMNS if column.essential]
    assert heads[2 : 2 + len(told)] == told
    assert set(heads[2:]) <= set(shown[1:-1])


def test_cells_carry_their_columns_name_for_narrow_screens(tmp_path: Path) -> None:
    html = write_report(sweep(tmp_path / "run")).read_text()
    assert html.count('<table class="stacked') == 6
    assert '<td data-head="against main">' in html


def test_the_page_tells_how_to_repeat_the_run_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "results" / "run", {"clock": "real"})
    monkeypatch.chdir(tmp_path)
    html = page(run, [])
    assert "<code>./run_experiment run results/run/spec.yaml --clock real</code>" in html
    assert "<code>./run_experiment report results/run</code>" in html
    monkeypatch.chdir(tmp_path / "results" / "run" / "pcap")
    assert f"<code>./run_experiment report {tmp_path}/results/run</code>" in page(Run(Path("..")), [])
    assert f"<code>./run_experiment run {tmp_path}/results/run/spec.yaml --clock real</code>" in page(run, [])


def test_the_model_of_the_buffer_says_what_it_leaves_out(tmp_path: Path) -> None:
    html = page(make_run(tmp_path / "run", {"buffer": "600KB", "jitter": "100us"}), [])
    assert "buffer / C (the lecture's 12 µs: 600 KB at 400 Gb/s)" in html.replace("&#x27;", "'")
    assert "Starts spread over the jitter of 100 µs and slow start make it longer" in html
    alone = page(make_run(tmp_path / "one", {"senders": 1}), [])
    assert ">never</td>" in alone
    assert "inf s" not in alone


def test_the_round_without_loss_includes_the_jitter(tmp_path: Path) -> None:
    summary = summarize(make_run(tmp_path / "run", {"jitter": "90us"}))
    block = 8 * (6000 + 5 * 66)
    assert summary["ideal_seconds"] == pytest.approx(60e-6 + (block + 8 * 1514) / 400e9 + 2.5e-6)
    assert summary["evidence"][0]["modelled"] == pytest.approx(96_000 / summary["ideal_seconds"])
    captions = {figure.name: figure.caption for figure in draw_all(sweep(tmp_path / "sweep"))}
    assert "start jitter included" in captions["goodput_rounds"]
    assert "start jitter included" in captions["goodput_senders"]


def test_on_the_real_clock_a_run_is_repeated_in_its_place(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"clock": "real"})
    (run.path / "provenance.json").write_text(json.dumps({**run.provenance, "place": "lab"}))
    html = page(Run(run.path), [])
    assert "spec.yaml --clock real --on lab</code>" in html
    assert "equal in kind" in html
    assert "equal in kind" not in page(make_run(tmp_path / "virtual", {"clock": "virtual"}), [])


def test_cases_that_only_repeat_the_run_are_not_drawn_beside_it(tmp_path: Path) -> None:
    make_run(tmp_path / "run" / "cases" / "again", {"label": "again", "seed": 2})
    make_run(tmp_path / "run" / "cases" / "other", {"label": "other", "cc": "dctcp"})
    run = make_run(tmp_path / "run")
    assert [name for name, _ in peers(run)] == ["droptail (main)", "droptail (other)"]


def test_nothing_from_a_run_directory_reaches_the_page_as_markup(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    flows = [{**flow, "flow": evil + flow["flow"]} for flow in measured()["flows"]]
    run = make_run(tmp_path / "run", {"label": evil, "experiment": evil, "pmax": evil}, {"flows": flows})
    make_run(tmp_path / "run" / "cases" / "case", {"label": evil})
    (run.path / "provenance.json").write_text(json.dumps({"command": [evil], evil: {evil: [evil]}, "kernel": {}}))
    html = write_report(run).read_text()
    assert "<img src=x" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 8


def test_a_label_is_never_a_formula(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"label": r"$\frac{", "queue": r"$\sqrt{x$"})
    assert {figure.name for figure in draw_all(run) if not figure.path} == {"goodput_senders", "tail"}


def test_a_run_without_rounds_still_makes_a_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run.path / "measured.json").write_text('{"format": 1, "complete": false, "rounds": []}')
    html = write_report(Run(run.path)).read_text()
    assert "no round was finished" in html
    assert "The run was not completed" in html
    assert "Missing: measured.json: " not in html


def test_schemes_keep_their_looks() -> None:
    known = [look(scheme) for scheme in ("droptail", "droptail, RTOmin 1ms", "dctcp", "red")]
    assert len(set(known)) == 4
    assert look("something else") == look("something else")
    assert look("something else") not in known


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.2079, "208 ms"),
        (0.0003534, "353 µs"),
        (1.9e-7, "190 ns"),
        (1.5, "1.5 s"),
        (0.0009999, "1 ms"),
        (0.0, "0 ns"),
        (None, "—"),
        (1234.5, "1,234 s"),
    ],
)
def test_seconds_as_people_read_them(value: float | None, expected: str) -> None:
    assert text.seconds(value) == expected


def test_other_quantities_as_people_read_them() -> None:
    assert text.rate(646_037_477.3) == "646 Mb/s"
    assert text.rate(400_000_000_000) == "400 Gb/s"
    assert text.size(600_000) == "600 KB"
    assert text.times(588.4) == "588x"
    assert text.counted(1, "stall") == "1 stall"
    assert text.counted(1200, "stall") == "1,200 stalls"
    assert sorted(["h10", "h2", "n4-x", "n16-x"], key=text.natural) == ["h2", "h10", "n4-x", "n16-x"]
