"""Tables as files: both forms hold what the tables hold, to the last digit; cells with several values; formulas; what
cannot be written; the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas
import pytest
from pandas import DataFrame

from analysis import Run
from analysis.tables.export import FORMS, export, flattened
from experiments import analyze
from topologies.units import BadRequest

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT / "analysis" / "notebooks" / "runs"
RUNS = [*sorted(STORED.iterdir())[:4], *sorted((ROOT / "tests" / "golden" / "runs").iterdir())]


def read_back(folder: Path, name: str, form: str) -> DataFrame:
    """As a reader would: by the types of columns.csv."""
    if form == "parquet":
        return pandas.read_parquet(folder / f"{name}.parquet")
    kinds = pandas.read_csv(folder / "columns.csv")
    kinds = kinds[kinds["table"] == name].set_index("column")["type"]
    return pandas.read_csv(
        folder / f"{name}.csv",
        dtype=kinds.to_dict(),
        keep_default_na=False,
        na_values={column: [""] for column in kinds.index},
    )


def test_the_command_line_offers_every_form() -> None:
    assert analyze.FORMS == FORMS


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_files_hold_what_the_tables_hold(tmp_path: Path, path: Path, form: str) -> None:
    tables = dict(Run(path).tables)
    paths = export(tables, tmp_path, form)
    assert {each.name for each in paths} == {f"{name}.{form}" for name in tables} | {"columns.csv"}
    assert {each.name for each in tmp_path.iterdir()} == {each.name for each in paths}
    for name, table in tables.items():
        back = read_back(tmp_path, name, form)
        assert list(back.columns) == list(table.columns), name
        blank = {column: "" for column in table.columns if str(table[column].dtype) == "string"}
        pandas.testing.assert_frame_equal(
            back.fillna(blank), table.fillna(blank), check_dtype=form == "parquet", obj=name
        )


@pytest.mark.parametrize("form", FORMS)
def test_wide_numbers_and_missing_ones_stay_exact(tmp_path: Path, form: str) -> None:
    numbers = pandas.array([2**63 - 1, None, 1_700_000_000_000_000_001], dtype="Int64")
    export({"times": DataFrame({"time_ns": numbers})}, tmp_path, form)
    assert read_back(tmp_path, "times", form)["time_ns"].tolist() == numbers.tolist()


def test_cells_with_several_values_become_a_table_of_their_own(tmp_path: Path) -> None:
    table = DataFrame({"flow": ["a", "b", "c"], "times": [[1, 2**62 + 1], [], [3]], "note": ["x", None, "y"]})
    assert list(flattened({"flows": table})) == ["flows", "flows_times"]
    export({"flows": table}, tmp_path, "csv")
    assert (tmp_path / "flows.csv").read_text() == "flow,note\na,x\nb,\nc,y\n"
    assert (tmp_path / "flows_times.csv").read_text() == f"row,place,times\n0,0,1\n0,1,{2**62 + 1}\n2,0,3\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('=HYPERLINK("http://evil")', "'=HYPERLINK(\"http://evil\")"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-1+1", "'-1+1"),
        ("-1.5", "-1.5"),
        ("h1>h2", "h1>h2"),
        ("a,b\n\"c\"", 'a,b\n"c"'),
    ],
)  # fmt: skip
def test_no_spreadsheet_takes_text_for_a_formula(tmp_path: Path, text: str, told: str) -> None:
    export({"flows": DataFrame({"flow": pandas.array([text], dtype="string")})}, tmp_path / "csv", "csv")
    assert pandas.read_csv(tmp_path / "csv" / "flows.csv", dtype=str)["flow"].tolist() == [told]
    export({"flows": DataFrame({"flow": [text]})}, tmp_path, "parquet")
    assert pandas.read_parquet(tmp_path / "flows.parquet")["flow"].tolist() == [text]


def test_another_form_is_a_bad_request(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="--format: 'xlsx' is given; allowed: parquet, csv"):
        export({}, tmp_path, "xlsx")


def test_a_folder_that_is_a_file_is_a_bad_request(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match=r"--out: .*file cannot be written"):
        export({"a": DataFrame({"b": [1]})}, tmp_path / "file", "csv")


def test_a_table_that_fails_leaves_no_half_file(tmp_path: Path) -> None:
    mixed = DataFrame({"value": [1, "a"]})  # which Parquet cannot hold
    with pytest.raises(Exception, match="value"):
        export({"mixed": mixed}, tmp_path, "parquet")
    assert list(tmp_path.iterdir()) == []


# --- the command line


def run_experiment(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "run_experiment"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


def test_the_command_writes_the_tables_of_the_run_and_of_its_cases(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(STORED / "senders-1", tmp_path / "run")
    shutil.copytree(STORED / "senders-2", tmp_path / "run" / "cases" / "two")
    done = run_experiment("export", tmp_path / "run", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    out = tmp_path / "run" / "tables"
    assert done.stdout == f"tables: {len(list(out.rglob('*.csv')))} files in {out}\n"
    assert len(pandas.read_csv(out / "cases" / "two" / "flows.csv")) == 2
    assert len(pandas.read_csv(out / "flows.csv")) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "not found; allowed: a run directory"),
        ((STORED,), "no spec.yaml in it; allowed: a run directory"),
        ((STORED / "incast", "--format", "xls"), "invalid choice: 'xls'"),
        ((STORED / "senders-1", "--out", ROOT / "README.md"), "README.md cannot be written"),
    ],
    ids=["nowhere", "no run", "form", "out"],
)
def test_bad_requests_are_one_line(words: tuple[str | Path, ...], told: str) -> None:
    done = run_experiment("export", *words)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert told in line


def test_the_command_line_starts_without_the_libraries_of_tables_and_figures() -> None:
    heavy = ("dask", "distributed", "numpy", "pandas", "plotly", "pyarrow", "matplotlib", "scapy", "analysis")
    program = (
        "import sys, experiments.cli, experiments.catalog; experiments.catalog.catalog();"
        f" print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_package_loads_no_pandas_until_a_table_is_asked_for() -> None:
    program = "import sys, analysis; print([n for n in ('pandas', 'plotly', 'pyarrow', 'scapy') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("[]\n", "")
