"""A controller that kills itself between two of its writes.

One process serves every pair of writes of a change: it has a placement for each, in its own namespace, and stops each
at another write. When only stopped placements are left, it kills itself. It reports the write at which each placement
was stopped as a line of JSON; a line ``written`` has the number of writes of a placement that was not stopped.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec

from controllers.crash.changes import PAGE_SIZE
from fairway.controllers.manager import running
from fairway.controllers.placement.queue import Owner, PlacementQueue
from fairway.controllers.settings import PLACEMENT, Settings
from fairway.engine.queue import State
from fairway.hosts.instant import Micros
from fairway.workloads.placement import pages
from kubewire.client import load
from kubewire.client.errors import TransportError
from kubewire.client.transport import Response, Transport

WRITES: Final = frozenset({"POST", "PATCH", "PUT", "DELETE"})
DEAD: Final = "this placement has nobody any more"

_OURS: Final = re.compile(r"/namespaces/([^/]+)/(?:placements|placementdecisions)(?:/|$)")


class CrashMoment(StrEnum):
    BEFORE = "before"
    """Before the write is sent."""
    AFTER = "after"
    """After the hub did it, before the response."""


class CrashPoint(msgspec.Struct, frozen=True, kw_only=True):
    """``write`` counts from 1; 0 stops none."""

    write: int
    when: CrashMoment = CrashMoment.BEFORE


Plan = dict[str, CrashPoint]
"""By namespace."""


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The write at which a placement was stopped."""

    namespace: str
    write: int
    method: str
    path: str
    query: list[tuple[str, str]]
    content_type: str
    body: str


class Written(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    namespace: str
    writes: int


Line = Stopped | Written


def read(report: Path) -> list[Line]:
    return [msgspec.json.decode(line, type=Line) for line in report.read_bytes().splitlines()]


@dataclass(slots=True, kw_only=True)
class CrashTrigger:
    plan: Plan
    report: Path
    counts: Counter[str]
    ended: set[str]
    stopped: set[str]

    async def request(
        self,
        send: Callable[..., Awaitable[Response]],
        transport: Transport,
        method: str,
        path: str,
        **options: Any,
    ) -> Response:
        match = _OURS.search(path)
        if method not in WRITES or match is None or match[1] not in self.plan:
            return await send(transport, method, path, **options)
        namespace = match[1]
        if namespace in self.stopped:
            raise TransportError(DEAD)
        self.counts[namespace] += 1
        cut = self.plan[namespace]
        if cut.write != self.counts[namespace]:
            return await send(transport, method, path, **options)
        if cut.when is CrashMoment.AFTER:
            await send(transport, method, path, **options)
        query = options.get("query", ())
        stopped = Stopped(
            namespace=namespace,
            write=cut.write,
            method=method,
            path=path,
            query=list(query.items() if isinstance(query, dict) else query),
            content_type=options.get("content_type", ""),
            body=(options.get("body") or b"").decode(),
        )
        self.stopped.add(namespace)
        self.end(namespace, stopped)
        raise TransportError(DEAD)

    def attempted(self, queue: PlacementQueue, owner: Owner) -> None:
        explanation = queue.explain(owner)
        settled = explanation is not None and explanation.state is State.SETTLED
        if settled and owner[0] in self.plan and owner[0] not in self.ended:
            self.end(owner[0], Written(namespace=owner[0], writes=self.counts[owner[0]]))

    def end(self, namespace: str, line: Line) -> None:
        with self.report.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
        self.ended.add(namespace)
        if self.ended == self.plan.keys():
            os.kill(os.getpid(), signal.SIGKILL)


async def _live(kubeconfig: str, trigger: CrashTrigger) -> None:
    send, put_back = Transport.request, PlacementQueue._returned

    async def request(transport: Transport, method: str, path: str, **options: Any) -> Response:
        return await trigger.request(send, transport, method, path, **options)

    def returned(queue: PlacementQueue, owner: Owner, now: Micros) -> None:
        put_back(queue, owner, now)
        trigger.attempted(queue, owner)

    settings = Settings(controllers=frozenset({PLACEMENT}), election=None)
    with (
        patch.object(pages, "PAGE_SIZE", PAGE_SIZE),
        patch.object(Transport, "request", request),
        patch.object(PlacementQueue, "_returned", returned),
    ):
        async with running(load(kubeconfig).context(), settings) as manager:
            await manager.over()


def main() -> None:
    kubeconfig, plan, report = sys.argv[1:]
    wanted = msgspec.convert(json.loads(plan), Plan)
    trigger = CrashTrigger(plan=wanted, report=Path(report), counts=Counter(), ended=set(), stopped=set())
    asyncio.run(_live(kubeconfig, trigger))
