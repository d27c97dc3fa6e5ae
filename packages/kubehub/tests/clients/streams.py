"""Watches in plain HTTP: one line after the other, as they come."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from clients.talk import Talk

DEADLINE = 120
"""Seconds after which what hasn't come is not awaited any longer."""

INITIAL = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
"""A watch that begins with all existing objects."""

Event = dict[str, Any]


class Stream:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.status = answer.status

    async def next(self) -> Event:
        async with asyncio.timeout(DEADLINE):
            line = await self._answer.content.readline()
        assert line, "the watch ended"
        event: Event = json.loads(line)
        return event

    async def take(self, count: int) -> list[Event]:
        return [await self.next() for _ in range(count)]

    async def rest(self) -> list[Event]:
        """Everything up to the end, which must come."""
        async with asyncio.timeout(DEADLINE):
            return [json.loads(line) async for line in self._answer.content]


@asynccontextmanager
async def watching(
    talk: Talk, path: str, *, accept: str = "application/json", **query: str
) -> AsyncIterator[Stream]:
    asked = "&".join(["watch=true", *(f"{key}={value}" for key, value in query.items())])
    async with talk.open(f"{path}?{asked}", accept=accept) as answer:
        try:
            yield Stream(answer)
        finally:
            await hang_up(answer)


async def hang_up(answer: aiohttp.ClientResponse) -> None:
    """Ends what is not read to its end at once: a farewell as TLS wants it would outlive the test."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
        await asyncio.sleep(0)


def version(document: dict[str, Any]) -> int:
    return int(document["metadata"]["resourceVersion"])


def brief(event: Event) -> tuple[str, str]:
    """Type and name: enough where another test compares the objects."""
    return event["type"], event["object"]["metadata"]["name"]


class Collection:
    """Objects of one resource in one namespace, written as a client would write them."""

    def __init__(self, talk: Talk, path: str, template: dict[str, Any]) -> None:
        self.talk, self.path = talk, path
        self._template = template

    async def create(self, name: str, **labels: str) -> dict[str, Any]:
        document = {**self._template, "metadata": {"name": name, "labels": labels}}
        return await self._call(201, "POST", self.path, body=document)

    async def label(self, name: str, **labels: str | None) -> dict[str, Any]:
        """Sets labels; None takes one away."""
        return await self.merge(name, {"metadata": {"labels": labels}})

    async def merge(self, name: str, patch: dict[str, Any]) -> dict[str, Any]:
        return await self._call(
            200, "PATCH", f"{self.path}/{name}", body=patch, type_="application/merge-patch+json"
        )

    async def get(self, name: str) -> dict[str, Any]:
        return await self._call(200, "GET", f"{self.path}/{name}")

    async def delete(self, name: str) -> dict[str, Any]:
        return await self._call(200, "DELETE", f"{self.path}/{name}")

    async def listing(self, query: str = "") -> dict[str, Any]:
        return await self._call(200, "GET", f"{self.path}?{query}")

    async def names(self, query: str = "") -> list[str]:
        return names(await self.listing(query))

    async def _call(self, wanted: int, method: str, path: str, **parts: Any) -> dict[str, Any]:
        code, answer = await self.talk.call(method, path, **parts)
        assert code == wanted, answer
        assert isinstance(answer, dict)
        return answer


def names(listing: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


async def until(talk: Talk, path: str, name: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """Return the first state of the object that meets the condition; it need not exist yet."""
    async with watching(talk, path, fieldSelector=f"metadata.name%3D{name}") as stream:
        while True:
            event = await stream.next()
            document: dict[str, Any] = event["object"]
            if event["type"] != "DELETED" and holds(document):
                return document


async def until_deleted(talk: Talk, path: str, name: str) -> None:
    query = {**INITIAL, "allowWatchBookmarks": "true", "fieldSelector": f"metadata.name%3D{name}"}
    there = False
    async with watching(talk, path, **query) as stream:
        while True:
            event = await stream.next()
            there = there or event["type"] in ("ADDED", "MODIFIED")
            if event["type"] == "DELETED" or (event["type"] == "BOOKMARK" and not there):
                return
