"""The raw write limit of a hub for scores: only the status of existing objects is written.

    python -m benchmarks.scores.limit --kubeconfig FILE [--workers N]

``apply N`` writes N times with the sink of the providers, which uses server-side apply; ``merge N`` sends the same
status as a merge patch with the same precondition. Both write to an object of each cluster in turn, with the scores
of a cluster without accelerators.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.controllers.process import answer, questions
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS
from fairway.providers.assessment import OK, summary
from fairway.providers.placement_scores import AddOnPlacementScores, status_of, stored_publication
from fairway.providers.publication import Publication
from fairway.providers.sink import StoredPublication, field_manager
from fairway.providers.usage.measures import measures
from fairway.providers.usage.options import UsageOptions
from kubewire.client import Client, Patch, load

APPLY, MERGE = "apply", "merge"
PROVIDER = "limit"
ACCELERATORS = ("gpu", "tpu")
SCORES = tuple(
    measure.score for measure in measures(UsageOptions()) if not measure.score.name.startswith(ACCELERATORS)
)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

Write = Callable[[str, Publication], Awaitable[None]]


def publication(turn: int) -> Publication:
    """Return scores that differ from those of the previous turn."""
    values = {score.name: 3.0 + (turn * 7 + number * 13) % 90 for number, score in enumerate(SCORES)}
    return Publication(
        scores=tuple(sorted((score.name, score.scale.score(values[score.name])) for score in SCORES)),
        valid_until=datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=180),
        ok=True,
        reason=OK,
        message=summary(values, SCORES),
        changed_at=BEGAN,
    )


class Writer:
    """Writes scores, and keeps the last write for each cluster, as an agent does."""

    def __init__(self, client: Client, way: str) -> None:
        self._client = client
        self._sink = AddOnPlacementScores(client, provider=PROVIDER, resource=f"limit-{way}")
        self._held: dict[str, StoredPublication] = {}
        self._turns: dict[str, int] = {}
        self.write: Write = self.apply if way == APPLY else self.merge

    async def prepare(self, cluster: str) -> None:
        """Create the score of a cluster, and write it once."""
        await self.apply(cluster, publication(0))
        self._turns[cluster] = 0

    async def one(self, cluster: str) -> None:
        self._turns[cluster] += 1
        await self.write(cluster, publication(self._turns[cluster]))

    async def apply(self, cluster: str, publication: Publication) -> None:
        self._held[cluster] = await self._sink.write(cluster, publication, stored=self._held.get(cluster))

    async def merge(self, cluster: str, publication: Publication) -> None:
        held = self._held[cluster]
        written = await self._client.patch(
            ADD_ON_PLACEMENT_SCORES,
            self._sink.resource,
            {"metadata": {"resourceVersion": str(held.version)}, "status": status_of(publication)},
            kind=Patch.MERGE,
            namespace=cluster,
            subresource="status",
            field_manager=field_manager(PROVIDER),
        )
        self._held[cluster] = stored_publication(written)


async def shared(
    workers: int, clusters: list[str], count: int, work: Callable[[str], Awaitable[None]]
) -> None:
    """Distribute the calls so that each cluster has one worker, because concurrent writes would conflict."""

    async def run(first: int) -> None:
        for number in range(first, count, workers):
            await work(own[first][number // workers % len(own[first])])

    workers = min(workers, len(clusters))
    own = [clusters[first::workers] for first in range(workers)]
    await asyncio.gather(*(run(first) for first in range(workers)))


async def serve(kubeconfig: Path, *, workers: int) -> None:
    async with Client(load(kubeconfig).context(None)) as client:
        clusters = [cluster.metadata.name for cluster in (await client.list(MANAGED_CLUSTERS)).items]
        writers = {way: Writer(client, way) for way in (APPLY, MERGE)}
        for writer in writers.values():
            await shared(workers, clusters, len(clusters), writer.prepare)
        async for asked in questions():
            way, _, count = asked.partition(" ")
            began, cpu = time.perf_counter(), time.process_time()
            await shared(workers, clusters, int(count), writers[way].one)
            answer(
                {
                    "writes": int(count),
                    "seconds": time.perf_counter() - began,
                    "cpu": time.process_time() - cpu,
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=32)
    given = parser.parse_args()
    asyncio.run(serve(given.kubeconfig, workers=given.workers))


if __name__ == "__main__":
    main()
