"""`fairway simulate machines`: a table, JSON and a picture, the same for the same options."""

import json

import pytest

from fairway.cli.commands.machines import RENAMED
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


def test_earlier_name_prints_the_new_one(capsys: Capture) -> None:
    run(list(SMALL))
    table = capsys.readouterr().out
    assert run(["machines", "simulate", *SMALL[2:]]) == 0
    assert capsys.readouterr() == (table, f"{RENAMED.format(new='fairway simulate machines')}\n")
