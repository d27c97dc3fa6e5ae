"""`fairway simulate machines`: a table, JSON and a picture, the same for the same options."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairway.cli.commands.machines import RENAMED
from fairway.cli.machines.chart import draw
from fairway.cli.machines.simulate import NOT_WRITTEN
from fairway.cli.main import run

SMALL = ("simulate", "machines", "--nodes", "4", "--machines", "8", "--minutes", "5")
Capture = pytest.CaptureFixture[str]


def test_policies_are_compared_in_a_table_that_repeats(capsys: Capture) -> None:
    assert run(list(SMALL)) == 0
    first = capsys.readouterr().out
    assert [line.split("  ")[0] for line in first.splitlines()] == [
        "POLICY",
        "cheapest set",
        "oldest first",
        "watermark only",
        "no migrations",
    ]
    run(list(SMALL))
    assert capsys.readouterr().out == first


def test_json_has_the_figures_of_every_policy(capsys: Capture) -> None:
    assert run([*SMALL, "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["policy"]: row["moves"] for row in rows}["no migrations"] == 0
    assert all(row["secondsToGrant"]["median"] <= row["secondsToGrant"]["p99"] for row in rows)
    assert all(row["requests"] >= row["denied"] for row in rows)


def test_picture_has_a_line_for_every_policy(tmp_path: Path) -> None:
    file = tmp_path / "growth.svg"
    assert run([*SMALL, "--svg", str(file)]) == 0
    root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 4


def test_picture_draws_steps_and_escapes_names() -> None:
    picture = draw({"a & b": [(30.0, 2), (60.0, 0)]}, seconds=60)
    assert "a &amp; b" in picture
    assert "M60.0,315.0 H385.0 V30.0 H710.0 V315.0 H710.0" in picture


def test_file_that_cannot_be_written_is_reported(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "missing" / "growth.svg"
    assert run([*SMALL, "--svg", str(file)]) == 2
    assert NOT_WRITTEN.format(file=file, reason="No such file or directory") in capsys.readouterr().err


def test_earlier_name_prints_the_new_one(capsys: Capture) -> None:
    run(list(SMALL))
    table = capsys.readouterr().out
    assert run(["machines", "simulate", *SMALL[2:]]) == 0
    assert capsys.readouterr() == (table, f"{RENAMED.format(new='fairway simulate machines')}\n")
