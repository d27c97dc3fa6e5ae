"""Scores, formulas and options in docs/how-to/resource-usage.md match the code."""

import re
from pathlib import Path

import yaml

from fairway.providers.scales import Inverted, Linear, Logarithmic
from fairway.providers.usage import options as options_module
from fairway.providers.usage.measures import measures
from fairway.providers.usage.options import UsageOptions
from fairway.providers.usage.provider import RULES

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "resource-usage.md").read_text(encoding="utf-8")
SCALES = {"linear": Linear, "logarithmic": Logarithmic, "logarithmic, inverted": Inverted}
NUMBERS = (1, 4, 16, 100, 1000)


def rows(first: str) -> list[list[str]]:
    """Return the rows of the table with this first heading."""
    table = PAGE.partition(f"| {first} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:]]


def test_usage_page_lists_all_scores() -> None:
    scales = {
        measure.score.name: measure.score.scale
        for measure in measures(UsageOptions.read({"shapes": {"web": {"cpu": 1}}}, environment={}))
    }
    documented = {row[0].strip("`"): row[2:] for row in rows("score")}
    assert documented.keys() == scales.keys()
    for name, (scale, limit) in documented.items():
        assert type(scales[name]) is SCALES[scale]
        if limit:
            assert scales[name].score(float(limit)) == 100
            assert scales[name].score(float(limit) * 0.9) < 100


def test_usage_page_lists_scales() -> None:
    for scale, _, *points in rows("scale"):
        _, other = re.findall("`(.*?)`", scale)
        name = "cpuAvailable" if other.startswith("floor") else other
        options = UsageOptions.read(
            yaml.safe_load(other) if other.startswith("floor") else {}, environment={}
        )
        (score,) = (measure.score for measure in measures(options) if measure.score.name == name)
        assert [int(point) for point in points] == [score.scale.score(float(number)) for number in NUMBERS]


def test_usage_page_options_are_complete_and_valid() -> None:
    given = yaml.safe_load(PAGE.partition("```yaml\n")[2].partition("```")[0])
    options = UsageOptions.read(given, environment={})
    assert {measure.score.name for measure in measures(options)} == set(given["scores"])
    known = re.findall(r"^(\w+):", options_module.__doc__ or "", re.MULTILINE)
    assert set(known) - set(given) == {"parity"}


def test_usage_page_lists_rights() -> None:
    documented = PAGE.partition("It needs to")[2].partition(", nothing else")[0]
    for rule in RULES:
        for verb in rule.verbs:
            assert f"`{verb}`" in documented
