import asyncio
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairway.providers.catalogue import OptionsError
from fairway.providers.document import INVALID
from fairway.providers.provider import Reading
from fairway.providers.runner import running
from fairway.providers.scales import Direct, Inverted, Spread
from fairway.testing.builders import cluster
from fairway.testing.hub import HubAddress
from providers.tools.publishing import condition, hub_of, scores
from providers.tools.readings import StoppedClock, built, fleet, open_provider, values

LINEAR = {"kind": "linear", "low": 0, "high": 10}


def options(**more: Any) -> dict[str, Any]:
    return {"scores": [{"name": "price", "scale": LINEAR}, {"name": "rank"}], **more}


async def test_most_specific_static_value_wins() -> None:
    given = options(
        clusters={"c1": {"price": 3}},
        groups=[
            {"selector": {"matchLabels": {"region": "eu"}}, "values": {"price": 5, "rank": 1}},
            {
                "selector": {"matchExpressions": [{"key": "region", "operator": "Exists"}]},
                "values": {"price": 6, "rank": 2},
            },
        ],
        defaults={"rank": 9},
    )
    clusters = {
        "c1": cluster("c1", labels={"region": "eu"}),
        "c2": cluster("c2", labels={"region": "us"}),
        "c3": cluster("c3"),
    }
    async with open_provider("static", given) as provider:
        assert await values(provider, clusters) == {
            "c1": {"price": 3.0, "rank": 1.0},
            "c2": {"price": 6.0, "rank": 2.0},
            "c3": {"rank": 9.0},
        }


async def test_undeclared_cluster_has_no_static_score() -> None:
    async with open_provider("static", options(clusters={"c1": {"rank": 1}})) as provider:
        assert await values(provider, fleet("c1", "c2")) == {"c1": {"rank": 1.0}}


async def test_schedule_changes_static_values() -> None:
    clock = StoppedClock(datetime(2026, 3, 2, 21, 59, tzinfo=UTC))
    given = options(
        clusters={"c1": {"price": 8}, "c2": {"price": 8}},
        schedule=[{"from": "22:00", "to": "06:00", "clusters": ["c1"], "values": {"price": 2}}],
    )
    provider = built("static", given, clock=clock)
    assert await values(provider, fleet("c1", "c2")) == {"c1": {"price": 8.0}, "c2": {"price": 8.0}}
    clock.now = datetime(2026, 3, 2, 22, 0, tzinfo=UTC)
    assert await values(provider, fleet("c1", "c2")) == {"c1": {"price": 2.0}, "c2": {"price": 8.0}}
    given["schedule"] = [
        {"selector": {"matchLabels": {"a": "b"}}, "values": {"price": 1}},
        {"days": ["mon"], "values": {"price": 4}},
    ]
    provider = built("static", given, clock=clock)
    clusters = {"c1": cluster("c1", labels={"a": "b"}), "c2": cluster("c2")}
    assert await values(provider, clusters) == {"c1": {"price": 1.0}, "c2": {"price": 4.0}}


