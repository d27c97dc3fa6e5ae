"""The plugins that bind a request: its Secrets exist, and its status records the place.

The status is written for the version that was read, so that of two leaders only one binds a request.
"""

from collections.abc import Mapping
from typing import Any, Final

from fairway.api.event import NORMAL
from fairway.api.hosted_request import HostedClusterRequest
from fairway.clusters.promises import place_of
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.controllers.leadership import Leadership
from fairway.engine.points import CommitContext
from fairway.engine.status import OK, Status, failed
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.fleet.instant import to_micros
from fairway.hosting import Decision, HostingState
from fairway.hosting import conditions as reasons
from fairway.hosting.status import ON_HOST, refused, reserved
from fairway.hosting.work import WorkError
from fairway.hosting.workload import HostingSpec, key_of
from fairway.kube import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound

SCHEDULED: Final = "Scheduled"
"""Reason of the event."""
GONE: Final = "the request was deleted meanwhile"
PLACED_MEANWHILE: Final = "the request already has a place on {host}"
CERTAIN: Final = (AlreadyExists, Conflict, Forbidden, Invalid, NotFound)
"""Responses after which nothing was written."""


def host_of(request: HostedClusterRequest) -> HostKey | None:
    """Return the host on which a request has a place."""
    place = place_of(request)
    return None if place is None else HostKey(place.name, place.uid)


class SecretsExist:
    """PreBind: without its Secrets, no part of a hosted cluster is created. It is tried again after the back-off."""

    name = "SecretsExist"

    def __init__(self, hub: HubAccess, *, leadership: Leadership) -> None:
        self._hub, self._leadership = hub, leadership

    async def pre_bind(self, context: CommitContext, /) -> Status:
        key = context.workload.key
        request = self._hub.requests.get(key.name, namespace=key.namespace)
        if request is None or request.metadata.uid != key.uid:
            return failed(GONE, plugin=self.name)
        try:
            await self._hub.read_secrets(request)
        except WorkError as error:
            status = refused(
                request,
                reason=reasons.SECRET_UNREADABLE,
                message=str(error),
                now=self._hub.clock.wall(),
            )
            await self._hub.write_status(request, status, self._leadership)
            return failed(str(error), plugin=self.name)
        return OK


class ReserveInStatus:
    """Bind: the reservation in the request's status is what all leaders agree on."""

    name = "ReserveInStatus"

    def __init__(
        self,
        hub: HubAccess,
        *,
        state: HostingState,
        decisions: Mapping[WorkloadKey, Decision],
        leadership: Leadership,
    ) -> None:
        self._hub, self._state, self._decisions, self._leadership = hub, state, decisions, leadership

    async def bind(self, context: CommitContext, /) -> Status:
        key, (host, *_) = context.workload.key, context.hosts
        request = self._hub.requests.get(key.name, namespace=key.namespace)
        if request is None or key_of(request) != key or request.metadata.deletionTimestamp is not None:
            return failed(GONE, plugin=self.name)
        if (place := host_of(request)) is not None:
            words = PLACED_MEANWHILE.format(host=place)
            return OK if place == host else failed(words, plugin=self.name)
        try:
            # First the finalizer: from the reservation on, a deletion must wait for the ManifestWork.
            request = await self._hub.set_finalizer(request, present=True, leadership=self._leadership)
        except ApiError as error:
            return failed(str(error), plugin=self.name)
        workload: Any = context.workload
        spec: HostingSpec = workload.spec
        decision = self._decisions[key]
        status = reserved(
            request,
            decision,
            host,
            amounts=self._state.amounts_on(workload, host),
            timeout=spec.policy.timeout,
            now=to_micros(self._hub.clock.wall()),
        )
        try:
            written = await self._hub.write_status(request, status, self._leadership)
        except CERTAIN as error:
            return failed(str(error), plugin=self.name)
        message = ON_HOST.format(host=host.name, total=decision.total)
        self._hub.recorder.event(written, reason=SCHEDULED, message=message, type_=NORMAL)
        return OK
