"""What the parts of the hosting controller read and write on the hub, in one place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.api.hosted_request import HostedClusterRequest, HostedClusterRequestStatus
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANIFEST_WORKS
from fairway.api.secret import Secret
from fairway.api.work import ManifestWork
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.writer import Writer
from fairway.workloads.hosting.requests.request_status import patch_of, summarize
from fairway.workloads.hosting.requests.work import SECRET_MISSING, WorkError
from fairway.workloads.hosting.rules.policy import Policy, find_policy
from fairway.workloads.hosting.workload import MOVE_PLAN, MOVE_TO, policy_name
from kubewire.client import Client, Clock, Forbidden, Informer, NotFound, Recorder, Resource

FINALIZER: Final = "placement.fairway.dev/hosting"
SECRET_FORBIDDEN: Final = (
    "spec.secrets: this controller has no right to get Secret {namespace}/{name}; grant it to its service account by a "
    "Role in namespace {namespace}"
)
SECRETS_TOO_LARGE: Final = (
    "spec.secrets: the Secrets up to {namespace}/{name} have more than {limit:,} bytes together, which no ManifestWork "
    "can carry; name fewer or smaller ones"
)
MOST_SECRET_BYTES: Final = 1 << 20
"""Of all Secrets of a request. An object on the hub has at most 1.5 MiB, and base64 makes four bytes of three."""
SECRETS: Final = Resource(
    group="", version="v1", plural="secrets", kind="Secret", namespaced=True, type=Secret
)


@dataclass(frozen=True, kw_only=True)
class HubAccess:
    client: Client
    writer: Writer
    recorder: Recorder
    requests: Informer[HostedClusterRequest]
    works: Informer[ManifestWork]
    policies: Mapping[str, Policy]
    clock: Clock
    history: DecisionHistory | None = None

    async def write_status(
        self, request: HostedClusterRequest, status: HostedClusterRequestStatus
    ) -> HostedClusterRequest:
        """Write a status, with its summary, unless it is equal. Raises Conflict if the request has changed."""
        status = summarize(request, status)
        if status == request.status:
            return request
        written = await self.writer.patch(
            HOSTED_CLUSTER_REQUESTS,
            request.metadata,
            patch_of(status),
            subresource="status",
        )
        self.requests.observe(written)
        return written

    async def set_finalizer(self, request: HostedClusterRequest, *, present: bool) -> HostedClusterRequest:
        kept = [finalizer for finalizer in request.metadata.finalizers if finalizer != FINALIZER]
        if present == (len(kept) < len(request.metadata.finalizers)):
            return request
        body = {"metadata": {"finalizers": [*kept, FINALIZER] if present else kept}}
        written = await self.writer.patch(HOSTED_CLUSTER_REQUESTS, request.metadata, body)
        if present:
            self.requests.observe(written)
        return written

    async def withdraw_approval(self, request: HostedClusterRequest) -> HostedClusterRequest:
        """Remove the approval of a move to a hosting cluster that was lost, so that others qualify again."""
        annotations = dict.fromkeys(
            name for name in (MOVE_TO, MOVE_PLAN) if name in request.metadata.annotations
        )
        if not annotations:
            return request
        written = await self.writer.patch(
            HOSTED_CLUSTER_REQUESTS, request.metadata, {"metadata": {"annotations": annotations}}
        )
        self.requests.observe(written)
        return written

    async def read_request(self, request: HostedClusterRequest) -> HostedClusterRequest | None:
        """Return the request as the hub has it now; None if it was deleted or recreated."""
        meta = request.metadata
        try:
            current = await self.client.get(HOSTED_CLUSTER_REQUESTS, meta.name, namespace=meta.namespace)
        except NotFound:
            return None
        return current if current.metadata.uid == meta.uid else None

    async def read_work(self, name: str, *, namespace: str) -> ManifestWork | None:
        try:
            return await self.client.get(MANIFEST_WORKS, name, namespace=namespace)
        except NotFound:
            return None

    async def read_secrets(self, request: HostedClusterRequest) -> dict[str, Secret]:
        """Return the Secrets that a request names.

        Raises WorkError if one does not exist or must not be read, or if they are too large together, NotPermitted
        for a type that the policy does not permit, PolicyError if there is no policy.
        """
        secrets: dict[str, Secret] = {}
        size = 0
        namespace = request.metadata.namespace
        for reference in request.spec.secrets:
            try:
                secrets[reference.name] = await self.client.get(SECRETS, reference.name, namespace=namespace)
            except NotFound:
                raise WorkError(SECRET_MISSING.format(namespace=namespace, name=reference.name)) from None
            except Forbidden:
                raise WorkError(SECRET_FORBIDDEN.format(namespace=namespace, name=reference.name)) from None
            size += sum(map(len, secrets[reference.name].data.values()))
            if size > MOST_SECRET_BYTES:
                # 64 requests are bound at once: with 64 Secrets of 1 MiB each, they would fill the memory.
                given = {"namespace": namespace, "name": reference.name, "limit": MOST_SECRET_BYTES}
                raise WorkError(SECRETS_TOO_LARGE.format(**given))
        # Not spec.policy: a user may change it to one that permits more, also to one that is not for the namespace.
        policy = find_policy(self.policies, policy_name(request))
        policy.permits.check_secret_types(secrets, policy=policy.name)
        return secrets
