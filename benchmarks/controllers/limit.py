"""The raw write limit of a hub: only the writes of placements, one placement after the other.

    python -m benchmarks.controllers.limit --kubeconfig FILE --namespace NS --count N --workers N

For every placement it creates a decision, writes its status and the status of the placement, as the controller does:
with the same client and concurrency, each write based on the previous response. Nothing is watched or computed.
It starts after a line on its input, and writes its results to its output.
"""

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

from benchmarks.controllers.objects import NUMBER, clear, placement, rate
from benchmarks.controllers.process import answer, questions
from benchmarks.controllers.requests import Requests
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, Placement
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from kubewire.client import Client, Patch, load

REASON = "AddOn/usage/cpu=80×1 Balance=100×1 ResourceAllocatableCPU=52×1"
CONDITIONS = [
    {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for kind, reason, message in (
        ("PlacementMisconfigured", "Succeedconfigured", "Placement configurations check pass"),
        ("PlacementSatisfied", "AllDecisionsScheduled", "All cluster decisions scheduled"),
    )
]


class Writes:
    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    async def one(self, owner: Placement) -> None:
        name = f"{owner.metadata.name}-decision-1"
        clusters = [f"eu-central-1-prod-aws-{number:05d}" for number in range(NUMBER)]
        made = await self.client.create(
            PLACEMENT_DECISIONS,
            {
                "metadata": {
                    "name": name,
                    "labels": {
                        PLACEMENT_LABEL: owner.metadata.name,
                        GROUP_INDEX_LABEL: "0",
                        GROUP_NAME_LABEL: "",
                    },
                    "ownerReferences": [
                        {
                            "apiVersion": owner.apiVersion,
                            "kind": owner.kind,
                            "name": owner.metadata.name,
                            "uid": owner.metadata.uid,
                            "controller": True,
                            "blockOwnerDeletion": True,
                        }
                    ],
                }
            },
            namespace=self.namespace,
        )
        decisions = [{"clusterName": cluster, "reason": REASON, "score": 232} for cluster in clusters]
        await self._status(PLACEMENT_DECISIONS, made, {"decisions": decisions})
        await self._status(
            PLACEMENTS,
            owner,
            {
                "numberOfSelectedClusters": NUMBER,
                "decisionGroups": [
                    {
                        "decisionGroupIndex": 0,
                        "decisionGroupName": "",
                        "decisions": [name],
                        "clusterCount": NUMBER,
                    }
                ],
                "conditions": CONDITIONS,
                "lastScoreUpdateTime": "2026-01-01T00:00:00Z",
            },
        )

    async def _status(self, resource: Any, thing: Any, status: dict[str, Any]) -> None:
        meta = thing.metadata
        await self.client.patch(
            resource,
            meta.name,
            {"metadata": {"uid": meta.uid, "resourceVersion": meta.resourceVersion}, "status": status},
            kind=Patch.MERGE,
            namespace=self.namespace,
            subresource="status",
        )


async def measure(kubeconfig: Path, namespace: str, *, count: int, workers: int) -> None:
    async with Client(load(kubeconfig).context(None)) as client:
        owners: list[Placement] = []

        async def prepare(number: int) -> None:
            body = placement(f"limit-{number:05d}", namespace=namespace)
            owners.append(await client.create(PLACEMENTS, body, namespace=namespace))

        await rate(workers, count, prepare)
        writes, requests = Writes(client, namespace), Requests()
        async for _ in questions():
            with requests.counted():
                began, cpu = time.perf_counter(), time.process_time()
                await rate(workers, count, lambda number: writes.one(owners[number]))
                seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            await clear(client, namespace)
            answer({**requests.document(), "placements": count, "seconds": seconds, "cpu": cpu})
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--workers", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(measure(given.kubeconfig, given.namespace, count=given.count, workers=given.workers))


if __name__ == "__main__":
    main()
