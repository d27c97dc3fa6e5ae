"""The floor of a reaction: a process that watches scores and writes decisions, and does nothing else.

    python -m benchmarks.controllers.bare --kubeconfig FILE --chosen N --at-once N [--plain]

It patches the decisions that a controller left on the hub, with bodies of the same size, as many at a time as the
controller does. It knows the best clusters of a group without a scheduler, proves no leadership, and writes no statuses
and no events. With ``--plain`` it sends prepared bytes without the client of Fairway, and decodes nothing but the
resource version. It answers the request ``figures``.
"""

import argparse
import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any, Protocol

import msgspec

from benchmarks.controllers.objects import GROUP, NAMESPACE
from benchmarks.controllers.process import answer, questions
from benchmarks.controllers.requests import Requests
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS, PLACEMENT_DECISIONS
from fairway.api.score import AddOnPlacementScore
from kubewire.client import Batch, Client, Deleted, Informer, Patch, load
from kubewire.client.exchange import Exchange
from kubewire.user_agent import user_agent

REASON = "AddOn/usage/cpu={score}×1"


class Sender(Protocol):
    async def send(self, name: str, body: dict[str, Any]) -> str:
        """Patch the status of a decision. Return its new resource version."""


class WithClient:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, name: str, body: dict[str, Any]) -> str:
        made = await self._client.patch(
            PLACEMENT_DECISIONS, name, body, kind=Patch.MERGE, namespace=NAMESPACE, subresource="status"
        )
        return made.metadata.resourceVersion


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Written(msgspec.Struct):
    metadata: _Metadata


class Plain:
    def __init__(self, client: Client) -> None:
        self._connection = client.connection
        self._host = self._connection.server.partition("://")[2]
        self._exchange = Exchange(self._connection.server)

    async def send(self, name: str, body: dict[str, Any]) -> str:
        proof = await self._connection.credentials.proof()
        data = msgspec.json.encode(body)
        path = PLACEMENT_DECISIONS.path(namespace=NAMESPACE, name=name, subresource="status")
        head = (
            f"PATCH {path}?fieldManager=fairway HTTP/1.1\r\nHost: {self._host}\r\n"
            f"User-Agent: {user_agent()}\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
            f"Authorization: {proof.authorization}\r\n"
            f"Content-Type: {Patch.MERGE.value}\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        response = await self._exchange.send(head.encode() + data, self._connection.context(proof))
        if response.status != 200:
            raise RuntimeError(response.body.decode())
        return msgspec.json.decode(response.body, type=_Written).metadata.resource_version


class Group:
    """The clusters of a group, and the pages that have the best of them."""

    def __init__(self, chosen: int) -> None:
        self.scores: dict[str, int] = {}
        self.pages: list[Page] = []
        self.best: tuple[tuple[str, int], ...] = ()
        self._chosen = chosen

    def choose(self) -> bool:
        """Return whether other clusters are the best now."""
        ordered = sorted(self.scores.items(), key=lambda score: (-score[1], score[0]))[: self._chosen]
        before, self.best = {name for name, _ in self.best}, tuple(sorted(ordered))
        return before != {name for name, _ in ordered}


class Page:
    def __init__(
        self, decision: PlacementDecision, group: Group, sender: Sender, slots: asyncio.Semaphore
    ) -> None:
        self._meta, self._version = decision.metadata, decision.metadata.resourceVersion
        self._group, self._sender, self._slots = group, sender, slots
        self._lock = asyncio.Lock()
        self._written = frozenset(entry.clusterName for entry in decision.status.decisions)

    async def write(self) -> None:
        async with self._lock, self._slots:
            best = self._group.best
            if self._written == (chosen := frozenset(name for name, _ in best)):
                return
            decisions = [
                {"clusterName": name, "reason": REASON.format(score=score), "score": score}
                for name, score in best
            ]
            body = {
                "metadata": {"uid": self._meta.uid, "resourceVersion": self._version},
                "status": {"decisions": decisions},
            }
            self._version = await self._sender.send(self._meta.name, body)
            self._written = chosen


class Writer:
    def __init__(self, sender: Sender, *, chosen: int, at_once: int) -> None:
        self._sender, self._slots = sender, asyncio.Semaphore(at_once)
        self._groups: defaultdict[str, Group] = defaultdict(lambda: Group(chosen))
        self._group_of: dict[str, Group] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def prepare(self, client: Client) -> None:
        for cluster in (await client.list(MANAGED_CLUSTERS)).items:
            self._group_of[cluster.metadata.name] = self._groups[cluster.metadata.labels[GROUP]]
        for decision in (await client.list(PLACEMENT_DECISIONS, namespace=NAMESPACE)).items:
            group = self._groups[decision.metadata.labels[PLACEMENT_LABEL].rpartition("-")[0]]
            group.pages.append(Page(decision, group, self._sender, self._slots))

    def hear(self, batch: Batch[AddOnPlacementScore]) -> None:
        changed: dict[int, Group] = {}
        for change in batch.changes:
            if not isinstance(change, Deleted):
                score = change.object
                group = self._group_of[score.metadata.namespace]
                group.scores[score.metadata.namespace] = score.status.scores[0].value
                changed[id(group)] = group
        for group in changed.values():
            if group.choose() or batch.listed:
                for page in group.pages:
                    task = asyncio.create_task(page.write())
                    self._tasks.add(task)
                    task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        task.result()

    @property
    def busy(self) -> bool:
        return bool(self._tasks)


async def serve(kubeconfig: Path, *, chosen: int, at_once: int, plain: bool) -> None:
    requests = Requests()
    async with Client(load(kubeconfig).context(None)) as client:
        writer = Writer(Plain(client) if plain else WithClient(client), chosen=chosen, at_once=at_once)
        await writer.prepare(client)
        informer = Informer(client, ADD_ON_PLACEMENT_SCORES)
        informer.subscribe(writer.hear)
        with requests.counted():
            async with informer:
                await informer.synced.wait()
                async for _ in questions():
                    answer({**requests.document(), "busy": writer.busy})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--chosen", type=int, required=True, help="clusters of a decision")
    parser.add_argument("--at-once", type=int, required=True, help="concurrent writes")
    parser.add_argument("--plain", action="store_true", help="send prepared bytes, without the client")
    given = parser.parse_args()
    asyncio.run(serve(given.kubeconfig, chosen=given.chosen, at_once=given.at_once, plain=given.plain))


if __name__ == "__main__":
    main()
