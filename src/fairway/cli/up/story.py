"""The story of `fairway up`: a cluster fills up and recovers, and the agent of another one stops and returns.

All other scores stay as they are, so that each move of the example has one cause, which is printed before it.
"""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Final, Protocol

from fairway.cli.text import say
from fairway.cli.up.demo import Moves
from fairway.cli.up.tour import SCORE
from fairway.simulation.agent import Values

FULL: Final = 5
"""Points of a cluster that filled up."""
BEAT: Final = 3
"""Periods between two events: enough to read the move, and for every agent to publish in between."""

FILLS: Final = "{cluster} fills up: its free CPU falls from {before} to {after} points"
EMPTIES: Final = "{cluster} has room again: its free CPU rises from {before} to {after} points"
STOPS: Final = "the agent of {cluster} stops: its scores expire within {seconds:.0f} s"
RETURNS: Final = "the agent of {cluster} starts again, and publishes its scores"


class Agents(Protocol):
    """What the story does with the simulated agents."""

    def values(self, cluster: str) -> Values | None:
        """Return the published scores; None without any."""

    def publish(self, cluster: str, values: Values) -> None: ...

    def pause(self, cluster: str) -> None: ...

    def resume(self, cluster: str) -> None: ...

    @property
    def validity(self) -> float:
        """Seconds until a score expires after its publication."""


async def play(agents: Agents, moves: Moves, *, period: float) -> None:
    """Play the story until cancelled. Without a decision, nothing happens."""
    while True:
        await asyncio.sleep(BEAT * period)
        if moves.ranked:
            await _fill(agents, moves.ranked[0], period=period)
            await asyncio.sleep(BEAT * period)
        if moves.ranked:
            await _stop(agents, moves.ranked[min(1, len(moves.ranked) - 1)], period=period)


async def _fill(agents: Agents, cluster: str, *, period: float) -> None:
    values = agents.values(cluster)
    if values is None or values.get(SCORE, 0) <= FULL:
        return
    before = values[SCORE]
    _narrate(FILLS.format(cluster=cluster, before=before, after=FULL))
    agents.publish(cluster, {**values, SCORE: FULL})
    await asyncio.sleep(BEAT * period)
    _narrate(EMPTIES.format(cluster=cluster, before=FULL, after=before))
    agents.publish(cluster, values)


async def _stop(agents: Agents, cluster: str, *, period: float) -> None:
    validity = agents.validity
    _narrate(STOPS.format(cluster=cluster, seconds=validity))
    agents.pause(cluster)
    await asyncio.sleep(validity + BEAT * period)
    _narrate(RETURNS.format(cluster=cluster))
    agents.resume(cluster)


def _narrate(event: str) -> None:
    say(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {event}")
    sys.stdout.flush()
