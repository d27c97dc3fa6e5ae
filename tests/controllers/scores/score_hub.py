"""A fake hub with scores and a provider that publishes them, and the score controller, in virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from clocks import START, LoopClock
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.api.score import AddOnPlacementScore
from fairway.controllers.runtime.leadership import ALONE
from fairway.controllers.scores import ScoreController, SilencePolicy
from fairway.observe.meters import Meters
from kubewire.api.meta import format_time
from kubewire.client import Recorder
from rigs.fake_hub import FakeHub, reported_condition

USAGE = "usage"


def now() -> float:
    return asyncio.get_running_loop().time()


def wall() -> datetime:
    return START + timedelta(seconds=now())


@dataclass
class Events:
    """Takes the place of a recorder."""

    hub: FakeHub
    recorded: list[tuple[str, str, str]] = field(default_factory=list)
    """(namespace, reason, message)"""

    def event(self, about: Any, *, reason: str, message: str, **_: Any) -> bool:
        self.recorded.append((about.metadata.namespace, reason, message))
        self.hub.notify()
        return True

    def reasons(self, cluster: str = "c") -> list[str]:
        return [reason for namespace, reason, _ in self.recorded if namespace == cluster]


class ScoreHub(FakeHub):
    def join(self, *names: str, available: str = "True") -> None:
        for name in names:
            status = {"conditions": [reported_condition(CONDITION_AVAILABLE, available)]}
            self.put(MANAGED_CLUSTERS, {"metadata": {"name": name}, "spec": {}, "status": status})

    def turn(self, available: str, *, name: str = "c") -> None:
        """Change the cluster's availability, from this moment on."""
        old = self.documents["managedclusters", "", name]
        condition = reported_condition(CONDITION_AVAILABLE, available, since=format_time(wall()))
        self.put(MANAGED_CLUSTERS, {**old, "status": {"conditions": [condition]}})

    def publish(
        self, cluster: str = "c", *, lasts: float | None = 180, resource: str = USAGE, **values: int
    ) -> None:
        """As a provider that applies its scores by force: other fields of the status stay."""
        key = ("addonplacementscores", cluster, resource)
        old = self.documents.get(key, {"metadata": {"name": resource}, "status": {}})
        scores = [{"name": name, "value": value} for name, value in (values or {"cpu": 10}).items()]
        status = {**old["status"], "scores": scores}
        status.pop("validUntil", None)
        if lasts is not None:
            status["validUntil"] = format_time(wall() + timedelta(seconds=lasts))
        self.put(ADD_ON_PLACEMENT_SCORES, {**old, "status": status}, namespace=cluster)

    def score(self, cluster: str = "c", *, resource: str = USAGE) -> AddOnPlacementScore | None:
        score = self.of(ADD_ON_PLACEMENT_SCORES).get(resource, namespace=cluster)
        return cast("AddOnPlacementScore | None", score)

    def values(self, cluster: str = "c") -> dict[str, int] | None:
        score = self.score(cluster)
        return None if score is None else {item.name: item.value for item in score.status.scores}


@asynccontextmanager
async def watching(
    hub: ScoreHub, policy: SilencePolicy, *, clock: LoopClock | None = None, meters: Meters | None = None
) -> AsyncIterator[Events]:
    events = Events(hub)
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
