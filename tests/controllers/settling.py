"""Wait until controllers have observed a write, and until they have nothing left to do.

An empty queue does not suffice: every kind has its own watch, which may be about to deliver an event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from controllers.figures import writes
from fairway.controllers.manager import Manager
from fairway.controllers.runtime.informer_factory import InformerFactory
from kubewire.api.resource import T
from kubewire.client import Client, Informer, Resource

DEADLINE: Final = 120.0
"""Seconds after which a waiting test fails."""


async def observed(manager: Manager, resource: Resource[T], written: T) -> None:
    """Wait until the controllers have observed a write, if they watch its kind."""
    for informer in _looking(manager, resource):
        await _until(informer, lambda store: _has(store, [written]))


async def deletion_observed(manager: Manager, resource: Resource[T], deleted: T) -> None:
    """Wait until the controllers have observed that an object is deleted, being deleted, or recreated."""
    meta = deleted.metadata

    def going(informer: Informer[Any]) -> bool:
        there = informer.store.get((meta.namespace, meta.name))
        return there is None or there.metadata.uid != meta.uid or there.metadata.deletionTimestamp is not None

    for informer in _looking(manager, resource):
        await _until(informer, going)


async def settled(client: Client, manager: Manager) -> None:
    """Wait until the controllers have observed the whole hub and have nothing left to do.

    No other client may write meanwhile.
    """

    def doing() -> object:
        return writes(manager), any(controller.busy for controller in manager.controllers.values())

    await settle(client, manager.informers, quiet=manager.quiet, doing=doing)


async def settle(
    client: Client,
    informers: InformerFactory,
    *,
    quiet: Callable[[], Awaitable[None]],
    doing: Callable[[], object],
) -> None:
    """The same for controllers with these informers. ``doing`` changes whenever they do something."""
    async with asyncio.timeout(DEADLINE):
        while True:
            await quiet()
            before = doing()
            known = await asyncio.gather(*(caught_up(client, informer) for informer in informers.all))
            # Events that arrived meanwhile may be processed already, and have caused writes in turn.
            if all(known) and doing() == before:
                return


async def caught_up(client: Client, informer: Informer[Any]) -> bool:
    """Wait until an informer has the hub's current objects; return whether it had them already."""
    listed = await client.list(informer.resource, fields=informer.fields)
    there = {(item.metadata.namespace, item.metadata.name) for item in listed.items}

    def observed(informer: Informer[Any]) -> bool:
        old = informer.store.keys() - there - informer.unreadable.keys()
        return _has(informer, listed.items) and all(
            _version(informer.store[key]) > int(listed.resource_version) for key in old
        )

    if observed(informer):
        return True
    await _until(informer, observed)
    return False


def _has(informer: Informer[Any], objects: Sequence[Any]) -> bool:
    """Return whether an informer has these versions of objects, or newer ones.

    The response to a write of the controllers may be in the store before the watch delivers it. The watch then reports
    no change, so that a waiting test would not see its progress.
    """
    if int(informer.resource_version) >= max(map(_version, objects), default=0):
        return True
    stored = [informer.store.get((obj.metadata.namespace, obj.metadata.name)) for obj in objects]
    return all(
        there is not None and _version(there) >= _version(obj)
        for obj, there in zip(objects, stored, strict=True)
    )


def _looking(manager: Manager, resource: Resource[T]) -> list[Informer[Any]]:
    """The informers of a resource, without those with a field selector, which miss some writes."""
    return [
        informer
        for informer in manager.informers.all
        if informer.resource == resource and not informer.fields
    ]


async def _until(informer: Informer[Any], true: Callable[[Informer[Any]], bool]) -> None:
    async with asyncio.timeout(DEADLINE), aclosing(informer.changes()) as changes:
        async for _ in changes:
            if true(informer):
                return


def _version(thing: Any) -> int:
    return int(thing.metadata.resourceVersion)
