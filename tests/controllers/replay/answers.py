"""What there is to say about one step of a scenario, by the hub and by ``fairway conformance``, in the same form.

Both carry out the same plan, the hub step by step. All pages are created before the first is filled, and they are
filled in an order in which no cluster is missing in between, so events are compared page by page.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from fairway.api.event import Event
from fairway.api.kinds import decode
from fairway.api.placement import PLACEMENT_LABEL
from fairway.fleet.instant import Micros, to_micros
from fairway.placement.events import events_of
from fairway.placement.reconcile_plan import ReconcilePlan
from fairway.placement.verdict import Verdict
from fairway.whatif.world import Key, World

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
    world = World(decode(each) for each in objects)
    looked: set[Key] = set()
    for key in keys(schedule):
        if key not in world.placements:
            yield NOTHING, None
            continue
        found = world.look(key, now=to_micros(now))
        idle = world.workload(key).idle
        events: dict[str, list[Answer]] = {}
        if not idle:
            plan = world.plan(key, found, now=to_micros(now))
            world.write(plan, plan.steps)
            events = _events(plan)
        status = world.placements[key].status
        answer = {
            "numberOfSelectedClusters": status.numberOfSelectedClusters,
            "conditions": _conditions(
                {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
                for each in status.conditions
            ),
            "decisionGroups": [
                {
                    "decisionGroupIndex": each.decisionGroupIndex,
                    "decisionGroupName": each.decisionGroupName,
                    "decisions": list(each.decisions),
                    "clusterCount": each.clusterCount,
                }
                for each in status.decisionGroups
            ],
            "decisions": [
                {
                    "name": each.metadata.name,
                    "labels": dict(each.metadata.labels),
                    "clusters": [decision.clusterName for decision in each.status.decisions],
                }
                for _, each in sorted(world.decisions(key[0]).items())
                if each.metadata.labels.get(PLACEMENT_LABEL) == key[1]
            ],
            "events": events,
            "records": None
            if idle or found.frozen or key in looked
            else {page.name: msgspec.to_builtins(page.decisions) for page in found.pages},
        }
        looked.add(key)
        yield answer, None if idle or found.frozen else _due(world, key, found, now=to_micros(now))


def _due(world: World, key: Key, found: Verdict, *, now: Micros) -> Micros | None:
    """The recording also rechecks clusters that are filtered for another reason, which is not required."""
    wake = found.outcome.wake
    if wake is None:
        return None
    today, then = (world.look(key, now=each) for each in (now, wake + TICK))
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


def _conditions(found: Iterable[Answer]) -> list[Answer]:
    return sorted(found, key=lambda each: str(each["type"]))


# By the hub


def observed(
    key: Key,
    *,
    placements: Iterable[Mapping[str, Any]],
    decisions: Iterable[Mapping[str, Any]],
    events: Iterable[Event],
) -> Answer:
    statuses = {_key(each): each.get("status", {}) for each in placements}
    status = statuses.get(key)
    if status is None:
        return {**NOTHING, "events": _answers_of(events, key)}
    own = [
        each
        for each in sorted(decisions, key=_key)
        if each["metadata"]["namespace"] == key[0]
        and each["metadata"].get("labels", {}).get(PLACEMENT_LABEL) == key[1]
    ]
    return {
        "numberOfSelectedClusters": status.get("numberOfSelectedClusters", 0),
        "conditions": _conditions(
            {name: each[name] for name in ("type", "status", "reason", "message")}
            for each in status.get("conditions", ())
        ),
        "decisionGroups": [
            {
                "decisionGroupIndex": each["decisionGroupIndex"],
                "decisionGroupName": each.get("decisionGroupName", ""),
                "decisions": each.get("decisions", []),
                "clusterCount": each.get("clusterCount", 0),
            }
            for each in status.get("decisionGroups", ())
        ],
        "decisions": [
            {
                "name": each["metadata"]["name"],
                "labels": each["metadata"]["labels"],
                "clusters": [one["clusterName"] for one in each.get("status", {}).get("decisions", ())],
            }
            for each in own
        ],
        "events": _answers_of(events, key),
        "records": {
            each["metadata"]["name"]: list(each.get("status", {}).get("decisions", ())) for each in own
        },
    }


def _answers_of(events: Iterable[Event], key: Key) -> dict[str, list[Answer]]:
    by_page: dict[str, list[Answer]] = {}
    for each in events:
        assert (each.regarding.namespace, each.regarding.name) == key
        assert each.related is not None
        by_page.setdefault(each.related.name, []).append(
            {
                "type": each.type,
                "reason": each.reason,
                "action": each.action,
                "message": each.note.rstrip(" "),
            }
        )
    return by_page


def _key(document: Mapping[str, Any]) -> Key:
    return (document["metadata"]["namespace"], document["metadata"]["name"])
