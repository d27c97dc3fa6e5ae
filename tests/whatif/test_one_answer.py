"""One question about a placement has one answer, whichever command asks it, and whatever was asked before."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api.decision import PlacementDecision
from fairway.api.kinds import decode
from fairway.cli.main import run
from fairway.engine.trace import Trace
from fairway.hosts.instant import to_micros
from fairway.simulation.synthetic import BASE_TIME, generate
from fairway.whatif.explain import explain
from fairway.whatif.world import Key, World
from kubewire.api.encoding import encode

NOW = to_micros(BASE_TIME)
Points = dict[str, int]


def fleet_of(seed: int, *, recorded: float) -> list[Any]:
    """Return a fleet in which this share of the placements has a decision, some of another time."""
    documents = list(generate(clusters=12, placements=16, seed=seed))
    objects = [decode(document) for document in documents]
    dice = random.Random(seed)
    world = World(objects)
    placed = [key for key in sorted(world.placements) if dice.random() < recorded]
    dice.shuffle(placed)
    for key in placed:
        world.place(key, now=NOW - dice.choice((0, 600_000_000)))
    return [
        *(thing for thing in objects if type(thing).__name__ != "Placement"),
        *world.placements.values(),
        *(page for namespace in {key[0] for key in placed} for page in world.decisions(namespace).values()),
    ]


def points(world: World, key: Key) -> Points:
    return {host.host: host.total or 0 for host in Trace(world.ask(key, now=NOW).outcome) if host.selected}


def pages(world: World) -> dict[tuple[str, str], PlacementDecision]:
    namespaces = {namespace for namespace, _ in world.placements}
    return {
        (namespace, name): page
        for namespace in namespaces
        for name, page in world.decisions(namespace).items()
    }


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), recorded=st.sampled_from([0.0, 0.5, 1.0]))
def test_answer_depends_on_the_objects_and_on_nothing_that_was_asked_before(
    seed: int, recorded: float
) -> None:
    objects = fleet_of(seed, recorded=recorded)
    world = World(objects)
    keys = sorted(world.placements)
    before, statuses = pages(world), dict(world.placements)
    in_order = {key: points(world, key) for key in keys}
    shuffled = random.Random(seed).sample(keys, len(keys))
    assert {key: points(world, key) for key in shuffled} == in_order
    for key in keys:
        alone = World(objects)
        assert points(alone, key) == in_order[key]
        explained = explain(alone, key, now=NOW)
        assert {host.host: host.total for host in explained.chosen} == in_order[key]
        if world.workload(key).idle:
            continue
        verdict = world.ask(key, now=NOW)
        if not verdict.frozen:
            _, written = world.written(key, verdict, now=NOW)
            recorded_now = {
                item.clusterName: item.score for page in written for item in page.status.decisions
            }
            assert recorded_now == in_order[key]
    world.withdraw()
    assert (pages(world), world.placements) == (before, statuses)


@pytest.mark.parametrize("recorded", [0.0, 0.5])
def test_commands_on_files_agree(recorded: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fleet.json"
    objects = fleet_of(3, recorded=recorded)
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [encode(o) for o in objects]}))
    source = ["-f", str(file), "--now", BASE_TIME.isoformat()]

    def ask(*arguments: str) -> Any:
        assert run([*arguments, *source, "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    together = scores_of(ask("place"))
    for namespace, name in together:
        key = f"{namespace}/{name}"
        assert scores_of(ask("place", "--placement", key)) == {(namespace, name): together[namespace, name]}
        explained = ask("explain", "placement", key)["chosen"]
        assert {host["cluster"]: host["total"] for host in explained} == together[namespace, name]


def scores_of(document: Any) -> dict[Key, Points]:
    """Return the points of each selected cluster, by placement."""
    points: dict[Key, Points] = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): {}
        for item in document["items"]
        if item["kind"] == "Placement"
    }
    for item in document["items"]:
        if item["kind"] == "PlacementDecision":
            labels = item["metadata"]["labels"]
            key = (item["metadata"]["namespace"], labels["cluster.open-cluster-management.io/placement"])
            points[key] |= {
                one["clusterName"]: one["score"] for one in item.get("status", {}).get("decisions", ())
            }
    return points
