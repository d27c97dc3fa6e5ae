"""The plugins that bind a request: its Secrets exist, and its status records the place.

The status is written for the version that was read, so that of two leaders only one binds a request.
"""

from typing import Any, Final

from fairway.api.hosted_request import HostedClusterRequest
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.controllers.runtime.decision_history import HOSTED_CLUSTER
from fairway.engine.points import DECISION, CommitContext
from fairway.engine.status import OK, Status, failed
from fairway.engine.workload import HostKey
from fairway.hosts.clusters.promises import place_of
from fairway.hosts.instant import to_micros
from fairway.workloads.hosting import Decision, HostingState
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.profile import RESERVE_IN_STATUS, SECRETS_EXIST
from fairway.workloads.hosting.requests import conditions
from fairway.workloads.hosting.requests.request_status import ON_HOST, refused, reserved
from fairway.workloads.hosting.requests.work import WorkError
from fairway.workloads.hosting.rules.permits import NotPermitted
from fairway.workloads.hosting.rules.policy import PolicyError
from fairway.workloads.hosting.workload import HostingSpec, key_of
from kubewire.api.event import NORMAL
from kubewire.client import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound

SCHEDULED: Final = "Scheduled"
"""Reason of the event."""
GONE: Final = "the request was deleted meanwhile"
CHANGED: Final = "the request, its policy or its Placement changed after the decision"
PLACED_MEANWHILE: Final = "the request already has a place on {host}"
CERTAIN: Final = (AlreadyExists, Conflict, Forbidden, Invalid, NotFound)
"""Responses after which nothing was written."""


def reason_of(error: ValueError) -> str:
    """Return the reason of the condition for a request whose ManifestWork cannot be made."""
    return conditions.SECRET_UNREADABLE if isinstance(error, WorkError) else conditions.NOT_PERMITTED


def host_of(request: HostedClusterRequest) -> HostKey | None:
    """Return the host on which a request has a place."""
    place = place_of(request)
    return None if place is None else HostKey(place.name, place.uid)


class SecretsExist:
    """PreBind: without its Secrets, no part of a hosted cluster is created. It is tried again after the back-off."""

    name = SECRETS_EXIST

    def __init__(self, hub: HubAccess) -> None:
        self._hub = hub

    async def pre_bind(self, context: CommitContext, /) -> Status:
        key = context.workload.key
        request = self._hub.requests.get(key.name, namespace=key.namespace)
        if request is None or request.metadata.uid != key.uid:
            return failed(GONE, plugin=self.name)
        try:
            await self._hub.read_secrets(spec_in(context, self.name).request)
        except (WorkError, NotPermitted, PolicyError) as error:
            status = refused(
                request,
                reason=reason_of(error),
                message=str(error),
                now=self._hub.clock.wall(),
            )
            await self._hub.write_status(request, status)
            return failed(str(error), plugin=self.name)
        return OK


class ReserveInStatus:
    """Bind: the reservation in the request's status is what all leaders agree on."""

    name = RESERVE_IN_STATUS

    def __init__(self, hub: HubAccess, *, state: HostingState) -> None:
        self._hub, self._state = hub, state

    async def bind(self, context: CommitContext, /) -> Status:
        key, (host, *_) = context.workload.key, context.hosts
        request = self._hub.requests.get(key.name, namespace=key.namespace)
        if request is None or key_of(request) != key or request.metadata.deletionTimestamp is not None:
            return failed(GONE, plugin=self.name)
        if (place := host_of(request)) is not None:
            words = PLACED_MEANWHILE.format(host=place)
            return OK if place == host else failed(words, plugin=self.name)
        if self._state.workload_of(request) != context.workload:
            # A commit may wait for its turn. What was decided and reserved holds for the version of the decision only.
            return failed(CHANGED, plugin=self.name)
        try:
            # First the finalizer: from the reservation on, a deletion must wait for the ManifestWork.
            request = await self._hub.set_finalizer(request, present=True)
        except ApiError as error:
            return failed(str(error), plugin=self.name)
        workload: Any = context.workload
        spec: HostingSpec = workload.spec
        decision = context.state.read(DECISION, Decision)
        status = reserved(
            request,
            decision,
            host,
            namespace=spec.namespace,
            policy=spec.policy.name,
            template=spec.policy.template,
            amounts=self._state.amounts_on(workload, host),
            timeout=spec.policy.timeout,
            now=to_micros(self._hub.clock.wall()),
        )
        try:
            written = await self._hub.write_status(request, status)
        # Other errors leave open whether the status was written. They are raised, and the commit reads it back.
        except CERTAIN as error:
            return failed(str(error), plugin=self.name)
        message = ON_HOST.format(host=host.name, total=decision.total)
        self._hub.recorder.event(written, reason=SCHEDULED, message=message, type_=NORMAL)
        if self._hub.history is not None:
            self._hub.history.decided(
                HOSTED_CLUSTER, namespace=key.namespace, name=key.name, after=(host.name,), message=message
            )
        return OK
