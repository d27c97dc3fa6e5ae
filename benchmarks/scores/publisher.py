"""A process that publishes noisy scores of all clusters of a hub with the SDK.

    python -m benchmarks.scores.publisher --kubeconfig FILE --resource NAME --interval 6 --deadband 2 --valid-for 18

Values are those of ``benchmarks.scores.writes``. The request ``round N`` is answered when reading N, counted from 0,
begins: with the number of writes so far, and their CPU time.
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.controllers.process import answer, questions
from benchmarks.scores.writes import CORES, NOISE, wandering
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES
from fairway.providers import FleetProvider, Linear, ProviderError, Reading, Runner, Score, Settings, running
from fairway.providers.publication import PublicationState
from kubewire.client import Client, load

NAME, SCORE = "noisy", "cpuAvailable"
USUAL = "usual (±1 core)"
ROUNDS = 1_000_000
FAILURES = "fairway_provider_write_failures_total"
WRITES = "fairway_provider_writes_total"


class Noisy(FleetProvider):
    name = NAME

    def __init__(self, *, resource: str, interval: float, deadband: int, half_life: float) -> None:
        self.resource, self.interval = resource, interval
        self.scores = (
            Score(name=SCORE, scale=Linear(0, CORES), unit="cores", deadband=deadband, half_life=half_life),
        )
        self.runner: Runner | None = None
        self.client: Client | None = None
        self.begun: list[dict[str, Any]] = []
        """The measurements at the beginning of each reading."""
        self.news = asyncio.Event()
        self._values: Iterator[Any] | None = None

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading | ProviderError]:
        assert self.runner is not None
        assert self.client is not None
        version = int(await self.client.newest(ADD_ON_PLACEMENT_SCORES))
        self.begun.append(
            {
                "at": time.monotonic(),
                "version": version,
                "cpu": time.process_time(),
                "clusters": len(clusters),
                "published": sum(state.published is not None for state in self._publishing.values()),
                "pending": sum(state.pending for state in self._publishing.values()),
                "writes": self._counted(WRITES),
                "failed": self._counted(FAILURES),
            }
        )
        self.news.set()
        if self._values is None:
            self._values = wandering(len(clusters), ROUNDS, noise=NOISE[USUAL])
        free = next(self._values).tolist()
        return {
            name: Reading(values={SCORE: value}) for name, value in zip(sorted(clusters), free, strict=True)
        }

    @property
    def _publishing(self) -> Mapping[str, PublicationState]:
        assert self.runner is not None
        return self.runner.loops[NAME].publisher.clusters

    def _counted(self, name: str) -> int:
        assert self.runner is not None
        samples = (sample for family in self.runner.meters.registry.collect() for sample in family.samples)
        return int(sum(sample.value for sample in samples if sample.name == name))


async def serve(given: argparse.Namespace) -> None:
    provider = Noisy(
        resource=given.resource, interval=given.interval, deadband=given.deadband, half_life=given.half_life
    )
    settings = Settings(valid_for=given.valid_for, deadline=60.0)
    connection = load(given.kubeconfig).context(None)
    async with (
        Client(connection) as provider.client,
        running([provider], hub=provider.client, settings=settings) as provider.runner,
    ):
        async for question in questions():
            number = int(question.partition(" ")[2])
            while len(provider.begun) <= number:
                provider.news.clear()
                await provider.news.wait()
            answer(provider.begun[number])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--resource", required=True)
    parser.add_argument("--interval", type=float, required=True)
    parser.add_argument("--deadband", type=int, required=True)
    parser.add_argument("--half-life", type=float, default=0.0)
    parser.add_argument("--valid-for", type=float, required=True)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
