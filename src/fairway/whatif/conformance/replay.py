"""Decide recorded placement scenarios, and format the results like the recorded ones."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairway.api.kinds import decode
from fairway.api.placement import PLACEMENT_LABEL, PlacementStatus
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Profile
from fairway.hosts.instant import Micros, from_micros, to_micros
from fairway.whatif.world import Key, World
from fairway.workloads.placement.events import Event, events_of
from fairway.workloads.placement.reconcile_plan import ReconcilePlan
from fairway.workloads.placement.steps import Create, Fill, Relabel, Step
from kubewire.api.meta import format_time

OWN_CONDITIONS = "fairway.dev/"
"""Prefix of the conditions that the reference does not have."""


def answers(scenario: Mapping[str, Any], *, profile: Profile | None = None) -> list[dict[str, Any]]:
    """Return one result per step of the scenario's schedule."""
    now = to_micros(datetime.fromisoformat(scenario["now"]))
    world = World((decode(document) for document in scenario["objects"]), profile=profile)
    results: list[dict[str, Any]] = []
    for text in scenario["schedule"]:
        namespace, name = text.split("/", 1)
        key = (namespace, name)
        if key not in world.placements:
            results.append({"placement": text, "numberOfSelectedClusters": 0})
            continue
        results.append(_answer(world, key, now=now))
    return results


def _answer(world: World, key: Key, *, now: Micros) -> dict[str, Any]:
    verdict = world.decide(key, now=now)
    outcome = verdict.outcome
    answer: dict[str, Any] = {"placement": "/".join(key)}
    disabled = world.workload(key).idle
    events: list[dict[str, str]] = []
    if not (disabled or verdict.frozen):
        plan = world.plan(key, verdict, now=now)
        world.write(plan, _recorded_steps(plan))
        events = _events(plan)
    status = world.placements[key].status
    if verdict.error is not None and not disabled:
        answer["error"] = verdict.error
    answer |= {
        "numberOfSelectedClusters": status.numberOfSelectedClusters,
        "selectedInRankOrder": None if disabled else outcome.selected,
        "conditions": _conditions(status),
        "decisionGroups": _groups(status),
        "decisions": _decisions(world, key),
    }
    if disabled or verdict.frozen:
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
    if events:
        answer["events"] = events
    return answer


def _recorded_steps(plan: ReconcilePlan) -> list[Step]:
    """Leave out what the reference does only in its next cycle: the labels of a page whose clusters it changed."""
    changed = {step.page for step in plan.steps if isinstance(step, Fill) and step.changed}
    created = {step.page.name for step in plan.steps if isinstance(step, Create)}
    return [
        step
        for step in plan.steps
        if not isinstance(step, Relabel) or step.page.name not in changed - created
    ]


def _events(plan: ReconcilePlan) -> list[dict[str, str]]:
    """In the order of the reference, which finishes one page after the other.

    The recorded hub stored the clusters of a page when it was created, so there was no update of a new page. Scores
    that changed without the clusters get an event from Fairway only.
    """
    created = {step.page.name for step in plan.steps if isinstance(step, Create)}
    by_page: dict[str, list[Event]] = {page.name: [] for page in plan.pages or ()}
    for step in plan.steps:
        page = step.page if isinstance(step.page, str) else step.page.name
        if not isinstance(step, Fill) or (step.changed and page not in created):
            by_page.setdefault(page, []).extend(events_of(step, plan))
    return [
        {
            "type": event.type,
            "reason": event.reason,
            "action": event.action,
            "message": event.message.rstrip(" "),
        }
        for events in by_page.values()
        for event in events
    ]


def _groups(status: PlacementStatus) -> list[dict[str, Any]]:
    return [
        {
            "decisionGroupIndex": group.decisionGroupIndex,
            "decisionGroupName": group.decisionGroupName,
            "decisions": list(group.decisions),
            "clusterCount": group.clusterCount,
        }
        for group in status.decisionGroups
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
    prioritizers = [
        {
            "name": scored.plugin,
            "weight": scored.weight,
            "scores": {
                names[row]: score
                for at, (row, score) in enumerate(zip(rows, scored.scores.tolist(), strict=True))
                if scored.present is None or scored.present[at]
            },
        }
        for scored in outcome.details.scored
    ]
    return sorted(prioritizers, key=lambda entry: (entry["name"], entry["weight"]))


def _conditions(status: PlacementStatus) -> list[dict[str, Any]]:
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        for condition in sorted(status.conditions, key=lambda condition: condition.type)
        if not condition.type.startswith(OWN_CONDITIONS)
    ]


def _decisions(world: World, key: Key) -> list[dict[str, Any]]:
    namespace, name = key
    return [
        {
            "name": decision.metadata.name,
            "labels": dict(decision.metadata.labels),
            "clusters": [item.clusterName for item in decision.status.decisions],
        }
        for _, decision in sorted(world.decisions(namespace).items())
        if decision.metadata.labels.get(PLACEMENT_LABEL) == name
    ]
