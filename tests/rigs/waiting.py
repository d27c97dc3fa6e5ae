"""Waits for objects on a hub that tests share, and changes them."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import pytest

from kubewire.api.resource import T
from kubewire.client import Client, Informer, Patch, Resource

DEADLINE: Final = 120.0


def fresh(word: str = "c") -> str:
    """A unique name, because a hub serves all tests of a session."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


async def until(
    client: Client,
    resource: Resource[T],
    name: str,
    wanted: Callable[[T], bool],
    *,
    namespace: str | None = None,
) -> T:
    """Wait until an object is as wanted, and return it."""
    last: T | None = None
    try:
        async with asyncio.timeout(DEADLINE), aclosing(_states(client, resource, name, namespace)) as states:
            async for last in states:
                if last is not None and wanted(last):
                    return last
    except TimeoutError:
        pytest.fail(f"{resource.kind} {name} did not become as expected: {last}")
    raise AssertionError


async def until_deleted(
    client: Client, resource: Resource[T], name: str, *, namespace: str | None = None
) -> None:
    """Wait until an object is deleted."""
    async with asyncio.timeout(DEADLINE), aclosing(_states(client, resource, name, namespace)) as states:
        async for state in states:
            if state is None:
                return


async def _states(
    client: Client, resource: Resource[T], name: str, namespace: str | None
) -> AsyncGenerator[T | None, None]:
    async with (
        Informer(client, resource, namespace=namespace, fields=f"metadata.name={name}") as one,
        aclosing(one.changes()) as changes,
    ):
        async for _ in changes:
            yield one.get(name, namespace=namespace or "")


async def edit(
    client: Client,
    resource: Resource[T],
    name: str,
    body: Mapping[str, Any],
    *,
    namespace: str | None = None,
    subresource: str | None = None,
) -> T:
    """A merge patch without preconditions, as by kubectl."""
    return await client.patch(
        resource, name, body, kind=Patch.MERGE, namespace=namespace, subresource=subresource
    )