def test_well_known_static_scores_have_default_scale() -> None:
    given = {"scores": [{"name": "cost"}, {"name": "carbon"}, {"name": "latency"}, {"name": "rank"}]}
    provider = built("static", {**given, "defaults": {"rank": 1}})
    assert [(score.unit, score.scale) for score in provider.scores] == [
        ("per hour", Inverted(Spread())),
        ("gCO2e/kWh", Inverted(Spread())),
        ("ms", Inverted(Spread())),
        ("", Direct()),
    ]


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({}, "", "is empty"),
        ({"cluster": {}}, "cluster", "is an unknown field; did you mean 'clusters'?"),
        ({"clusters": {"c1": {"prise": 3}}}, "clusters.c1.prise", "no score 'prise'; did you mean 'price'?"),
        ({"clusters": {"c1": {"zzz": 3}}}, "clusters.c1.zzz", "declared are price, rank"),
        ({"clusters": {"c1": {"price": "3"}}}, "clusters.c1.price", "expected a finite number, got '3'"),
        ({"clusters": {"c1": {"price": True}}}, "clusters.c1.price", "expected a finite number, got True"),
        ({"defaults": {"price": float("nan")}}, "defaults.price", "expected a finite number, got nan"),
        ({"clusters": {"c1": {}}}, "clusters.c1", "has no values"),
        ({"groups": [{"selector": {}, "values": {"price": 1}}]}, "groups[0].selector", "selects nothing"),
        (
            {"groups": [{"selector": {"matchLabels": {"a b": ""}}, "values": {"price": 1}}]},
            "groups[0].selector",
            "key: Invalid value",
        ),
        ({"schedule": [{"from": "late", "values": {"price": 1}}]}, "schedule[0]", "a time of day such as"),
        ({"defaults": {"price": 1}, "file": "x"}, "file", "defaults and file exclude each other"),
        ({"file": "nowhere.yaml"}, "file", "nowhere.yaml: cannot be read"),
        ({"defaults": {"price": 1}, "interval": "0s"}, "interval", "must be at least 1s"),
        ({"defaults": {"price": 1}, "name": "No Name"}, "name", "is not a valid provider name"),
        ({"defaults": {"price": 1}, "checkEvery": 0}, "checkEvery", "must be at least 0.01s"),
    ],
)
def test_invalid_static_option_is_named(tmp_path: Path, more: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(OptionsError) as caught:
        built("static", options(**more), folder=tmp_path)
    assert caught.value.field == field
    assert words in caught.value.message


def replace(path: Path, text: str) -> None:
    """As editors and Kubernetes do it: another file in its place."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


async def test_static_file_is_reloaded_and_invalid_version_ignored(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("clusters:\n  c1: {price: 3}\n")
    woken = asyncio.Event()
    provider = built("static", options(file="values.yaml", checkEvery="10ms"), folder=tmp_path)

    async def changed() -> Any:
        async with asyncio.timeout(120):
            await woken.wait()
        woken.clear()
        return (await provider.read(fleet("c1")))["c1"]

    async with provider.running(woken.set):
        assert await values(provider, fleet("c1")) == {"c1": {"price": 3.0}}
        replace(path, "clusters:\n  c1: {price: 4}\n")
        assert await changed() == Reading(values={"price": 4.0})
        for text, words in {
            "clusters:\n  c1:\n    price: low\n": ":3: clusters.c1.price: expected a finite number, got 'low'",
            "clusters:\n  c1: {price: 4\n": ":2: is not valid YAML:",
            "clusters: {c1: {price: 1}, c1: {price: 2}}": ":1: is not valid YAML: duplicate key 'c1'",
            "": ": is empty",
        }.items():
            replace(path, text)
            reading = await changed()
            assert dict(reading.values) == {"price": 4.0}
            assert reading.reason == INVALID
            assert reading.problem.startswith(f"{path}{words}")
            assert reading.problem.endswith("; keeping the last valid version")
        path.unlink()
        reading = await changed()
        assert dict(reading.values) == {"price": 4.0}
        assert "cannot be read" in reading.problem
        replace(path, "defaults: {price: 7}\n")
        assert await changed() == Reading(values={"price": 7.0})


async def test_unknown_static_cluster_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="fairway.providers.static")
    async with open_provider("static", options(clusters={"c1": {"rank": 1}, "cl2": {"rank": 1}})) as provider:
        await provider.read(fleet("c1", "c2"))
        await provider.read(fleet("c1", "c2"))
    assert [record.getMessage() for record in caplog.records] == ["static: there is no managed cluster cl2"]


async def test_static_scores_are_published(fairway_hub: HubAddress) -> None:
    given = {
        "name": "prices",
        "scores": [{"name": "cost"}],
        "clusters": {"c1": {"cost": 1.5}},
        "groups": [{"selector": {"matchLabels": {"tier": "gold"}}, "values": {"cost": 4.5}}],
    }
    async with hub_of(fairway_hub) as hub:
        await hub.cluster("c1")
        await hub.cluster("c2", tier="gold")
        async with running([built("static", given)], hub=hub.client):
            cheap = await hub.until("c1", "prices-score", lambda score: scores(score) == {"cost": 100})
            dear = await hub.until("c2", "prices-score", lambda score: scores(score) == {"cost": 0})
    assert condition(cheap)[2] == "cost 1.5 per hour"
    assert condition(dear)[0] == "True"
