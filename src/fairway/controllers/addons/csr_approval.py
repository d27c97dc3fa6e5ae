"""Approve certificate requests that a cluster's klusterlet created for the agents of its add-ons."""

import logging
from typing import Final

from fairway.controllers.addons import configs, registration
from fairway.controllers.addons.index import AddOnIndex, add_on_of
from fairway.controllers.addons.installation import is_self_managed
from fairway.controllers.csr_approval import approve
from fairway.controllers.runtime.writer import Writer
from kubewire.client.csr import CertificateSigningRequest
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

MESSAGE: Final = "requested by the agent of add-on {add_on} on cluster {cluster}"
NOT_APPROVED: Final = "certificate request %s of add-on %s on cluster %s is not approved: %s"

NOT_ACCEPTED: Final = "the cluster is not accepted"
NO_ADD_ON: Final = "the cluster does not have the add-on"
NO_TEMPLATE: Final = "the template of the add-on is unknown"
NOT_REGISTERED: Final = "the add-on does not request access to the hub"


class AddOnApprover:
    """Never denies a request: one that is not approved expires, and a user may still approve it."""

    def __init__(self, known: AddOnIndex, writer: Writer) -> None:
        self._index, self._writer = known, writer
        self._throttle = LogThrottle(log, every=600.0)

    async def decide(self, name: str) -> None:
        request = self._index.requests.get(name)
        add_on_key = None if request is None else add_on_of(request)
        if request is None or add_on_key is None or request.decided:
            return
        if self._is_of_another_manager(add_on_key[1]):
            return
        if reason := self._fault(request, *add_on_key):
            self._throttle.log(
                logging.WARNING, (name, reason), NOT_APPROVED, name, add_on_key[1], add_on_key[0], reason
            )
            return
        message = MESSAGE.format(cluster=add_on_key[0], add_on=add_on_key[1])
        await approve(self._writer, request, message=message)

    def _is_of_another_manager(self, add_on: str) -> bool:
        """Requests of an add-on with its own controller are left to that controller."""
        offer = self._index.offers.get(add_on)
        if offer is None:
            return False
        kinds = {(config.group, config.resource) for config in offer.spec.supportedConfigs}
        return is_self_managed(offer) or configs.TEMPLATES not in kinds

    def _fault(self, request: CertificateSigningRequest, cluster: str, name: str) -> str:
        if reason := registration.refusal(request, cluster=cluster, add_on=name):
            return reason
        if not self._index.accepted(cluster):
            return NOT_ACCEPTED
        add_on = self._index.add_ons.get(name, namespace=cluster)
        if add_on is None or (add_on.metadata.deletionTimestamp and not add_on.metadata.finalizers):
            return NO_ADD_ON
        template = self._index.template_of(add_on)
        if template is None:
            return NO_TEMPLATE
        return "" if registration.registers(template) else NOT_REGISTERED
