"""A hub with random changes, and the placement controller behind a faulty proxy."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from chaos.servers import Server
from controllers.chaos.expected_decisions import first_lines, problems
from controllers.chaos.proxy import WELL, Fate, ProxiedRequest, Proxy, proxied
from controllers.chaos.random_users import RandomUsers
from fairway.api.resources import PLACEMENT_DECISIONS
from fairway.controllers.manager import Manager, running
from fairway.controllers.settings import PLACEMENT, Settings
from fairway.whatif.world import World
from forked import POLL
from kubewire.client import Client, Connection

SETTINGS: Final = Settings(controllers=frozenset({PLACEMENT}), election=None, resync=0)
"""Disables periodic resyncs, which would hide faults."""
PATIENCE: Final = 120.0

FATES: Final = {
    "watch": (
        Fate(code=500, reason="InternalError"),
        Fate(code=429, reason="TooManyRequests", retry_after="0"),
        Fate(code=410, reason="Expired"),
        Fate(lost=True),
        Fate(held=0.3),
    ),
    "read": (
        Fate(code=500, reason="InternalError"),
        Fate(code=503, reason="ServiceUnavailable"),
        Fate(code=410, reason="Expired"),
        Fate(lost=True),
        Fate(late=0.2),
    ),
    "write": (
        Fate(code=409, reason="Conflict"),
        Fate(code=429, reason="TooManyRequests", retry_after="0"),
        Fate(code=500, reason="InternalError"),
        Fate(lost=True),
        Fate(unheard=True),
        Fate(late=0.25),
        Fate(held=0.15),
        Fate(twice=True),
        Fate(unheard=True, late=0.2),
    ),
    "other": (Fate(code=500, reason="InternalError"), Fate(lost=True), Fate(late=0.1)),
}


@dataclass(frozen=True, slots=True)
class FaultRates:
    """``rate`` is the share of requests that fail."""

    chance: random.Random
    rate: float = 0.15

    def __call__(self, asked: ProxiedRequest) -> Fate:
        return self.chance.choice(FATES[asked.kind]) if self.chance.random() < self.rate else WELL


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosHarness:
    server: Server
    client: Client
    """The administrator's client, not through the proxy."""
    users: RandomUsers
    proxy: Proxy
    manager: Manager
    chance: random.Random

    def storm(self, rate: float = 0.15) -> None:
        self.proxy.fate = FaultRates(self.chance, rate)

    def calm(self) -> None:
        self.proxy.fate = lambda _: WELL

    async def restart(self) -> None:
        await self.server.crash()
        await self.server.start()

    async def right(self) -> None:
        """Wait, without faults, until the decisions are correct and the controller is idle."""
        wrong: list[str] = []
        try:
            async with asyncio.timeout(PATIENCE):
                while wrong := [*await problems(self.client), *await self._ignorance()]:
                    await asyncio.sleep(POLL)
                    await self.manager.quiet()
        except TimeoutError:
            raise AssertionError(first_lines(wrong)) from None

    async def _ignorance(self) -> list[str]:
        """Return cached decisions of the controller that differ from the hub."""
        controller = self.manager.placement
        assert controller is not None
        there = (await self.client.list(PLACEMENT_DECISIONS)).items
        known = controller.state.fleet.snapshot().decisions
        fresh = World(there).fleet.snapshot().decisions
        names = {
            (decision.metadata.namespace, decision.metadata.name) for decision in there
        } | known._holdings.keys()
        return [
            f"{'/'.join(name)} is taken for {known.get(*name)}, is {fresh.get(*name)}"
            for name in sorted(names)
            if known.get(*name) != fresh.get(*name)
        ]


@asynccontextmanager
async def harness(
    server: Server, chance: random.Random, *, balance: bool = True
) -> AsyncIterator[ChaosHarness]:
    async with Client.from_kubeconfig(server.kubeconfig) as client, proxied(server.kubeconfig) as proxy:
        users = RandomUsers(client, chance, balance=balance)
        await users.create_fleet()
        async with running(Connection(server=proxy.url), SETTINGS) as manager:
            await manager.synced()
            yield ChaosHarness(
                server=server, client=client, users=users, proxy=proxy, manager=manager, chance=chance
            )


async def until_over(at: ChaosHarness, stirring: "asyncio.Task[None]") -> None:
    """Break watches at random."""
    while not stirring.done():
        for _ in range(at.chance.randrange(5, 40)):
            await asyncio.sleep(POLL)
        at.proxy.cut_watches()
    await stirring
