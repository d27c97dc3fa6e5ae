"""`fairway simulate hosting`: the comparison, its picture, and bad input."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairway.cli.main import run
from fairway.cli.options.chart import NOT_INSTALLED, UNKNOWN_FORMAT
from fairway.cli.simulate.charts import draw_load
from fairway.cli.simulate.run import CONTRADICTION, UNKNOWN_POLICY

Capture = pytest.CaptureFixture[str]
SMALL = ("--hosts", "4", "--slots", "10", "--requests", "20")


def test_burst_is_compared_under_all_policies(capsys: Capture) -> None:
    assert run(["simulate", "hosting", *SMALL]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in shown] == ["POLICY", "spread", "pack", "placement"]
    assert [line[3] for line in shown[1:]] == ["0", "0", "1"]


def test_json_has_the_utilization_of_each_host(capsys: Capture) -> None:
    assert run(["simulate", "hosting", *SMALL, "--policy", "spread", "-o", "json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["utilization"] == {f"host-{number}": 0.5 for number in range(1, 5)}


def texts(file: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(file).iter() if node.tag.endswith("}text")]


def test_chart_shows_every_policy_beside_one_of_7000_percent(tmp_path: Path) -> None:
    chart = tmp_path / "load.svg"
    draw_load(chart, {"spread": {"a": 0.4, "b": 0.6}, "$herd$": {"a": 71.76, "b": 0.0}}, title="<load>")
    shown = texts(chart)
    assert "<load>" in shown
    assert "spread: 0 of 2 hosts above 100 %, the fullest b with 60 %" in shown
    assert "$herd$: 1 of 2 hosts above 100 %, the fullest a with 7,176 %" in shown
    assert {"0 %", "50 %", "100 %", "1,000 %"} <= set(shown)


@pytest.mark.parametrize(
    ("fullest", "labels"),
    [
        (0.0, ["0 %", "1 %"]),
        (0.004, ["0 %", "1 %"]),
        (0.04, ["0 %", "1 %", "2 %", "3 %", "4 %"]),
        (0.3, ["0 %", "25 %", "50 %", "75 %", "100 %"]),
        (1.5, ["0 %", "40 %", "80 %", "120 %", "160 %"]),
    ],
)
def test_chart_of_any_load_has_different_labels_up_to_the_fullest_host(
    fullest: float, labels: list[str], tmp_path: Path
) -> None:
    chart = tmp_path / "load.svg"
    draw_load(chart, {"spread": {"a": fullest}}, title="load")
    assert [text for text in texts(chart) if text.endswith("%") and ":" not in text] == labels


@pytest.mark.parametrize("command", [("hosting", *SMALL), ("machines", "--nodes", "2", "--minutes", "1")])
@pytest.mark.parametrize("suffix", [".svg", ".PNG", ".pdf"])
def test_charts_of_the_same_options_are_equal(
    tmp_path: Path, command: tuple[str, ...], suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # the time in a PDF
    charts = [tmp_path / f"{number}{suffix}" for number in range(2)]
    for chart in charts:
        assert run(["simulate", *command, "--chart", str(chart)]) == 0
    assert charts[0].read_bytes() == charts[1].read_bytes() != b""


@pytest.mark.parametrize("command", ["hosting", "machines"])
@pytest.mark.parametrize(
    ("file", "installed", "message"),
    [
        ("load.jpg", True, UNKNOWN_FORMAT.format(file="load.jpg")),
        ("load.svg", False, NOT_INSTALLED),
        ("missing/load.svg", True, "cannot write missing/load.svg: No such file or directory"),
    ],
)
def test_chart_that_cannot_be_drawn_is_refused_with_a_remedy(
    command: str,
    file: str,
    installed: bool,
    message: str,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    if not installed:
        monkeypatch.delitem(sys.modules, "fairway.cli.simulate.charts", raising=False)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
    size = SMALL if command == "hosting" else ("--nodes", "2", "--minutes", "1")
    assert run(["simulate", command, *size, "--chart", file]) == 2
    assert message in capsys.readouterr().err


def test_trace_is_replayed(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("seconds,size\n1,large\n2,small\n")
    assert run(["simulate", "hosting", "--trace", str(trace), "--policy", "spread", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["placed"] == 2


def test_bad_trace_names_file_and_line(tmp_path: Path, capsys: Capture) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("seconds\nsoon\n")
    assert run(["simulate", "hosting", "--trace", str(trace)]) == 2
    assert f"{trace}: line 2: seconds must be a number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "best"], UNKNOWN_POLICY.format(name="best", known="spread, pack, placement")),
        (["--trace", "x.csv", "--requests", "5"], CONTRADICTION),
        (["--trace", "missing.csv"], "missing.csv: No such file or directory"),
    ],
)
def test_bad_options_are_refused(arguments: list[str], message: str, capsys: Capture) -> None:
    assert run(["simulate", "hosting", *arguments]) == 2
    assert message in capsys.readouterr().err
