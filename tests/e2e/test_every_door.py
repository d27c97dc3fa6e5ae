"""One scenario asked through every door: commands with files and with a hub, and the controllers' objects and events.

``ask_every_door`` takes any fleet. What the doors predict is what the controllers then record, and what the doors show
of it afterwards.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from cli.live_hub import act, fill
from controllers.settling import settled
from fairway.api.hosting_policy import HostingPolicy
from fairway.api.resources import (
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.cli.main import run
from fairway.controllers.manager import running
from fairway.controllers.settings import HOSTING, PLACEMENT, Settings
from fairway.simulation.synthetic import generate
from fairway.testing.hub import HubAddress, hub_in_thread
from kubewire.api.encoding import encode
from kubewire.api.meta import format_time
from kubewire.client import Client
from kubewire.client.kubeconfig import load
from rigs.waiting import until

BOTH: Final = Settings(controllers=frozenset({PLACEMENT, HOSTING}), election=None)
PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
RANK: Final = re.compile(r"Rank (\d+) of (\d+) with (-?\d+) points")
Document = dict[str, Any]
Key = tuple[str, str]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubAddress]:
    # A manager freezes the garbage collector's view, which must not happen in a process that runs tests.
    collector = SimpleNamespace(collect=lambda: 0, freeze=lambda: None)
    monkeypatch.setattr("fairway.controllers.manager.gc", collector)
    with hub_in_thread(folder=tmp_path / "hub", controllers=frozenset()) as address:
        yield address


class Doors:
    """The commands of one hub."""

    def __init__(self, hub: HubAddress, capsys: pytest.CaptureFixture[str]) -> None:
        self.hub, self._capsys = hub, capsys

    def ask(self, *arguments: str, live: bool = True) -> Any:
        source = ("--kubeconfig", str(self.hub.kubeconfig)) if live else ()
        assert run([*arguments, *source, "-o", "json"]) in (0, 1)
        return json.loads(self._capsys.readouterr().out)

    def placements(self, *arguments: str, live: bool = True) -> dict[Key, dict[str, int]]:
        """Ask `fairway place` for the points of each selected cluster, by placement."""
        document = self.ask("place", *arguments, live=live)
        points: dict[Key, dict[str, int]] = {
            _key(item): {} for item in document["items"] if item["kind"] == "Placement"
        }
        for item in document["items"]:
            if item["kind"] == "PlacementDecision":
                key = (item["metadata"]["namespace"], item["metadata"]["labels"][PLACEMENT_LABEL])
                points[key] |= {
                    one["clusterName"]: one["score"] for one in item.get("status", {}).get("decisions", ())
                }
        return points

    def agreed(self, *, file: Path | None) -> dict[Key, dict[str, int]]:
        """Return the answer for all placements, after every door gave the same one for each."""
        together = self.placements()
        if file is not None:
            assert self.placements("-f", str(file), live=False) == together
        for namespace, name in together:
            expected = together[namespace, name]
            assert self.placements("--placement", f"{namespace}/{name}") == {(namespace, name): expected}
            explained = self.ask("explain", "placement", f"{namespace}/{name}")
            assert {host["cluster"]: host["total"] for host in explained["chosen"]} == expected
        return together

    def settle(self) -> None:
        """Run the controllers until they have nothing left to do."""

        async def work(client: Client) -> None:
            async with running(load(self.hub.kubeconfig).context(), BOTH) as manager:
                await manager.synced()
                await settled(client, manager)

        act(self.hub.kubeconfig, work)

    def until_policies_have(self, amounts: tuple[int, ...]) -> None:
        """Run the controllers until the status of each policy has these hosted clusters, reserved and free places.

        It follows the requests at intervals, so that settled controllers may still have to write it.
        """

        async def work(client: Client) -> None:
            async with running(load(self.hub.kubeconfig).context(), BOTH):
                for policy in (await client.list(HOSTING_POLICIES)).items:
                    await until(client, HOSTING_POLICIES, policy.metadata.name, has)

        def has(policy: HostingPolicy) -> bool:
            status = policy.status
            return (status.hostedClusters, status.reserved, status.freeSlots) == amounts

        act(self.hub.kubeconfig, work)

    def objects(self, resource: Any) -> list[Document]:
        items = act(self.hub.kubeconfig, lambda client: client.list(resource)).items
        return [encode(item) for item in items]

    def notes(self) -> dict[tuple[str, str], list[str]]:
        """Return the messages of events, by name of the object and reason."""

        async def read(client: Client) -> Any:
            response = await client.request("GET", "/apis/events.k8s.io/v1/events")
            return json.loads(response.body)

        notes: dict[tuple[str, str], list[str]] = {}
        for event in act(self.hub.kubeconfig, read)["items"]:
            notes.setdefault((event["regarding"]["name"], event["reason"]), []).append(event["note"])
        return notes


def ask_every_door(doors: Doors, documents: list[Document], folder: Path) -> None:
    file = folder / "fleet.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    fill(doors.hub.kubeconfig, paths=[file])
    predicted = doors.agreed(file=file)
    hosted = {row["request"]: row for row in doors.ask("hosting", "place")}
    before = {row["host"]: row for row in doors.ask("hosting", "capacity")}

    doors.settle()
    notes = doors.notes()
    _check_decisions(doors, predicted, notes)
    _check_requests(doors, hosted, notes)
    _check_capacity(doors, hosted, before)
    # Decided again, placements count their own decisions, and every door does so.
    doors.agreed(file=None)


def _check_decisions(doors: Doors, predicted: dict[Key, dict[str, int]], notes: Any) -> None:
    recorded: dict[Key, dict[str, int]] = {key: {} for key in predicted}
    for page in doors.objects(PLACEMENT_DECISIONS):
        key = (page["metadata"]["namespace"], page["metadata"]["labels"][PLACEMENT_LABEL])
        for one in page.get("status", {}).get("decisions", ()):
            recorded[key][one["clusterName"]] = one["score"]
            rank = RANK.match(one["reason"])
            assert rank is not None
            assert int(rank[3]) == one["score"]
    assert recorded == predicted
    listed = doors.ask("get", "decisions", "-A")
    for placement in doors.objects(PLACEMENTS):
        key = _key(placement)
        points = recorded[key]
        assert placement.get("status", {}).get("numberOfSelectedClusters", 0) == len(points)
        explained = doors.ask("explain", "placement", "/".join(key))
        assert explained["recordedScores"] == points
        for note in notes.get((key[1], "ScoreUpdate"), ()):
            scores = dict(part.rsplit(":", 1) for part in note.split() if ":" in part)
            assert {name: int(scores[name]) for name in points if name in scores} == {
                name: points[name] for name in points if name in scores
            }
    shown = {
        one["clusterName"]: one["score"]
        for item in listed["items"]
        for one in item.get("status", {}).get("decisions", ())
    }
    assert shown.keys() == {name for points in recorded.values() for name in points}


def _check_requests(doors: Doors, predicted: dict[str, Document], notes: Any) -> None:
    for request in doors.objects(HOSTED_CLUSTER_REQUESTS):
        status, expected = request["status"], predicted["/".join(_key(request))]
        host = status.get("hostingCluster", {}).get("name", "")
        assert (host, status.get("total")) == (expected["host"], expected["total"])
        scores = {one["plugin"]: one["score"] * one["weight"] for one in status.get("scores", ())}
        assert scores == expected["scores"]
        scheduled = next(one for one in status["conditions"] if one["type"] == "Scheduled")
        reasons = [(one["plugin"], one["reason"], one["count"]) for one in status.get("rejections", ())]
        wanted = [(one["plugin"], one["reason"], one["count"]) for one in expected["rejections"]]
        assert reasons == wanted
        # A host that was chosen is not among those that do not qualify.
        assert not any(host in one["clusters"] for one in expected["rejections"] if host)
        if host:
            words = f"{host}, ranked first with {status['total']} points"
            assert scheduled["message"] == words
            assert words in notes[request["metadata"]["name"], "Scheduled"]
        else:
            assert scheduled["message"] == expected["message"]
            assert status.get("wouldFit", []) == expected["wouldFit"]
        assert doors.ask("hosting", "explain", "/".join(_key(request))) == status


def _check_capacity(doors: Doors, placed: dict[str, Document], before: dict[str, Document]) -> None:
    after = {row["host"]: row for row in doors.ask("hosting", "capacity")}
    for name, row in after.items():
        mine = sum(one["host"] == name for one in placed.values())
        assert (row["hosted"], row["reserved"]) == (before[name]["hosted"], before[name]["reserved"] + mine)
    known = [row for row in after.values() if row["hosted"] is not None]
    reserved = sum(row["reserved"] for row in after.values())
    expected = (
        sum(row["hosted"] for row in known) + reserved,
        reserved,
        sum(row["slots"]["small"] for row in known),
    )
    doors.until_policies_have(expected)


def _key(item: Document) -> Key:
    return (item["metadata"]["namespace"], item["metadata"]["name"])


def fleet(seed: int) -> list[Document]:
    """Return clusters with hosting clusters among them, placements of all kinds, and more requests than fit."""
    now = datetime.now(UTC)
    documents = list(generate(clusters=14, placements=13, seed=seed, now=now))
    for document in documents:
        status = document.get("status", {})
        for field in ("uid", "resourceVersion", "generation", "creationTimestamp", "finalizers"):
            document["metadata"].pop(field, None)  # the hub sets them
        # What is valid now is valid until the end of the test, and a request that is refused is refused for its room.
        if status.get("validUntil", "") > format_time(now):
            status["validUntil"] = format_time(now + timedelta(days=1))
    group = "placement.fairway.dev/v1alpha1"
    documents.append(
        {"apiVersion": group, "kind": "HostingPolicy", "metadata": {"name": "default"}, "spec": {}}
    )
    for number, size in enumerate(("small", "large", "medium", "large", "large")):
        documents.append(
            {
                "apiVersion": group,
                "kind": "HostedClusterRequest",
                "metadata": {"name": f"r{number}", "namespace": "hosting"},
                "spec": {"size": size, "hostedCluster": {"spec": {"platform": {"type": "None"}}}},
            }
        )
    return documents


@pytest.mark.parametrize("seed", [9, 21])
def test_scenario_has_the_same_numbers_behind_every_door(
    seed: int, hub: HubAddress, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask_every_door(Doors(hub, capsys), fleet(seed), tmp_path)
