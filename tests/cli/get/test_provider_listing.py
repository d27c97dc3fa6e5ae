"""`fairway get providers` on a hub: publishers, fresh scores, and reasons of the others."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import act, fill, watch
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.cli.client.names import NAMESPACES
from fairway.cli.main import run
from fairway.testing.builders import cluster, cluster_score, score
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.api.meta import format_time
from kubewire.client import AlreadyExists, Client, Patch

Capture = pytest.CaptureFixture[str]

LONG = timedelta(days=365)


async def publish(client: Client, name: str, *, lasts: timedelta, message: str = "") -> None:
    """Publish as the SDK does, with its label and field manager."""
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": name}})
    head = {"apiVersion": ADD_ON_PLACEMENT_SCORES.api_version, "kind": ADD_ON_PLACEMENT_SCORES.kind}
    meta = {"name": "resource-usage-score", "namespace": name}
    labels = {"fairway.dev/provider": "resource-usage"}
    status: dict[str, Any] = {
        "scores": [{"name": "cpuAvailable", "value": 12}],
        "validUntil": format_time(datetime.now(UTC) + lasts),
    }
    if message:
        status["conditions"] = [
            {
                "type": "AddOnPlacementScoreUpdated",
                "status": "False",
                "reason": "Failed",
                "message": message,
                "lastTransitionTime": format_time(datetime.now(UTC)),
            }
        ]
    for body, part in (
        ({"metadata": meta | {"labels": labels}}, None),
        ({"metadata": meta, "status": status}, "status"),
    ):
        await client.patch(
            ADD_ON_PLACEMENT_SCORES,
            "resource-usage-score",
            {**head, **body},
            kind=Patch.APPLY,
            namespace=name,
            subresource=part,
            field_manager="fairway-provider-resource-usage",
            force=True,
        )


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAddress]:
    with hub_in_thread(folder=tmp_path_factory.mktemp("providers")) as hub:
        fill(
            hub.kubeconfig,
            *(cluster(f"c{at}") for at in range(1, 5)),
            *(score(f"c{at}", {"free": at}, name="own") for at in range(1, 5)),
            cluster_score("c1", "ResourceRatioCPU", 5),
        )

        async def more(client: Client) -> None:
            await publish(client, "c1", lasts=LONG)
            await publish(client, "c2", lasts=timedelta(minutes=-3))
            await publish(client, "c3", lasts=LONG, message="nodes cannot be listed")

        act(hub.kubeconfig, more)
        yield hub


@pytest.fixture
def get(hub: HubAddress) -> Any:
    return lambda *arguments: run(["get", "providers", *arguments, "--kubeconfig", str(hub.kubeconfig)])


def rows(text: str) -> list[list[str]]:
    """Return the cells of each line."""
    return [[part.strip() for part in line.split("  ") if part.strip()] for line in text.splitlines()]


def test_get_providers_prints_a_row_per_provider(get: Any, capsys: Capture) -> None:
    assert get() == 0
    header, *lines = rows(capsys.readouterr().out)
    assert header == [
        *("PROVIDER", "RESOURCE", "CLUSTERS", "FRESH", "EXPIRED", "FAILING", "MISSING", "OLDEST", "PROBLEM")
    ]
    assert [row[:7] for row in lines] == [
        ["own", "own", "4/4", "0", "0", "0", "0"],
        ["resource-usage", "resource-usage-score", "3/4", "1", "1", "1", "1"],
        ["resourceratiocpu", "resourceratiocpu", "1/4", "0", "0", "0", "3"],
    ]
    problem = lines[1][-1]
    assert re.match(r"c2: resource-usage-score expired \d+m", problem)
    assert "before it was written: the provider's clock is behind (last written" in problem
    assert "by fairway-provider-resource-usage); cluster has not reported yet (and 1 more)" in problem


def test_get_providers_wide_has_more_columns(get: Any, capsys: Capture) -> None:
    assert get("-o", "wide", "--resource", "own") == 0
    header, line = rows(capsys.readouterr().out)
    cells = dict(zip(header, line, strict=False))
    assert (cells["ENDLESS"], cells["SILENT"], cells["EMPTY"]) == ("4", "0", "0")
    assert (cells["KIND"], cells["SCORES"]) == ("AddOnPlacementScore", "free")


@pytest.mark.parametrize("name", ["resource-usage", "resource-usage-score"])
def test_get_providers_lists_clusters_of_a_provider(get: Any, capsys: Capture, name: str) -> None:
    assert get(name) == 0
    header, *lines = rows(capsys.readouterr().out)
    assert header[2:4] == ["CLUSTER", "STATE"]
    assert [row[2:4] for row in lines] == [
        ["c2", "expired"],
        ["c3", "failing"],
        ["c4", "missing"],
        ["c1", "fresh"],
    ]
    assert "its provider reports: nodes cannot be listed" in lines[1][-1]


def test_get_providers_lists_providers_of_a_cluster(get: Any, capsys: Capture) -> None:
    assert get("--cluster", "c4", "-o", "wide") == 0
    _, *lines = rows(capsys.readouterr().out)
    assert [row[1:4] for row in lines] == [
        ["own", "c4", "endless"],
        ["resource-usage-score", "c4", "missing"],
        ["resourceratiocpu", "c4", "missing"],
    ]


def test_get_providers_json_has_all_fields(get: Any, capsys: Capture) -> None:
    assert get("-A", "-o", "json") == 0
    printed = capsys.readouterr().out
    by_resource = {entry["resource"]: entry for entry in json.loads(printed)["providers"]}
    usage = by_resource["resource-usage-score"]
    assert [cluster["cluster"] for cluster in usage["clusters"]] == ["c2", "c3", "c4"]
    assert usage["writers"] == ["fairway-provider-resource-usage"]
    assert get("resource-usage", "-o", "yaml") == 0
    (whole,) = yaml.safe_load(capsys.readouterr().out)["providers"]
    assert [cluster["state"] for cluster in whole["clusters"]] == ["expired", "failing", "missing", "fresh"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody",), "provider nobody not found; known: own, resource-usage"),
        (("--cluster", "c9"), "cluster c9 not found"),
        (("-A", "--cluster", "c1"), "give either -n or -A, not both"),
        (("--output-watch-events",), "--output-watch-events requires --watch"),
        (("--watch", "-o", "json"), "--watch requires -o table or -o wide"),
        (("-o", "xml"), "'xml' is not one of"),
        (("--cluster", "No Such"), "is not a valid namespace name"),
    ],
)
def test_contradictory_get_providers_options_exit_2(
    get: Any, capsys: Capture, arguments: tuple[str, ...], words: str
) -> None:
    assert get(*arguments) == 2
    assert words in capsys.readouterr().err


def test_get_providers_without_scores_says_so(
    tmp_path: Path, fairway_hub: HubAddress, capsys: Capture
) -> None:
    assert run(["get", "providers", "--kubeconfig", str(fairway_hub.kubeconfig)]) == 0
    assert capsys.readouterr() == ("", "No provider publishes scores.\n")


def test_get_providers_watch_shows_expiry_and_recovery(tmp_path: Path, fairway_hub: HubAddress) -> None:
    fill(fairway_hub.kubeconfig, cluster("c1"), cluster("c2"))
    act(fairway_hub.kubeconfig, lambda client: publish(client, "c1", lasts=LONG))
    with watch(tmp_path, fairway_hub.kubeconfig, "get", "providers", "-w") as watched:

        def shows(*counts: str) -> None:
            """Skip lines of writes that changed only the time."""
            while watched.line().split()[2:7] != [*counts]:
                pass

        assert watched.line().split()[0] == "PROVIDER"
        shows("1/2", "1", "0", "0", "1")
        act(fairway_hub.kubeconfig, lambda client: publish(client, "c1", lasts=timedelta(seconds=2)))
        shows("1/2", "0", "1", "0", "1")
        act(fairway_hub.kubeconfig, lambda client: publish(client, "c2", lasts=LONG))
        shows("2/2", "1", "1", "0", "0")
        assert watched.interrupt() == (130, "")
