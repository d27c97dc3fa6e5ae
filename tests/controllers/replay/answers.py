"""What there is to say about one step of a scenario, by the hub and by ``fairway conformance``, in the same form.

Both carry out the same plan, the hub step by step. All pages are created before the first is filled, and they are
filled in an order in which no cluster is missing in between, so events are compared page by page.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from fairway.api.kinds import decode
from fairway.api.placement import PLACEMENT_LABEL
from fairway.hosts.instant import Micros, to_micros
from fairway.whatif.world import Key, World
from fairway.workloads.placement.events import events_of
from fairway.workloads.placement.reconcile_plan import ReconcilePlan
from fairway.workloads.placement.unscored import NOT_PUBLISHED
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.event import Event

Answer = dict[str, Any]
"""``numberOfSelectedClusters``, ``conditions``, ``decisionGroups``, ``decisions``; ``events`` and ``records`` by page.

Records are score and reason of each cluster on a page; None where they may be of an earlier cycle.
"""

TICK: Final = 1000
"""Microseconds by which a timer may be late."""

NOTHING: Final[Answer] = {
    "numberOfSelectedClusters": 0,
    "conditions": [],
    "decisionGroups": [],
    "decisions": [],
    "events": {},
    "records": {},
}
"""Of a placement that is not there."""


def keys(schedule: Iterable[str]) -> Iterator[Key]:
    for step in schedule:
        namespace, _, name = step.partition("/")
        yield (namespace, name)


# By fairway conformance


def computed(
    objects: Iterable[Mapping[str, Any]], *, schedule: Iterable[str], now: datetime
) -> Iterator[tuple[Answer, Micros | None]]:
    """With when to look again at the latest, if the answer is another one then."""
    world = World(decode(obj) for obj in objects)
    looked: set[Key] = set()
    for key in keys(schedule):
        if key not in world.placements:
            yield NOTHING, None
            continue
        verdict = world.decide(key, now=to_micros(now))
        idle = world.workload(key).idle
        events: dict[str, list[Answer]] = {}
        if not idle:
            plan = world.plan(key, verdict, now=to_micros(now))
            world.write(plan, plan.steps)
            events = _events(plan)
        status = world.placements[key].status
        answer = {
            "numberOfSelectedClusters": status.numberOfSelectedClusters,
            "conditions": _conditions(
                {
                    "type": condition.type,
                    "status": condition.status,
                    "reason": condition.reason,
                    "message": condition.message,
                }
                for condition in status.conditions
            ),
            "decisionGroups": [
                {
                    "decisionGroupIndex": group.decisionGroupIndex,
                    "decisionGroupName": group.decisionGroupName,
                    "decisions": list(group.decisions),
                    "clusterCount": group.clusterCount,
                }
                for group in status.decisionGroups
            ],
            "decisions": [
                {
                    "name": page.metadata.name,
                    "labels": dict(page.metadata.labels),
                    "clusters": [decision.clusterName for decision in page.status.decisions],
                }
                for _, page in sorted(world.decisions(key[0]).items())
                if page.metadata.labels.get(PLACEMENT_LABEL) == key[1]
            ],
            "events": events,
            "records": None
            if idle or verdict.frozen or key in looked
            else {page.name: msgspec.to_builtins(page.decisions) for page in verdict.pages},
        }
        looked.add(key)
        yield answer, None if idle or verdict.frozen else _due(world, key, verdict, now=to_micros(now))


def _due(world: World, key: Key, verdict: Verdict, *, now: Micros) -> Micros | None:
    """The recording also rechecks clusters that are filtered for another reason, which is not required."""
    wake = verdict.outcome.wake
    if wake is None:
        return None
    today, then = (world.decide(key, now=moment) for moment in (now, wake + TICK))
    return wake if (today.pages, today.conditions) != (then.pages, then.conditions) else None


def _events(plan: ReconcilePlan) -> dict[str, list[Answer]]:
    by_page: dict[str, list[Answer]] = {}
    for step in plan.steps:
        page = step.page if isinstance(step.page, str) else step.page.name
        for event in events_of(step, plan):
            by_page.setdefault(page, []).append(
                {
                    "type": event.type,
                    "reason": event.reason,
                    "action": event.action,
                    "message": event.message.rstrip(" "),
                }
            )
    return by_page


def _conditions(conditions: Iterable[Answer]) -> list[Answer]:
    return sorted(conditions, key=lambda condition: str(condition["type"]))


# By the hub


def observed(
    key: Key,
    *,
    placements: Iterable[Mapping[str, Any]],
    decisions: Iterable[Mapping[str, Any]],
    events: Iterable[Event],
) -> Answer:
    statuses = {_key(placement): placement.get("status", {}) for placement in placements}
    status = statuses.get(key)
    if status is None:
        return {**NOTHING, "events": _answers_of(events, key)}
    own = [
        decision
        for decision in sorted(decisions, key=_key)
        if decision["metadata"]["namespace"] == key[0]
        and decision["metadata"].get("labels", {}).get(PLACEMENT_LABEL) == key[1]
    ]
    return {
        "numberOfSelectedClusters": status.get("numberOfSelectedClusters", 0),
        "conditions": _conditions(
            {name: condition[name] for name in ("type", "status", "reason", "message")}
            for condition in status.get("conditions", ())
        ),
        "decisionGroups": [
            {
                "decisionGroupIndex": group["decisionGroupIndex"],
                "decisionGroupName": group.get("decisionGroupName", ""),
                "decisions": group.get("decisions", []),
                "clusterCount": group.get("clusterCount", 0),
            }
            for group in status.get("decisionGroups", ())
        ],
        "decisions": [
            {
                "name": decision["metadata"]["name"],
                "labels": decision["metadata"]["labels"],
                "clusters": [one["clusterName"] for one in decision.get("status", {}).get("decisions", ())],
            }
            for decision in own
        ],
        "events": _answers_of(events, key),
        "records": {
            decision["metadata"]["name"]: list(decision.get("status", {}).get("decisions", ()))
            for decision in own
        },
    }


def _answers_of(events: Iterable[Event], key: Key) -> dict[str, list[Answer]]:
    by_page: dict[str, list[Answer]] = {}
    for event in events:
        assert (event.regarding.namespace, event.regarding.name) == key
        if event.reason == NOT_PUBLISHED:
            continue  # OCM has no event about missing scores
        assert event.related is not None
        by_page.setdefault(event.related.name, []).append(
            {
                "type": event.type,
                "reason": event.reason,
                "action": event.action,
                "message": event.note.rstrip(" "),
            }
        )
    return by_page


def _key(document: Mapping[str, Any]) -> Key:
    return (document["metadata"]["namespace"], document["metadata"]["name"])
