"""What the parts of the hosting controller read and write on the hub, in one place."""

from dataclasses import dataclass
from typing import Final

from fairway.api.hosted_request import HostedClusterRequest, HostedClusterRequestStatus
from fairway.api.secret import Secret
from fairway.api.work import ManifestWork
from fairway.controllers.fenced_writer import FencedWriter
from fairway.controllers.leadership import Leadership
from fairway.hosting.status import patch_of
from fairway.hosting.work import SECRET_MISSING, WorkError
from fairway.kube import (
    HOSTED_CLUSTER_REQUESTS,
    MANIFEST_WORKS,
    Client,
    Clock,
    Forbidden,
    Informer,
    NotFound,
    Recorder,
    Resource,
)

FINALIZER: Final = "placement.fairway.dev/hosting"
SECRET_FORBIDDEN: Final = (
    "spec.secrets: this controller has no right to get Secret {namespace}/{name}; grant it to its service account by a "
    "Role in namespace {namespace}"
)
SECRETS: Final = Resource(
    group="", version="v1", plural="secrets", kind="Secret", namespaced=True, type=Secret
)


@dataclass(frozen=True, kw_only=True)
class HubAccess:
    client: Client
    writer: FencedWriter
    recorder: Recorder
    requests: Informer[HostedClusterRequest]
    works: Informer[ManifestWork]
    clock: Clock

    async def write_status(
        self, request: HostedClusterRequest, status: HostedClusterRequestStatus, leadership: Leadership
    ) -> HostedClusterRequest:
        """Write a status unless it is equal. Raises Conflict if the request has changed."""
        if status == request.status:
            return request
        written = await self.writer.patch(
            HOSTED_CLUSTER_REQUESTS,
            request.metadata,
            patch_of(status),
            leadership=leadership,
            subresource="status",
        )
        self.requests.observe(written)
        return written

    async def set_finalizer(
        self, request: HostedClusterRequest, *, present: bool, leadership: Leadership
    ) -> HostedClusterRequest:
        kept = [each for each in request.metadata.finalizers if each != FINALIZER]
        if present == (len(kept) < len(request.metadata.finalizers)):
            return request
        body = {"metadata": {"finalizers": [*kept, FINALIZER] if present else kept}}
        written = await self.writer.patch(
            HOSTED_CLUSTER_REQUESTS, request.metadata, body, leadership=leadership
        )
        if present:
            self.requests.observe(written)
        return written

    async def read_request(self, request: HostedClusterRequest) -> HostedClusterRequest | None:
        """Return the request as the hub has it now; None if it was deleted or recreated."""
        meta = request.metadata
        try:
            found = await self.client.get(HOSTED_CLUSTER_REQUESTS, meta.name, namespace=meta.namespace)
        except NotFound:
            return None
        return found if found.metadata.uid == meta.uid else None

    async def read_work(self, name: str, *, namespace: str) -> ManifestWork | None:
        try:
            return await self.client.get(MANIFEST_WORKS, name, namespace=namespace)
        except NotFound:
            return None

    async def read_secrets(self, request: HostedClusterRequest) -> dict[str, Secret]:
        """Return the Secrets that a request names. Raises WorkError if one does not exist or must not be read."""
        found: dict[str, Secret] = {}
        namespace = request.metadata.namespace
        for each in request.spec.secrets:
            try:
                found[each.name] = await self.client.get(SECRETS, each.name, namespace=namespace)
            except NotFound:
                raise WorkError(SECRET_MISSING.format(namespace=namespace, name=each.name)) from None
            except Forbidden:
                raise WorkError(SECRET_FORBIDDEN.format(namespace=namespace, name=each.name)) from None
        return found
