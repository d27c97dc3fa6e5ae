"""A controller on a hub, with exactly the rights in its ``rbac``, and functions that wait for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import msgspec
import pytest

from controllers.hubs import HubUnderTest
from controllers.settling import DEADLINE, settle
from fairway.api.resources import MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.controllers.runtime.reconciler import Reconciler
from kubewire.api.resource import T
from kubewire.client import Client, Connection, Forbidden, NotFound, Resource
from kubewire.client.rbac import Rule
from rights import grant
from rigs.cleanup import delete_all
from rigs.processes import POLL
from rigs.waiting import edit, fresh

R = TypeVar("R")

MARK: Final = {"fairway.dev/running": "here"}
"""Label of cluster-scoped objects that a test created."""


@pytest.fixture(name="client")
async def cleared_client(client: Client) -> AsyncIterator[Client]:
    """The client, and the deletion of the marked objects after the test; other tests use the same hub."""
    yield client
    await clear(client)


async def clear(client: Client) -> None:
    labels = ",".join(f"{key}={value}" for key, value in MARK.items())
    for cluster in (await client.list(MANAGED_CLUSTERS, labels=labels)).items:
        if cluster.metadata.finalizers:  # no controller may run that would remove them
            with suppress(NotFound):
                await edit(
                    client, MANAGED_CLUSTERS, cluster.metadata.name, {"metadata": {"finalizers": None}}
                )
    resources: tuple[Resource[Any], ...] = (MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS)
    for resource in resources:
        await delete_all(client, resource, labels=labels)


@dataclass(frozen=True)
class RunningController:
    """A controller at work on a hub, and its informers."""

    controller: Reconciler[Any]
    informers: InformerFactory

    async def observed(self, resource: Resource[T], written: T, *, fields: str = "") -> None:
        """Wait until the controller has observed a write and emptied its queue."""
        informer = self.informers.of(resource, fields=fields)
        async with asyncio.timeout(DEADLINE), aclosing(informer.changes()) as changes:
            async for _ in changes:
                if int(informer.resource_version) >= int(written.metadata.resourceVersion):
                    break
            await self.controller.quiet()

    async def caught_up(self, resource: Resource[T], written: T, *, fields: str = "") -> None:
        """Wait until the controller has observed a write and everything else, and has nothing left to do."""
        await self.observed(resource, written, fields=fields)
        await self.settled()

    async def settled(self) -> None:
        """Wait until the controller has observed the whole hub and has nothing left to do."""
        queue = self.controller.queue
        await settle(
            self.controller.client,
            self.informers,
            quiet=self.controller.quiet,
            doing=lambda: queue.stats().adds,
        )


@asynccontextmanager
async def at_work(
    hub: HubUnderTest, make: Callable[[Client], Reconciler[Any]], *, rules: Iterable[Rule]
) -> AsyncIterator[RunningController]:
    """Run one controller with exactly these rights. It stops between two keys, because the TLS shutdown of an
    interrupted request would outlive the test's event loop."""
    async with Client(hub.administrator) as administrator:
        connection = await limited(administrator, hub.administrator, rules)
    async with Client(connection) as client:
        controller = make(client)
        informers = InformerFactory(client)
        controller.watch(informers)
        async with informers:
            await informers.synced()
            work = asyncio.create_task(controller.run(ALONE))
            try:
                yield RunningController(controller, informers)
                async with asyncio.timeout(DEADLINE):
                    await controller.quiet()
            finally:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work


async def limited(administrator: Client, connection: Connection, rules: Iterable[Rule]) -> Connection:
    """The connection of a user with exactly these rights."""
    needed = tuple(rules)
    granted = await grant(administrator, fresh("suite"), needed)
    made = replace(connection, impersonation=granted.impersonation)
    first = needed[0]
    asked = {"group": first.groups[0], "resource": first.resources[0], "verb": first.verbs[0]}
    review = {"spec": {"resourceAttributes": asked}}
    async with Client(made) as client, asyncio.timeout(DEADLINE):
        while True:  # a real hub observes new roles through a watch
            answer = await client.request(
                "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review
            )
            if msgspec.json.decode(answer.body)["status"].get("allowed"):
                return made
            await asyncio.sleep(POLL)


async def once_allowed(attempt: Callable[[], Awaitable[R]]) -> R:
    """Repeat an attempt until new rights are in force; return its result."""
    async with asyncio.timeout(DEADLINE):
        while True:  # a real hub observes new roles and bindings through a watch
            try:
                return await attempt()
            except Forbidden:
                await asyncio.sleep(POLL)
