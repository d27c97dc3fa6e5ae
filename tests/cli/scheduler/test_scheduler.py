"""`fairway scheduler`, and `--scheduler-config` of the commands that decide placements."""

import gzip
import json
from pathlib import Path

import pytest

from fairway.cli.main import run

EXAMPLES = Path(__file__).parents[3] / "examples"
GOLDEN = Path(__file__).parents[2] / "golden"
PLACE = ["place", "-f", str(EXAMPLES / "fleet"), "--placement", "ns1/most-free-cpu"]

CONFIG = """\
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
pluginFiles: [plugins.py]
profiles:
- plugins:
    filter: {enabled: [{name: OutsideFrankfurt}]}
"""
PLUGINS = """\
from fairway.engine.status import OK, unschedulable


class OutsideFrankfurt:
    name = "OutsideFrankfurt"

    def filter(self, context, row):
        if context.snapshot.hosts.names[row].endswith("-fra"):
            return unschedulable("is in Frankfurt", plugin=self.name)
        return OK
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scheduler.yaml").write_text(CONFIG)
    Path("plugins.py").write_text(PLUGINS)


def test_check_prints_the_plugins_of_each_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", "check", "scheduler.yaml", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["plugin"] for row in rows if row["point"] == "Filter"] == [
        *("Predicate", "TaintToleration", "Spread", "MissingScore"),
        "OutsideFrankfurt",
    ]
    assert {"profile": "placement", "point": "Score", "plugin": "Balance", "weight": 1} in rows


def test_check_of_invalid_configuration_exits_2_with_every_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("scheduler.yaml").write_text(CONFIG.replace("filter:", "filters:").replace("profiles:", "profile:"))
    Path("plugins.py").write_text("class Broken(\n")
    assert run(["scheduler", "check", "scheduler.yaml"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "fairway: scheduler.yaml:3: pluginFiles[0]: plugins.py:1: invalid Python: '(' was never closed; "
        "fix the file, or remove it from pluginFiles",
        "fairway: scheduler.yaml:4: profile: unknown field; did you mean 'profiles'?",
    ]


def test_plugins_lists_built_in_plugins_and_those_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", "plugins", "--scheduler-config", "scheduler.yaml", "-o", "json"]) == 0
    origins = {load["plugin"]: load["origin"] for load in json.loads(capsys.readouterr().out)}
    assert (origins["Balance"], origins["OutsideFrankfurt"]) == ("fairway", "plugins.py")


def test_place_uses_the_filter_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PLACE) == 0
    assert "apps-fra" in capsys.readouterr().out
    assert run([*PLACE, "--scheduler-config", "scheduler.yaml"]) == 0
    assert "apps-fra" not in capsys.readouterr().out


def test_explain_names_the_filter_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "-f", str(EXAMPLES / "fleet"), "placement", "ns1/most-free-cpu"]
    assert run([*words, "--cluster", "apps-fra", "--scheduler-config", "scheduler.yaml"]) == 0
    assert "OutsideFrankfurt rejects it: is in Frankfurt" in capsys.readouterr().out


def test_lint_knows_prioritizers_of_the_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    Path("plugins.py").write_text(
        "class Cheapest:\n    name = 'Cheapest'\n    def score(self, context, row):\n        return 0\n"
    )
    Path("scheduler.yaml").write_text(CONFIG.partition("profiles:")[0])
    Path("placement.yaml").write_text(
        "apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\n"
        "metadata: {name: p, namespace: ns1}\nspec:\n  prioritizerPolicy:\n    configurations:\n"
        "    - scoreCoordinate: {builtIn: Cheapest}\n      weight: 1\n"
    )
    rule = ["lint", "-f", "placement.yaml", "--rule", "prioritizer-unknown"]
    assert run(rule) == 1
    assert run([*rule, "--scheduler-config", "scheduler.yaml"]) == 0


def test_conformance_decides_with_the_profile_of_the_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded = gzip.decompress((GOLDEN / "placement.jsonl.gz").read_bytes()).splitlines()[:20]
    Path("recorded.jsonl").write_bytes(b"\n".join(recorded))
    Path("scheduler.yaml").write_text(CONFIG.partition("pluginFiles:")[0])
    assert run(["conformance", "recorded.jsonl", "--scheduler-config", "scheduler.yaml"]) == 0
    Path("scheduler.yaml").write_text(
        CONFIG.partition("pluginFiles:")[0]
        + "profiles: [{plugins: {filter: {disabled: [{name: Predicate}]}}}]\n"
    )
    assert run(["conformance", "recorded.jsonl", "--scheduler-config", "scheduler.yaml"]) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["up"],
        PLACE,
        ["explain", *PLACE[1:3], "placement", "ns1/most-free-cpu"],
        ["lint", *PLACE[1:3]],
        ["conformance", "recorded.jsonl"],
        ["scheduler", "plugins"],
    ],
    ids=lambda words: words[0],
)
def test_environment_variable_names_the_configuration_for_every_command(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("recorded.jsonl").touch()
    monkeypatch.setenv("FAIRWAY_SCHEDULER_CONFIG", "absent.yaml")
    assert run(command) == 2
    assert (
        capsys.readouterr().err
        == "fairway: absent.yaml: cannot be read (No such file or directory); check the path\n"
    )


@pytest.mark.parametrize("command", [["run"], ["up"], PLACE])
def test_invalid_configuration_ends_commands_before_they_start(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--scheduler-config", "absent.yaml"]) == 2
    assert (
        capsys.readouterr().err
        == "fairway: absent.yaml: cannot be read (No such file or directory); check the path\n"
    )
