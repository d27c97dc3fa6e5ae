"""Decide recorded placement scenarios, and format the results like the recorded ones."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairway.api.kinds import decode
from fairway.api.meta import format_time
from fairway.api.placement import PLACEMENT_LABEL, PlacementStatus
from fairway.engine.outcome import Outcome
from fairway.fleet.instant import from_micros, to_micros
from fairway.placement.verdict import Verdict
from fairway.whatif.world import Key, World


def answers(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one result per step of the scenario's schedule."""
    now = to_micros(datetime.fromisoformat(scenario["now"]))
    world = World(decode(each) for each in scenario["objects"])
    found: list[dict[str, Any]] = []
    for text in scenario["schedule"]:
        namespace, name = text.split("/", 1)
        key = (namespace, name)
        if key not in world.placements:
            found.append({"placement": text, "numberOfSelectedClusters": 0})
            continue
        found.append(_answer(world, key, world.place(key, now=now)))
    return found


def _answer(world: World, key: Key, found: Verdict) -> dict[str, Any]:
    outcome = found.outcome
    answer: dict[str, Any] = {"placement": "/".join(key)}
    status = world.placements[key].status
    disabled = world.workload(key).idle
    if found.error is not None and not disabled:
        answer["error"] = found.error
    answer |= {
        "numberOfSelectedClusters": status.numberOfSelectedClusters,
        "selectedInRankOrder": None if disabled else outcome.selected,
        "conditions": _conditions(status),
        "decisionGroups": _groups(status),
        "decisions": _decisions(world, key),
    }
    if disabled or found.frozen:
        return answer
    details = outcome.details
    if details.stages:
        answer["filters"] = _filters(outcome)
    if details.scored:
        answer["prioritizers"] = _prioritizers(outcome)
    if len(details.rows):
        answer["totalScores"] = outcome.totals_by_name()
    if outcome.wake is not None:
        answer["requeueAt"] = format_time(from_micros(outcome.wake))
    if found.writes.events:
        answer["events"] = [
            {
                "type": each.type,
                "reason": each.reason,
                "action": each.action,
                "message": each.message.rstrip(" "),
            }
            for each in found.writes.events
        ]
    return answer


def _groups(status: PlacementStatus) -> list[dict[str, Any]]:
    return [
        {
            "decisionGroupIndex": each.decisionGroupIndex,
            "decisionGroupName": each.decisionGroupName,
            "decisions": list(each.decisions),
            "clusterCount": each.clusterCount,
        }
        for each in status.decisionGroups
    ]


def _filters(outcome: Outcome) -> dict[str, list[str]]:
    """Return the clusters that passed, by the comma-separated names of the filters so far."""
    stages: dict[str, list[str]] = {}
    passed: list[str] = []
    for stage in outcome.details.stages:
        passed.append(stage.plugin)
        stages[",".join(passed)] = outcome.names(stage.survivors)
    return stages


def _prioritizers(outcome: Outcome) -> list[dict[str, Any]]:
    names = outcome.snapshot.hosts.names
    rows = outcome.details.rows.tolist()
    found = [
        {
            "name": each.plugin,
            "weight": each.weight,
            "scores": {
                names[row]: score
                for at, (row, score) in enumerate(zip(rows, each.scores.tolist(), strict=True))
                if each.present is None or each.present[at]
            },
        }
        for each in outcome.details.scored
    ]
    return sorted(found, key=lambda each: (each["name"], each["weight"]))


def _conditions(status: PlacementStatus) -> list[dict[str, Any]]:
    return [
        {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
        for each in sorted(status.conditions, key=lambda each: each.type)
    ]


def _decisions(world: World, key: Key) -> list[dict[str, Any]]:
    namespace, name = key
    return [
        {
            "name": each.metadata.name,
            "labels": dict(each.metadata.labels),
            "clusters": [decision.clusterName for decision in each.status.decisions],
        }
        for _, each in sorted(world.decisions(namespace).items())
        if each.metadata.labels.get(PLACEMENT_LABEL) == name
    ]
