"""Decisions converge after network and hub faults end."""

import asyncio
import random
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final

from chaos.servers import Server, embedded_server
from controllers.chaos.conftest import define
from controllers.chaos.harness import harness, until_over
from kubehub.storage import archive

ROUNDS: Final = 3
CHANGES: Final = 25
SURELY: Final = {
    "watches cut",
    "write 409",
    "write 500",
    "write lost",
    "write unheard",
    "write late",
    "write twice",
}


def shown(seen: Mapping[str, int], length: int) -> bool:
    """Require that faults of all kinds happened."""
    if length > 1:
        return seen.keys() >= SURELY
    return len([name for name in seen if name.startswith("write")]) >= 3


async def test_decisions_converge_whatever_happens_to_requests(
    server: Server, chance: random.Random, length: int
) -> None:
    async with harness(server, chance) as at:
        seen = at.proxy.counted.by_fate
        for number in count():
            # A busy machine sends fewer requests; enough of them must have failed.
            if number >= ROUNDS * length and shown(seen, length):
                break
            at.storm()
            stirring = asyncio.create_task(at.users.stir(CHANGES))
            await until_over(at, stirring)
            if number % 2:
                await at.restart()
            at.calm()
            await at.right()


async def test_restored_hub_gets_decisions_for_its_current_objects(
    tmp_path: Path, chance: random.Random, length: int
) -> None:
    async with embedded_server(folder=tmp_path) as server:
        await define(server)
        async with harness(server, chance) as at:
            for number in range(2 * length):
                await at.users.stir(CHANGES)
                backup = tmp_path / f"{number}.backup"
                archive.backup(server.data, backup)
                at.storm()
                await at.users.stir(CHANGES)
                at.proxy.cut_watches()
                # The last response may precede its watch event, and the restore undoes it.
                await at.users.stir(chance.randrange(5))
                await server.crash()
                archive.restore(backup, server.data, force=True)
                await server.start()
                if number % 2:
                    await at.users.stir(chance.randrange(10))
                at.calm()
                await at.right()
                await at.users.stir(CHANGES)
                await at.right()
