"""A process that writes through a store from several tasks until it is killed, and reports to stdout.

One JSON line each: ``["open", revision]``, ``["try", token]`` before a write, ``["done", token, revision]`` once it
is acknowledged, ``["saw", token, revision]`` when a watch delivers it.
"""

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import Any

import msgspec

from kubehub.storage import group_commit
from kubehub.storage.store import Store

RESOURCES = ("configmaps", "things.example.com")
NAMESPACES = ("a", "b")


def say(*line: Any) -> None:
    os.write(1, msgspec.json.encode(line) + b"\n")


async def write(store: Store, *, writer: int, run: str, chance: random.Random) -> None:
    count = 0
    while True:
        count += 1
        key = (chance.choice(RESOURCES), chance.choice(NAMESPACES), f"n{chance.randrange(8)}")
        token = f"{run}-{writer}-{count}"
        head = store.head(key)
        expect = head.revision if head else 0
        document = {
            "metadata": {"namespace": key[1], "name": key[2]},
            "token": token,
            "padding": "x" * chance.choice((0, 50, 3_000, 20_000)),
        }
        say("try", token)
        if head and chance.random() < 0.3:
            item = await store.delete(key, document, expect=expect)
        else:
            item = await store.put(key, document, expect=expect)
        say("done", token, item.revision)


async def see(store: Store, resource: str) -> None:
    watch = store.watch(resource, since=store.revision)
    while True:
        for change in await watch.next():
            say("saw", msgspec.json.decode(change.raw)["token"], change.revision)


async def main(folder: str, run: str, seed: int, changes: int) -> None:
    group_commit.TRIM = 16  # type: ignore[misc]  # so that removing rows happens all the time, not every now and then
    store = await Store.open(Path(folder), changes=changes)
    say("open", store.revision)
    chance = random.Random(seed)
    writers = (write(store, writer=n, run=run, chance=random.Random(chance.random())) for n in range(6))
    await asyncio.gather(*(see(store, resource) for resource in RESOURCES), *writers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
