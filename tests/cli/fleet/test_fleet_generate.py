import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import forked
from fairway.cli.main import run
from fairway.simulation.synthetic import generate

WANTED = list(generate(clusters=5, seed=3, placements=2))
ARGUMENTS = ["fleet", "generate", "--clusters", "5", "--seed", "3", "--placements", "2"]


@pytest.mark.parametrize(
    "name", ["fleet.yaml", "fleet.json", "fleet.jsonl", "fleet.yaml.gz", "fleet.jsonl.gz"]
)
def test_name_of_out_decides_the_format(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    assert run([*ARGUMENTS, "--out", str(file)]) == 0
    data = file.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    if ".jsonl" in name:
        documents = [json.loads(line) for line in text.splitlines()]
    elif ".json" in name:
        documents = json.loads(text)["items"]
    else:
        documents = list(yaml.safe_load_all(text))
    assert documents == WANTED


def test_same_seed_generates_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        assert run([*ARGUMENTS, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_generated_directory_has_a_file_per_kind(tmp_path: Path) -> None:
    assert run([*ARGUMENTS, "--out", f"{tmp_path}/new/"]) == 0
    assert sorted(file.name for file in (tmp_path / "new").iterdir()) == [
        "clusters.yaml",
        "placements.yaml",
        "scores.yaml",
        "sets.yaml",
    ]
    clusters = list(yaml.safe_load_all((tmp_path / "new" / "clusters.yaml").read_text()))
    assert clusters == [document for document in WANTED if document["kind"] == "ManagedCluster"]
    assert run([*ARGUMENTS, "--out", str(tmp_path / "new"), "-o", "json"]) == 0
    assert json.loads((tmp_path / "new" / "placements.json").read_text())["kind"] == "List"


def test_generated_fleet_on_stdout_is_yaml_by_default() -> None:
    assert list(yaml.safe_load_all(forked.run(ARGUMENTS).stdout)) == WANTED
    done = forked.run([*ARGUMENTS, "-o", "jsonl"])
    assert [json.loads(line) for line in done.stdout.splitlines()] == WANTED


def test_empty_fleet_is_generated(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert run(["fleet", "generate", "--clusters", "0", "--placements", "0", "--out", str(file)]) == 0
    kinds = {item["kind"] for item in json.loads(file.read_text())["items"]}
    assert kinds == {"ManagedClusterSet", "ManagedClusterSetBinding"}


def test_now_sets_the_times_of_the_generated_fleet(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert run([*ARGUMENTS, "--now", "2031-05-01", "--out", str(file)]) == 0
    assert '"validUntil":"2031-' in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--now", "tomorrow"], "'tomorrow' is not a time"),
        (["--clusters", "-1"], "-1 is not in the range"),
        (["--out", "/nonexistent/x.yaml"], "cannot write /nonexistent/x.yaml: No such file or directory"),
        (["--out", "/proc/self/status/"], "cannot write /proc/self/status"),
    ],
)
def test_impossible_generate_options_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*ARGUMENTS, *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.json", "x.jsonl.gz", "folder/"])
def test_interrupted_generate_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def stop(**_: object) -> Iterator[dict[str, Any]]:
        yield WANTED[0]
        raise KeyboardInterrupt

    out = str(tmp_path / name) + ("/" if name.endswith("/") else "")
    assert run([*ARGUMENTS, "--out", out]) == 0
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    monkeypatch.setattr("fairway.cli.fleet.run.make", stop)
    assert run([*ARGUMENTS, "--out", out]) == 130
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_generate_follows_a_symbolic_link(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "real.json")
    assert run([*ARGUMENTS, "--out", str(link)]) == 0
    assert link.is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["items"] == WANTED


def test_generate_on_a_full_disk_exits_2() -> None:
    command = f'"{sys.executable}" -m fairway.cli.main fleet generate --clusters 2 >/dev/full'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == "fairway: cannot write standard output: No space left on device\n"
    assert done.returncode == 2
    done = subprocess.run(
        ["sh", "-c", f"{command.removesuffix('>/dev/full')} --out /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "fairway: cannot write /dev/full: No space left on device\n"


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"])
def test_generate_rejects_years_out_of_range(now: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fleet", "generate", "--clusters", "1", "--now", now]) == 2
    assert "Invalid value for '--now'" in capsys.readouterr().err
