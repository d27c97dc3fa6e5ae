"""The placement controller, driven one reconcile at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from controllers.clocks import Stopped
from fairway.api.placement import Placement
from fairway.controllers.controller_factory import REPORTER
from fairway.controllers.manager import FIELD_MANAGER
from fairway.controllers.placement import PlacementController
from fairway.controllers.placement.queue import Owner, PlacementQueue
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.engine.dependencies import Dependencies, Event
from fairway.observe.meters import Meters
from kubewire.client import Client, Clock, Connection, HubEvents, Recorder, Resource
from kubewire.client.correlator import Limits
from kubewire.client.events import Api

PATIENCE: Final = 120.0
"""Seconds for one look, or for news to arrive."""
NEVER_TOO_MUCH: Final = Limits(similar=1000, burst=1000)
"""Records every event without rate limits."""


class Fed(PlacementQueue):
    """Only the test wakes placements. How long the controller would have waited is remembered."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.delays: list[float] = []
        self.failed: list[Owner] = []

    def put(self, placement: Placement) -> None: ...

    def wake(self, owners: Iterable[Owner], *, trigger: str) -> None: ...

    def change(self, event: Event, *, is_unaffected: Callable[[Owner], bool] | None = None) -> None: ...

    def settle(self, owner: Owner, dependencies: Dependencies, *, after: float | None) -> None:
        self.delays += [] if after is None else [after]
        super().settle(owner, dependencies, after=None)

    def fail(self, owner: Owner, error: str) -> None:
        self.failed.append(owner)
        super().settle(owner, Dependencies(), after=None)

    def put_and_wake(self, placement: Placement) -> None:
        super().put(placement)
        super().wake([(placement.metadata.namespace, placement.metadata.name)], trigger="the test")


class Live:
    def __init__(
        self,
        controller: PlacementController,
        *,
        queue: Fed,
        informers: InformerFactory,
        recorder: Recorder,
        clock: Stopped,
    ) -> None:
        self._controller, self._queue, self._informers = controller, queue, informers
        self._recorder, self._clock = recorder, clock

    async def knows(self, resource: Resource[Any], documents: Iterable[dict[str, Any]]) -> None:
        """Until it has seen exactly these objects of a kind."""
        informer = self._informers.of(resource)
        wanted = {_key(document): document["metadata"]["resourceVersion"] for document in documents}
        news = asyncio.Event()
        end = informer.subscribe(lambda _: news.set())
        try:
            async with asyncio.timeout(PATIENCE):
                while {key: obj.metadata.resourceVersion for key, obj in informer.store.items()} != wanted:
                    news.clear()
                    await news.wait()
        finally:
            end()

    async def decide(self, key: Owner, *, now: datetime) -> list[float]:
        """Decide the placement once. Return the seconds after which it is to be decided again."""
        self._clock.now = now
        self._queue.delays.clear()
        placement = self._controller.find(*key)
        assert placement is not None
        self._queue.put_and_wake(placement)
        async with asyncio.timeout(PATIENCE):
            await self._controller.quiet()
            await self._recorder.flush()
        assert not self._queue.failed
        return list(self._queue.delays)


def _key(document: dict[str, Any]) -> Owner:
    metadata = document["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


@asynccontextmanager
async def live(connection: Connection) -> AsyncIterator[Live]:
    clock, meters = Stopped(), Meters()
    queue = Fed(clock)
    async with (
        Client(connection, field_manager=FIELD_MANAGER) as client,
        Recorder(
            HubEvents(client), component=REPORTER, api=Api.EVENTS, limits=NEVER_TOO_MUCH, clock=clock
        ) as recorder,
    ):
        informers = InformerFactory(client)
        controller = PlacementController(client, meters=meters, recorder=recorder, clock=clock)
        controller.queue = controller.state._queue = controller.scheduler._queue = queue
        controller.watch(informers)
        async with informers:
            await informers.synced()
            task = asyncio.create_task(controller.run(ALONE))
            try:
                yield Live(controller, queue=queue, informers=informers, recorder=recorder, clock=clock)
            finally:
                task.cancel()
                await asyncio.wait({task})
