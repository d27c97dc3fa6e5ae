"""Waiting for controllers: until they were told of a write, and until they have nothing left to do.

A queue that is empty tells less. Every kind has a watch of its own, and any of them may have news on its way.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Any, Final

from fairway.controllers.manager import Manager
from fairway.kube import Client, Informer, Resource
from fairway.kube.resource import T

DEADLINE: Final = 120.0
"""Seconds after which a test that waits in vain fails."""


async def told(manager: Manager, resource: Resource[T], written: T) -> None:
    """Until controllers know what was written, if they look at objects of that kind."""
    version = int(written.metadata.resourceVersion)
    for informer in _looking(manager, resource):
        await _until(informer, lambda each: int(each.resource_version) >= version)


async def told_of_deletion(
    manager: Manager, resource: Resource[T], name: str, *, namespace: str = ""
) -> None:
    """Until it is gone, or at least going: whoever holds a finalizer may still keep it."""

    def going(informer: Informer[Any]) -> bool:
        there = informer.store.get((namespace, name))
        return there is None or there.metadata.deletionTimestamp is not None

    for informer in _looking(manager, resource):
        await _until(informer, going)


async def settled(client: Client, manager: Manager) -> None:
    """Until controllers know all that is on the hub, and did what was to be done about it.

    Who asks sees to it that nobody else goes on writing what they look at.
    """
    async with asyncio.timeout(DEADLINE):
        while True:
            await manager.quiet()
            known = [await _caught_up(client, each) for each in manager.sources.informers]
            if all(known) and not any(each.queue.busy for each in manager.controllers.values()):
                return


async def _caught_up(client: Client, informer: Informer[Any]) -> bool:
    """Waits until an informer has all there is; whether it had already."""
    at_once = True
    async with aclosing(informer.changes()) as changes:
        async for _ in changes:
            listed = await client.list(informer.resource, fields=informer.fields, skip_unreadable=True)
            there, known = _versions(listed.items), _versions(informer.store.values())
            readable = (there.keys() | known.keys()) - informer.unreadable.keys()
            if all(there.get(key) == known.get(key) for key in readable):
                break
            at_once = False
    return at_once


def _looking(manager: Manager, resource: Resource[T]) -> list[Informer[Any]]:
    """Those with a field selector do not hear of every write."""
    return [each for each in manager.sources.informers if each.resource == resource and not each.fields]


async def _until(informer: Informer[Any], true: Callable[[Informer[Any]], bool]) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(informer.changes()) as changes:
        async for _ in changes:
            if true(informer):
                return


def _versions(objects: Iterable[Any]) -> dict[tuple[str, str], str]:
    return {(each.metadata.namespace, each.metadata.name): each.metadata.resourceVersion for each in objects}
