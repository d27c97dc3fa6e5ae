"""A hub without a wire, with scores on it and somebody who publishes them, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from clocks import START, LoopClock
from controllers.availability.still import StillHub
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.meta import format_time
from fairway.api.score import AddOnPlacementScore
from fairway.controllers.leadership import ALONE
from fairway.controllers.scores import ScoreController, SilencePolicy
from fairway.hub.patches import jsonpatch, mergepatch
from fairway.kube import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTERS,
    Conflict,
    NotFound,
    Patch,
    Recorder,
    Resource,
)
from fairway.observe.meters import Meters

USAGE = "usage"


def now() -> float:
    return asyncio.get_running_loop().time()


def wall() -> datetime:
    return START + timedelta(seconds=now())


@dataclass
class Events:
    """In the place of a recorder: who heard what."""

    told: list[tuple[str, str, str]] = field(default_factory=list)
    """(namespace, reason, message)"""

    def event(self, about: Any, *, reason: str, message: str, **_: Any) -> bool:
        self.told.append((about.metadata.namespace, reason, message))
        return True

    def reasons(self, cluster: str = "c") -> list[str]:
        return [reason for namespace, reason, _ in self.told if namespace == cluster]


class QuietHub(StillHub):
    """``refuse`` may raise instead of a write."""

    def of(self, resource: Resource[Any], *, fields: str = "") -> Any:
        assert fields == ""
        return self.shelves[resource.plural]

    async def patch(
        self,
        resource: Resource[Any],
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        kind: Patch,
        subresource: str | None,
        namespace: str | None = None,
        **_: Any,
    ) -> Any:
        self.writes.append(("patch", "/".join(filter(None, (namespace, name, subresource)))))
        self.refuse(body)
        old = self._found(resource, name, namespace)
        new = (mergepatch if kind is Patch.MERGE else jsonpatch).apply(old, body)
        self._same(old, new["metadata"])
        kept = "status" if subresource == "status" else "metadata"
        self.put(resource, {**old, kept: new[kept]}, namespace=namespace or "")
        return self.read(resource, namespace or "", name)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        *,
        namespace: str | None,
        uid: str,
        resource_version: str,
    ) -> None:
        self.writes.append(("delete", f"{namespace}/{name}"))
        old = self._found(resource, name, namespace)
        self._same(old, {"uid": uid, "resourceVersion": resource_version})
        self.drop(resource, name, namespace=namespace or "")

    def _found(self, resource: Resource[Any], name: str, namespace: str | None) -> dict[str, Any]:
        old = self.documents.get((resource.plural, namespace or "", name))
        if old is None:
            raise NotFound(f"{namespace}/{name} is not there")
        return old

    @staticmethod
    def _same(old: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        for each in ("uid", "resourceVersion"):
            if given[each] != old["metadata"][each]:
                raise Conflict("changed meanwhile")

    # What tests do

    def join(self, *names: str, available: str = "True") -> None:
        for name in names:
            self.cluster(name)
            self.say(CONDITION_AVAILABLE, available, name=name)

    def turn(self, available: str, *, name: str = "c") -> None:
        """The cluster's availability, from this moment on."""
        old = self.documents["managedclusters", "", name]
        condition = {
            "type": CONDITION_AVAILABLE,
            "status": available,
            "reason": "Said",
            "message": "",
            "lastTransitionTime": format_time(wall()),
        }
        self.put(MANAGED_CLUSTERS, {**old, "status": {"conditions": [condition]}})

    def publish(
        self, cluster: str = "c", *, lasts: float | None = 180, resource: str = USAGE, **values: int
    ) -> None:
        """As a provider does that applies its scores by force: what others have in the status stays."""
        key = ("addonplacementscores", cluster, resource)
        old = self.documents.get(key, {"metadata": {"name": resource}, "status": {}})
        scores = [{"name": name, "value": value} for name, value in (values or {"cpu": 10}).items()]
        status = {**old["status"], "scores": scores}
        status.pop("validUntil", None)
        if lasts is not None:
            status["validUntil"] = format_time(wall() + timedelta(seconds=lasts))
        self.put(ADD_ON_PLACEMENT_SCORES, {**old, "status": status}, namespace=cluster)

    def score(self, cluster: str = "c", *, resource: str = USAGE) -> AddOnPlacementScore | None:
        found = self.shelves["addonplacementscores"].get(resource, namespace=cluster)
        return cast("AddOnPlacementScore | None", found)

    def values(self, cluster: str = "c") -> dict[str, int] | None:
        found = self.score(cluster)
        return None if found is None else {each.name: each.value for each in found.status.scores}


@asynccontextmanager
async def watching(
    hub: QuietHub, policy: SilencePolicy, *, clock: LoopClock | None = None, meters: Meters | None = None
) -> AsyncIterator[Events]:
    events = Events()
    controller = ScoreController(
        hub.client,
        meters=meters or Meters(),
        recorder=cast("Recorder", events),
        policy=policy,
        clock=clock or LoopClock(),
    )
    controller.watch(hub.informers)
    work = asyncio.create_task(controller.run(ALONE))
    try:
        yield events
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
