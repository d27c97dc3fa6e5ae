"""DefaultBinder: binds a pod to its node, by one request that names the pod's uid."""

from typing import Final

from fairway.controllers.pods.hub_access import PodAccess
from fairway.controllers.runtime.decision_history import POD, DecisionHistory
from fairway.engine.points import CommitContext
from fairway.engine.status import OK, Status, failed
from kubewire.client import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
)

NAME: Final = "DefaultBinder"
CERTAIN: Final = (AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound, TooManyRequests)
"""Responses after which the pod is certainly not bound by the request. After others, the pod is read back."""


class DefaultBinder:
    name = NAME

    def __init__(self, hub: PodAccess, *, history: DecisionHistory | None = None) -> None:
        self._hub, self._history = hub, history

    async def bind(self, context: CommitContext, /) -> Status:
        try:
            await self._hub.bind(context.workload.key, context.hosts[0].name)
        except CERTAIN as error:
            return failed(str(error), plugin=NAME)
        if self._history is not None:
            key, node = context.workload.key, context.hosts[0].name
            self._history.decided(POD, namespace=key.namespace, name=key.name, after=(node,))
        return OK
