"""Certificates for the agents of add-ons: requests are approved that the cluster itself made for its own agents."""

import logging
from typing import Any, Final

from fairway.api.kinds import encode
from fairway.controllers.addons import registration
from fairway.controllers.addons.knowledge import Knowledge, add_on_of
from fairway.controllers.leadership import Leadership
from fairway.controllers.writes import Writes
from fairway.kube import NotFound
from fairway.kube.signing import APPROVED, SIGNING_REQUESTS

log: Final = logging.getLogger(__name__)

REASON: Final = "AutoApprovedByFairway"
MESSAGE: Final = "the agent of cluster {cluster} asks for add-on {add_on}"
NOT_APPROVED: Final = "certificate request %s of add-on %s on cluster %s is not approved: %s"


class Approver:
    """Never denies: a request that is not approved runs out, and somebody may still decide otherwise."""

    def __init__(self, known: Knowledge, writes: Writes) -> None:
        self._known, self._writes = known, writes

    async def decide(self, name: str, leadership: Leadership) -> None:
        request = self._known.requests.get(name)
        whose = None if request is None else add_on_of(request)
        if request is None or whose is None or request.decided:
            return
        add_on, cluster = self._known.add_ons.store.get(whose), self._known.cluster(whose[0])
        if add_on is None or cluster is None or not cluster.spec.hubAcceptsClient:
            return
        if add_on.metadata.deletionTimestamp is not None and not add_on.metadata.finalizers:
            return
        reason = registration.refusal(request, cluster=whose[0], add_on=add_on)
        if reason:
            log.info(NOT_APPROVED, name, whose[1], whose[0], reason)
            return
        approved = {
            "type": APPROVED,
            "status": "True",
            "reason": REASON,
            "message": MESSAGE.format(cluster=whose[0], add_on=whose[1]),
        }
        before: list[dict[str, Any]] = [encode(each) for each in request.status.conditions]
        async with leadership.batch():
            try:
                await self._writes.patch(
                    SIGNING_REQUESTS,
                    request.metadata,
                    {"status": {"conditions": [*before, approved]}},
                    leadership=leadership,
                    subresource="approval",
                )
            except NotFound:
                return
