"""Agents that wait for the reply to their request."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fairway.engine.workload import ResourceList
from fairway.workloads.machines.permit_protocol import Permit, PermitError, PermitRequest

PodName = tuple[str, str]
"""(namespace, name)."""
Answer = asyncio.Future[Permit | PermitError]

_ALL: Final[ResourceList] = {}


class WaitingAgents:
    """Each request gets one reply: a permit of at most what it asks for, or a refusal."""

    def __init__(self) -> None:
        self._waiting: dict[PodName, dict[Answer, ResourceList]] = {}
        self._now: tuple[PodName, Answer] | None = None
        """The request that is being handled."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @contextmanager
    def asking(self, request: PermitRequest) -> Iterator[Answer]:
        """Wait for the reply within the block. It ends with the block: a client may have disconnected."""
        key = (request.namespace, request.name)
        mine: Answer = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, {})[mine] = request.resources
        try:
            yield mine
        finally:
            waiting = self._waiting.get(key, {})
            waiting.pop(mine, None)
            if not waiting:
                self._waiting.pop(key, None)

    @contextmanager
    def handling(self, request: PermitRequest, mine: Answer) -> Iterator[None]:
        """Handle the request within the block: a refusal there concerns only the agent that asks now."""
        self._now = ((request.namespace, request.name), mine)
        try:
            yield
        finally:
            self._now = None

    def reply(self, key: PodName, answer: Permit | PermitError) -> None:
        waiting = self._waiting.get(key, {})
        if isinstance(answer, PermitError) and self._now is not None and self._now[0] == key:
            waiting = {self._now[1]: _ALL}
        for future, requested in waiting.items():
            if not future.done():
                future.set_result(answer if isinstance(answer, PermitError) else _limited(answer, requested))

    def refuse_all(self, refusal: PermitError) -> None:
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_result(refusal)


def _limited(permit: Permit, requested: ResourceList) -> Permit:
    """Return the permit for a request, which a later and larger one may have overtaken."""
    limited = {name: min(amount, requested.get(name, amount)) for name, amount in permit.resources.items()}
    return Permit(
        resources=limited, migrate=permit.migrate, migrations=permit.migrations, denied=permit.denied
    )
