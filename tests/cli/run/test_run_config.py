"""The file of `fairway run --config`."""

import logging
import re
from pathlib import Path

import pytest

from fairway.cli.errors import BadInputError
from fairway.cli.run.config import configured
from fairway.controllers import bridge, recovery, scores, settings
from fairway.controllers.settings import Settings

ROOT = Path(__file__).parents[3]


def config(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "fairway.yaml"
    file.write_text(text, encoding="utf-8")
    return configured(Settings(grace=7, controllers=settings.ALL), file)


def test_empty_run_config_equals_the_defaults(tmp_path: Path) -> None:
    assert config(tmp_path, "recovery: {}\n") == Settings(grace=7, controllers=settings.ALL)


def test_every_section_of_the_run_config_is_read(tmp_path: Path) -> None:
    text = """
recovery:
  health: nodes/ready
  below: 0
  above: 50
  dwell: 10m
  recoveryDwell: 1h
  effect: NoSelectIfNew
  missing: unhealthy
  fleet: {percent: 5, count: 3}
  perSet: {percent: 50}
  suspectPercent: 30
  suspectWindow: 120
  fresh: 5m
bridge:
  toAddOn: true
  toManaged: true
  ttl: 90
  resource: calculators
  calculators: [resourceratiocpu]
  ranges: {resourceratiocpu: {low: 0, high: 100}}
  names: {resourceratiocpu: cpu}
  resources: [resource-usage-score]
scores:
  silent: worst
  resources: {resource-usage-score: drop}
  worst: {a/b: 100}
  grace: 2m
  share: 0.25
  orphans: drop
"""
    settings = config(tmp_path, text)
    assert settings.recovery == recovery.RecoveryPolicy(
        health=recovery.HealthSource(resource="nodes", score="ready"),
        below=0,
        above=50,
        dwell=600,
        recovery_dwell=3600,
        effect="NoSelectIfNew",
        missing="unhealthy",
        fleet=recovery.Budget(percent=5, count=3),
        per_set=recovery.Budget(percent=50),
        suspect_percent=30,
        suspect_window=120,
        fresh=300,
    )
    assert settings.bridge == bridge.BridgeOptions(
        to_add_on=True,
        to_managed=True,
        ttl=90,
        resource="calculators",
        calculators=frozenset({"resourceratiocpu"}),
        ranges={"resourceratiocpu": bridge.Range(low=0, high=100)},
        names={"resourceratiocpu": "cpu"},
        resources=frozenset({"resource-usage-score"}),
    )
    assert settings.scores == scores.SilencePolicy(
        default=scores.Silence.WORST,
        by_resource={"resource-usage-score": scores.Silence.DROP},
        worst={"a/b": 100},
        grace=120,
        share=0.25,
        orphans=scores.Orphans.DROP,
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"fairway.yaml: is empty"),
        ("recovry: {}\n", r"fairway.yaml:1: recovry: is an unknown field.*recovery"),
        ("recovery:\n  dwell: soon\n", r"fairway.yaml:2: recovery.dwell: expected a duration"),
        (
            "recovery:\n  above: -30\n",
            r"fairway.yaml:1: recovery: above must be greater than below; got above -30",
        ),
        ("recovery:\n  health: a/b/c\n", r"does not name a score: write RESOURCE/SCORE"),
        ("recovery:\n  fleet: {count: 3}\n", r"fairway.yaml:2: recovery.fleet: misses the field 'percent'"),
        ("bridge:\n  ttl: 0\n", r"fairway.yaml:1: bridge: ttl must be greater than 0"),
        ("bridge:\n  toAddOn: false\n", r"the bridge has no direction"),
        ("scores:\n  silent: wrost\n", r"fairway.yaml:2: scores.silent: "),
        ("scores:\n  worst: {a/b: 101}\n", r"the worst score must be an integer from -100 to 100"),
        ("- recovery\n", r"fairway.yaml:1: expected a mapping"),
    ],
)
def test_run_config_error_names_file_line_and_field(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInputError) as error:
        config(tmp_path, text)
    assert re.search(told, str(error.value))


def test_missing_run_config_exits_2(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"none.yaml: cannot be read"):
        configured(Settings(), tmp_path / "none.yaml")


def test_documented_run_config_is_valid(tmp_path: Path) -> None:
    shown = re.findall(
        r"```yaml\n(# fairway.yaml\n.*?)```",
        (ROOT / "docs/how-to/operate.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    (text,) = shown
    assert config(tmp_path, text).recovery.dwell == 600


def test_run_config_error_lists_the_allowed_values(tmp_path: Path) -> None:
    with pytest.raises(
        BadInputError,
        match=r"fairway\.yaml:2: scores\.silent: must be one of leave, worst, drop; got 'worse'",
    ):
        config(tmp_path, "scores:\n  silent: worse\n")
    with pytest.raises(BadInputError, match=r"scores\.resources: must be one of leave, worst, drop; got 'b'"):
        config(tmp_path, "scores:\n  resources: {a: b}\n")


def test_run_config_section_of_a_stopped_controller_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "fairway.yaml"
    file.write_text("recovery: {below: 20}\nscores: {silent: drop}\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        configured(Settings(), file)
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}: section recovery has no effect: the controller is not enabled (--controllers=+recovery)"
    ]
