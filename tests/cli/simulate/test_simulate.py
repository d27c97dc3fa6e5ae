"""`fairway simulate hosting`: the comparison, its picture, and bad input."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairway.cli.main import run
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


def test_picture_is_valid_svg(tmp_path: Path) -> None:
    picture = tmp_path / "load.svg"
    assert run(["simulate", "hosting", *SMALL, "--policy", "placement", "--svg", str(picture)]) == 0
    assert ElementTree.fromstring(picture.read_text()).tag.endswith("svg")


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
