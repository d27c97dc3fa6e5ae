"""What a test sees of placements: their status, pages and events, in the words it made clusters by."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from msgspec import json

from controllers.settling import caught_up
from fairway.api.decision import PlacementDecision
from fairway.api.placement import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    PLACEMENT_LABEL,
    Placement,
    PlacementStatus,
)
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.workloads.placement.conditions import MISCONFIGURED, SATISFIED
from kubewire.api.event import Event
from kubewire.api.meta import Condition, find_condition
from kubewire.client import Batch, Client, Deleted, Informer
from kubewire.client.events import EVENTS

Versions = dict[tuple[str, str, str], str]
"""Resource versions by kind, namespace and name."""


class PlacementView:
    """``news`` is set on every change. ``namespace`` is the default namespace of lookups."""

    def __init__(self, client: Client, *, prefix: str, namespace: str) -> None:
        self.prefix, self.namespace = prefix, namespace
        self._client = client
        self.news = asyncio.Event()
        self.history: list[dict[str, tuple[str, ...]]] = []
        """Clusters by page, as they were after every single write of a decision in ``namespace``."""
        self._placements = Informer(client, PLACEMENTS)
        self._decisions = Informer(client, PLACEMENT_DECISIONS)
        self._events = Informer(client, EVENTS, namespace=namespace)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        self._decisions.subscribe(self._remember)
        async with self._placements, self._decisions, self._events:
            for informer in (self._placements, self._decisions, self._events):
                await informer.synced.wait()
                informer.subscribe(self._hear)
            yield

    def _hear(self, _batch: object) -> None:
        self.news.set()

    def _remember(self, batch: Batch[PlacementDecision]) -> None:
        for change in batch.changes:
            new = change.object
            if new.metadata.namespace != self.namespace:
                continue
            pages = dict(self.history[-1]) if self.history else {}
            pages.pop(new.metadata.name, None)
            if not isinstance(change, Deleted):
                pages[new.metadata.name] = self._short_names(new)
            self.history.append(pages)

    # Names

    def name(self, word: str) -> str:
        return f"{self.prefix}-{word}"

    def short(self, name: str) -> str:
        """What is not ours stays as it is."""
        return name.removeprefix(f"{self.prefix}-")

    def _short_names(self, decision: PlacementDecision) -> tuple[str, ...]:
        return tuple(self.short(selected.clusterName) for selected in decision.status.decisions)

    # Objects

    def placement(self, name: str, *, namespace: str = "") -> Placement | None:
        return self._placements.get(name, namespace=namespace or self.namespace)

    def status(self, name: str, *, namespace: str = "") -> PlacementStatus:
        """Empty if there is no such placement."""
        placement = self.placement(name, namespace=namespace)
        return PlacementStatus() if placement is None else placement.status

    def condition(self, name: str, kind: str = SATISFIED, *, namespace: str = "") -> tuple[str, str, str]:
        """Status, reason and message; all empty where it is not set."""
        condition = find_condition(self.status(name, namespace=namespace).conditions, kind) or Condition()
        return (condition.status, condition.reason, condition.message)

    def reason(self, name: str, *, namespace: str = "") -> str:
        """Why a placement is satisfied or not."""
        return self.condition(name, namespace=namespace)[1]

    def mistake(self, name: str) -> str:
        """What is wrong with a placement; empty when nothing is."""
        status, _, message = self.condition(name, MISCONFIGURED)
        return message if status == "True" else ""

    def all_decisions(self) -> Iterator[PlacementDecision]:
        yield from self._decisions.store.values()

    def decisions(self, name: str, *, namespace: str = "") -> list[PlacementDecision]:
        """By the number in their names."""
        decisions = (
            decision
            for (where, _), decision in self._decisions.store.items()
            if where == (namespace or self.namespace)
            and decision.metadata.labels.get(PLACEMENT_LABEL) == name
        )
        return sorted(decisions, key=lambda decision: (len(decision.metadata.name), decision.metadata.name))

    def decision(self, name: str) -> PlacementDecision | None:
        return self._decisions.get(name, namespace=self.namespace)

    def events(self, reason: str = "", *, about: str = "p") -> list[Event]:
        """In the order they happened."""
        events = (
            event
            for event in self._events.store.values()
            if event.regarding.name == about and reason in ("", event.reason)
        )
        return sorted(events, key=lambda event: (event.eventTime or "", int(event.metadata.resourceVersion)))

    def last_event(self, reason: str) -> Event:
        """The status; empty before the first write."""
        return next(reversed(self.events(reason)), Event())

    # What was decided

    def chosen(self, name: str, *, namespace: str = "") -> list[str]:
        """In the order of the pages."""
        decisions = self.decisions(name, namespace=namespace)
        return [word for decision in decisions for word in self._short_names(decision)]

    def pages(self, name: str) -> dict[str, tuple[str, ...]]:
        return {page.metadata.name: self._short_names(page) for page in self.decisions(name)}

    def groups(self, name: str) -> list[tuple[str, str, tuple[str, ...]]]:
        """Index, name and clusters of each page, by its labels."""
        return [
            (
                page.metadata.labels.get(GROUP_INDEX_LABEL, "?"),
                page.metadata.labels.get(GROUP_NAME_LABEL, "?"),
                self._short_names(page),
            )
            for page in self.decisions(name)
        ]

    def scores(self, name: str) -> dict[str, int | None]:
        """As they are recorded."""
        return {
            self.short(selected.clusterName): selected.score
            for decision in self.decisions(name)
            for selected in decision.status.decisions
        }

    def versions_of(self, things: Iterable[Placement | PlacementDecision]) -> Versions:
        """Of what is in a namespace of ours."""
        return {
            (thing.kind, thing.metadata.namespace, thing.metadata.name): thing.metadata.resourceVersion
            for thing in things
            if self._ours(thing)
        }

    async def catch_up(self) -> None:
        """Until all that is on the hub by now is seen here: a status may be seen before the pages it speaks of."""
        for informer in (self._placements, self._decisions):
            await caught_up(self._client, informer)

    def describe(self) -> str:
        placements = (placement for placement in self._placements.store.values() if self._ours(placement))
        decisions = (decision for decision in self._decisions.store.values() if self._ours(decision))
        return "\n".join(
            [
                *(
                    f"placement {placement.metadata.name}: {json.encode(placement.status).decode()}"
                    for placement in placements
                ),
                *(
                    f"decision {page.metadata.name} {page.metadata.labels}: {' '.join(self._short_names(page))}"
                    for page in decisions
                ),
                *(
                    f"event {event.type} {event.reason} about {event.regarding.name}: {event.note}"
                    for event in self._events.store.values()
                ),
            ]
        )

    def _ours(self, thing: Placement | PlacementDecision) -> bool:
        return thing.metadata.namespace.startswith(f"{self.prefix}-")
