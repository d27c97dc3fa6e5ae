import json
from pathlib import Path

import pytest

import forked
from fairway.cli.main import run

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """One matching and three differing results."""
    rows = [{"text": f"{number}Ki", "valid": True, "float": 1024} for number in range(1, 5)]
    file = tmp_path / "wrong"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    return str(file)


def test_conformance_of_recorded_results_exits_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", str(GOLDEN / "quantity.jsonl")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "134 passed, 0 failed"


def test_conformance_prints_differences_and_exits_1(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["conformance", wrong, str(GOLDEN / "quantity.jsonl"), "--show", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["quantity '2Ki'", "  float", "    expected  1024.0", "    got       2048.0"]
    assert "2 more failed; show them with --show 3" in lines
    assert lines[-1] == "135 passed, 3 failed"


def test_conformance_differences_are_in_the_json_output(
    wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["conformance", wrong, "-o", "json", "--show", "2"]) == 1
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["family"], answer["passed"], answer["failed"]) == ("quantity", 1, 3)
    assert [failure["name"] for failure in answer["failures"]] == ["'2Ki'", "'3Ki'"]
    assert answer["failures"][0]["differences"][0] == {"path": "float", "expected": "1024.0", "got": "2048.0"}


def test_unusable_recorded_results_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x"
    file.write_text("hello")
    assert run(["conformance", str(GOLDEN / "quantity.jsonl"), str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"fairway: {file}:1: not a JSON object")
    assert captured.out == ""


def test_conformance_runs_as_a_process(wrong: str) -> None:
    done = forked.run(["conformance", wrong])
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.endswith("\n1 passed, 3 failed\n")
