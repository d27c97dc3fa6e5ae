"""Plugins of the simulations that commit workloads."""

from datetime import timedelta

from fairway.engine.points import CommitContext
from fairway.engine.status import OK, Code, Status


class Approval:
    """A Permit plugin that waits for workloads with an odd demand, in multiples of ``unit``."""

    name = "Approval"

    def __init__(self, *, unit: int = 1) -> None:
        self._unit = unit

    def permit(self, context: CommitContext, /) -> tuple[Status, timedelta | None]:
        if context.workload.demand["cpu"] // self._unit % 2:
            return Status(Code.WAIT), timedelta(seconds=3)
        return OK, None


class Binder:
    """Its coroutines are only named in instructions; the simulation answers for the hub."""

    name = "Binder"

    async def pre_bind(self, context: CommitContext, /) -> Status:
        raise NotImplementedError

    async def bind(self, context: CommitContext, /) -> Status:
        raise NotImplementedError

    async def post_bind(self, context: CommitContext, /) -> None:
        raise NotImplementedError
