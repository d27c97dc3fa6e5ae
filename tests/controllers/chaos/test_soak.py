"""Random changes for a long time: whenever the controller is idle, decisions equal those of a fresh computation.

The only faults are changes by users and restarts of the hub. The size of a change varies from one object to many.
"""

import random
from typing import Final

import pytest

from chaos.servers import RealServer, Server
from controllers.chaos.harness import harness

pytestmark = pytest.mark.soak

ROUNDS: Final = 80
ON_A_REAL_HUB: Final = 12
SIZES: Final = (1, 1, 1, 2, 3, 5, 10, 40)
RESTARTS: Final = 15
"""In one of this many rounds the hub is killed and restarted."""


async def test_decisions_stay_correct_under_random_changes(
    server: Server, chance: random.Random, length: int
) -> None:
    rounds = (ON_A_REAL_HUB if isinstance(server, RealServer) else ROUNDS) * length
    async with harness(server, chance, balance=False) as at:
        for number in range(rounds):
            await at.users.stir(chance.choice(SIZES))
            if number % RESTARTS == RESTARTS - 1:
                await at.restart()
            await at.right()
        assert len(at.proxy.writes) > rounds


async def test_decisions_stay_correct_when_placements_depend_on_each_other(
    server: Server, chance: random.Random, length: int
) -> None:
    rounds = (ON_A_REAL_HUB if isinstance(server, RealServer) else ROUNDS // 2) * length
    async with harness(server, chance, balance=True) as at:
        for _ in range(rounds):
            await at.users.stir(chance.choice(SIZES))
            await at.right()
