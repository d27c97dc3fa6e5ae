"""The table of all scores has all scores, with the formulas that are used."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairway.kube import Client, Connection
from fairway.providers.catalogue import CATALOGUE
from fairway.providers.health.parts import scores as health_scores
from fairway.providers.hosted.claims import MAXIMUM
from fairway.providers.hosted.provider import HostedClusters
from fairway.providers.provider import Scale, Score
from fairway.providers.scales import Direct, Inverted, Linear, Logarithmic, Share
from fairway.providers.usage import ResourceUsage

PAGE = (Path(__file__).parents[2] / "docs/reference/scores.md").read_text(encoding="utf-8")


def rows() -> Iterator[tuple[str, str, str]]:
    """Provider, score and formula."""
    provider = ""
    for line in PAGE.split("| provider | object |")[1].split("\n\n")[0].splitlines()[2:]:
        first, _, score, _, formula, _ = (cell.strip() for cell in line.strip("|").split("|"))
        provider = first or provider
        yield provider.strip("`"), score.strip("`"), formula


def formula(scale: Scale) -> str:
    match scale:
        case Linear(low, high):
            return f"linear({low:g}, {high:g})"
        case Logarithmic(low, high):
            return f"log({low:g}, {high:g})"
        case Inverted(inner):
            return f"inverted {formula(inner)}"
        case Direct():
            return "x"
        case Share(most):
            return f"share({'maximum' if most == MAXIMUM else f'{most:g}'})"
    raise AssertionError(scale)


def in_code(provider: str) -> tuple[Score, ...]:
    client = Client(Connection(server="https://nowhere.example"))
    match provider:
        case "resource-usage":
            return ResourceUsage(client).scores
        case "hosted-clusters":
            return HostedClusters(client).scores
        case "health":
            return tuple(health_scores())
    raise AssertionError(provider)


@pytest.mark.parametrize("provider", ["resource-usage", "hosted-clusters", "health"])
async def test_the_table_is_what_is_published(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAXCPUCOUNT", "MAXMEMCOUNT", "HC_MAX_NUMBER", "HC_THRESHOLD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    shown = {score: each for name, score, each in rows() if name == provider}
    assert shown == {each.name: formula(each.scale) for each in in_code(provider)}


def test_every_provider_is_in_the_table() -> None:
    listed = {name for provider, _, _ in rows() for name in re.split(r"`, `", provider)}
    assert listed == set(CATALOGUE)
