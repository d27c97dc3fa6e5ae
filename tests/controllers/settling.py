"""Waiting for controllers: until they were told of a write, and until they have nothing left to do.

A queue that is empty tells less. Every kind has a watch of its own, and any of them may have news on its way.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from controllers.figures import writes
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.manager import Manager
from fairway.kube import Client, Informer, Resource
from fairway.kube.resource import T

DEADLINE: Final = 120.0
"""Seconds after which a test that waits in vain fails."""


async def told(manager: Manager, resource: Resource[T], written: T) -> None:
    """Until controllers know what was written, if they look at objects of that kind."""
    version = _version(written)
    for informer in _looking(manager, resource):
        await _until(informer, lambda each: int(each.resource_version) >= version)


async def told_of_deletion(manager: Manager, resource: Resource[T], deleted: T) -> None:
    """Until it is gone, or at least going: whoever holds a finalizer may still keep it.

    Who looks after it may have made another one of the same name by now.
    """
    meta = deleted.metadata

    def going(informer: Informer[Any]) -> bool:
        there = informer.store.get((meta.namespace, meta.name))
        return there is None or there.metadata.uid != meta.uid or there.metadata.deletionTimestamp is not None

    for informer in _looking(manager, resource):
        await _until(informer, going)


async def settled(client: Client, manager: Manager) -> None:
    """Until controllers know all that is on the hub, and did what was to be done about it.

    Who asks sees to it that nobody else goes on writing what they look at.
    """

    def doing() -> object:
        return writes(manager), any(each.queue.busy for each in manager.controllers.values())

    await settle(client, manager.informers, quiet=manager.quiet, doing=doing)


async def settle(
    client: Client,
    informers: InformerFactory,
    *,
    quiet: Callable[[], Awaitable[None]],
    doing: Callable[[], object],
) -> None:
    """The same for whoever looks by ``informers``. What they are ``doing`` is another thing once they did something."""
    async with asyncio.timeout(DEADLINE):
        while True:
            await quiet()
            before = doing()
            known = await asyncio.gather(*(caught_up(client, each) for each in informers.all))
            # What came in meanwhile may be dealt with already, and what was written about that is news in turn.
            if all(known) and doing() == before:
                return


async def caught_up(client: Client, informer: Informer[Any]) -> bool:
    """Waits until an informer has all that was on the hub when asked; whether it had already."""
    listed = await client.list(informer.resource, fields=informer.fields)
    there = {(each.metadata.namespace, each.metadata.name) for each in listed.items}
    newest = max((_version(each) for each in listed.items), default=0)

    def told(informer: Informer[Any]) -> bool:
        old = informer.store.keys() - there - informer.unreadable.keys()
        return int(informer.resource_version) >= newest and all(
            _version(informer.store[key]) > int(listed.resource_version) for key in old
        )

    if told(informer):
        return True
    await _until(informer, told)
    return False


def _looking(manager: Manager, resource: Resource[T]) -> list[Informer[Any]]:
    """Those with a field selector do not hear of every write."""
    return [each for each in manager.informers.all if each.resource == resource and not each.fields]


async def _until(informer: Informer[Any], true: Callable[[Informer[Any]], bool]) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(informer.changes()) as changes:
        async for _ in changes:
            if true(informer):
                return


def _version(thing: Any) -> int:
    return int(thing.metadata.resourceVersion)
