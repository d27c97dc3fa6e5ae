"""`fairway history`, `why` and `replay` on a recorded history."""

import json
from pathlib import Path

import pytest

from fairway.cli.main import run
from fairway.history.recorder import Recorder
from history.decided import MovingPlacement

RANDOM_POLICY = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: web, namespace: ns1}
spec: {numberOfClusters: 2}
"""


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A folder as that of ``fairway up --data``, and the ids of three decisions: a, b, a."""
    data = tmp_path_factory.mktemp("hub")
    recorder = Recorder(data / "history")
    moving = MovingPlacement(recorder)
    ids = [moving.move() for _ in range(3)]
    recorder.close()
    return data, [record_id for record_id in ids if record_id is not None]


def test_history_lists_what_changed_and_why(
    moved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, ids = moved
    assert run(["history", "ns1/web", "--history", str(folder)]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["TIME", "KIND", "NAME", "CHANGE", "MARGIN", "ID", "CAUSE"]
    assert [line.split()[-3:] for line in lines] == [
        [record, "move", str(at)] for at, record in enumerate(ids, 1)
    ]
    assert "+b -a" in lines[1]
    assert run(["history", ids[1], "--history", str(folder), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (record,) = document["records"]
    assert (record["added"], record["removed"], record["replayable"]) == (["b"], ["a"], True)
    assert document["gaps"] == document["warnings"] == []


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--cluster", "b"], 2),
        (["--cluster", "c"], 0),
        (["--kind", "pod"], 0),
        (["--since", "2026-03-01T12:00:01Z"], 2),
        (["--since", "1h"], 0),
        (["other/web"], 0),
    ],
)
def test_history_shows_what_is_asked_for(
    moved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str], options: list[str], count: int
) -> None:
    assert run(["history", *options, "--history", str(moved[0]), "-o", "json"]) == (0 if count else 1)
    assert len(json.loads(capsys.readouterr().out)["records"]) == count


def test_why_explains_the_decision_of_that_time(
    moved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["why", "ns1/web", "--at", "2026-03-01T12:00:01.5Z", "--cluster", "a"]
    assert run([*arguments, "--history", str(moved[0])]) == 0
    shown = capsys.readouterr().out
    for line in (
        f"record {moved[1][1]}",
        "cause: move 2",
        "  +b: rank 1 of 2 with 90 points: AddOn/default/cpu 90",
        "  -a: rank 2 of 2 with 10 points: AddOn/default/cpu 10",
        "margin: b was 80 points ahead of a",
        "  a: default/cpu 90 → 10",
        "Why not a",
        "raise score default/cpu of cluster a by 80 points, from 10 to 90",
    ):
        assert line in shown
    assert run(["why", moved[1][0], "--history", str(moved[0]), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["explanation"]["chosen"][0]["cluster"] == "a"
    assert run(["why", "ns1/web", "--at", "2020-01-01", "--history", str(moved[0])]) == 1
    assert "no decision of ns1/web is recorded" in capsys.readouterr().err


def test_replay_decides_the_same_and_compares_policies(
    moved: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, ids = moved
    assert run(["replay", "--all", "--history", str(folder)]) == 0
    assert "3 of 3 the same" in capsys.readouterr().out
    policy = tmp_path / "both.yaml"
    policy.write_text(RANDOM_POLICY)
    assert run(["replay", ids[1], "--placement", str(policy), "--history", str(folder), "-o", "json"]) == 1
    (replayed,) = json.loads(capsys.readouterr().out)["replays"]
    assert (replayed["result"], replayed["selected"], replayed["note"]) == ("differs", ["a", "b"], "+a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["history", "--history", "nowhere"], "there is no history in nowhere"),
        (["why", "unknown-id"], "no record has the id 'unknown-id'"),
        (["replay", "unknown-id"], "no record has the id 'unknown-id'"),
        (["replay"], "name a record by its ID, or replay all with --all"),
        (["replay", "--all", "--placement", "missing.yaml"], "missing.yaml"),
        (["history", "--since", "yesterday"], "'yesterday' is neither a time nor a duration"),
    ],
)
def test_bad_input_is_named(
    moved: tuple[Path, list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setenv("FAIRWAY_HISTORY", str(moved[0]))
    assert run(arguments) == 2
    assert message in capsys.readouterr().err
