"""A controller at work on a hub, and ways to wait for what it does."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairway.api import crds
from fairway.controllers.leadership import ALONE
from fairway.controllers.reconciler import Reconciler
from fairway.controllers.sources import Sources
from fairway.kube import Client, Informer, KubeError, Patch, Resource
from fairway.kube.resource import T
from fairway.testing.hub import hub_in_thread
from fairway.testing.kubernetes import CONTROLLERS, Tools, background, real_hub
from fairway.testing.processes import POLL

DEADLINE = 60.0
"""Seconds after which a test that waits in vain fails, and says for what."""


@dataclass(frozen=True, kw_only=True)
class HubUnderTest:
    """``kind`` is only for naming; no assertion may depend on it."""

    kind: str
    kubeconfig: Path


@contextmanager
def hub_of(kind: str, *, folder: Path, tools: Callable[[], Tools]) -> Iterator[HubUnderTest]:
    """With OCM's kinds, and with somebody who collects garbage."""
    if kind == "embedded":
        with hub_in_thread(folder=folder) as embedded:
            yield HubUnderTest(kind=kind, kubeconfig=embedded.kubeconfig)
        return
    with background(real_hub(tools(), folder=folder, controllers=CONTROLLERS)) as real:
        asyncio.run(_define(real.kubeconfig))
        yield HubUnderTest(kind=kind, kubeconfig=real.kubeconfig)


async def _define(kubeconfig: Path) -> None:
    async with Client.from_kubeconfig(kubeconfig) as client:
        for definition in crds():
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await client.request("POST", path, body=definition)
        for definition in crds():
            spec = definition["spec"]
            for version in spec["versions"]:
                await _served(client, f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")


async def _served(client: Client, path: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                await client.request("GET", path)
            except KubeError:
                await asyncio.sleep(POLL)
            else:
                return


def fresh(word: str) -> str:
    """A name nobody else uses: a hub serves all tests of a session."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


@dataclass(frozen=True)
class Stage:
    """``sources`` are those the controller looks at."""

    controller: Reconciler
    sources: Sources

    async def caught_up(self, resource: Resource[T], written: T) -> None:
        """Until the controller has seen what was written, and has nothing left to do."""
        informer = self.sources.of(resource)
        async with asyncio.timeout(DEADLINE), aclosing(informer.changes()) as changes:
            async for _ in changes:
                if int(informer.resource_version) >= int(written.metadata.resourceVersion):
                    break
            await self.controller.quiet()


@asynccontextmanager
async def at_work(client: Client, controller: Reconciler) -> AsyncIterator[Stage]:
    """As the only one there is. It ends between two keys: a request that is cut off leaves a TLS farewell behind,
    which the loop of a test does not live to see."""
    sources = Sources(client)
    controller.watch(sources)
    async with sources:
        await sources.synced()
        work = asyncio.create_task(controller.run(ALONE))
        try:
            yield Stage(controller, sources)
            async with asyncio.timeout(DEADLINE):
                await controller.quiet()
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


async def until(
    client: Client,
    resource: Resource[T],
    name: str,
    wanted: Callable[[T], bool],
    *,
    namespace: str | None = None,
) -> T:
    """The object, as soon as it is as it should be."""
    fields = f"metadata.name={name}"
    last: T | None = None
    try:
        async with (
            asyncio.timeout(DEADLINE),
            Informer(client, resource, namespace=namespace, fields=fields) as one,
            aclosing(one.changes()) as changes,
        ):
            async for _ in changes:
                last = one.get(name, namespace=namespace or "")
                if last is not None and wanted(last):
                    return last
    except TimeoutError:
        pytest.fail(f"{resource.kind} {name} is not as it should be: {last}")
    raise AssertionError


async def gone(client: Client, resource: Resource[T], name: str, *, namespace: str | None = None) -> None:
    """Until there is no such object."""
    async with (
        asyncio.timeout(DEADLINE),
        Informer(client, resource, namespace=namespace, fields=f"metadata.name={name}") as one,
        aclosing(one.changes()) as changes,
    ):
        async for _ in changes:
            if one.get(name, namespace=namespace or "") is None:
                return


async def edit(
    client: Client,
    resource: Resource[T],
    name: str,
    body: Mapping[str, Any],
    *,
    namespace: str | None = None,
    subresource: str | None = None,
) -> T:
    """As somebody with kubectl does it, who asks nobody."""
    return await client.patch(
        resource,
        name,
        body,
        kind=Patch.MERGE,
        namespace=namespace,
        subresource=subresource,
        field_manager="stranger",
    )
