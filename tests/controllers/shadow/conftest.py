"""OCM's own placement controller, or what is seen of it: a Lease that it holds, and decisions in its form."""

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from fairway.controllers.placement import ocm_detection
from kubewire.api.lease import format_micro_time
from kubewire.client import AlreadyExists, Client, NotFound
from kubewire.client.lease import LEASES

HOLDER = "cluster-manager-placement-controller-7d9f_4711"


class Reference:
    """Hold the Lease in ``namespace``, by default that of OCM's controller."""

    def __init__(self, client: Client, *, namespace: str = ocm_detection.NAMESPACE) -> None:
        self.namespace = namespace
        self._client = client

    async def hold(
        self, *, ago: float = 0.0, holder: str = HOLDER, lasts: int | None = ocm_detection.USUAL_LEASE
    ) -> None:
        """Renewed so many seconds ago."""
        with suppress(AlreadyExists):
            body = {"metadata": {"name": self.namespace}}
            await self._client.request("POST", "/api/v1/namespaces", body=body)
        stamp = format_micro_time(datetime.now(UTC) - timedelta(seconds=ago))
        spec = {"holderIdentity": holder, "leaseDurationSeconds": lasts, "renewTime": stamp}
        document = {
            "metadata": {"name": ocm_detection.LEASE},
            "spec": {k: v for k, v in spec.items() if v is not None},
        }
        await self._client.create(LEASES, document, namespace=self.namespace)

    async def go(self) -> None:
        with suppress(NotFound):
            await self._client.delete(LEASES, ocm_detection.LEASE, namespace=self.namespace)


@pytest.fixture
async def reference(client: Client) -> AsyncIterator[Reference]:
    """Deleted afterwards, because the hub is shared."""
    made = Reference(client)
    await made.go()
    yield made
    await made.go()
