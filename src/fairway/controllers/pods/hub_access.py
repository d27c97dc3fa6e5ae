"""The requests that the scheduling of pods sends to the hub: bindings of pods and volumes, statuses, deletions, and
reads of one pod."""

from collections.abc import Mapping
from typing import Any

from fairway.api.persistent_volume import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)
from fairway.api.pod import Pod
from fairway.api.resources import PODS
from fairway.controllers.pods.kinds import CLAIMS, VOLUMES
from fairway.controllers.runtime.write_limiter import Lane
from fairway.controllers.runtime.writer import Writer
from fairway.engine.workload import WorkloadKey
from kubewire.api.meta import ObjectMeta
from kubewire.client import Client, Informer, NotFound, Patch


def find_pod(pods: Informer[Pod], key: WorkloadKey) -> Pod | None:
    """Return a pod as the informer has it; None if it was deleted, or recreated under the same name."""
    pod = pods.get(key.name, namespace=key.namespace)
    return pod if pod is not None and pod.metadata.uid == key.uid else None


class PodAccess:
    """All writes name the uid: a pod that was recreated under the same name is not touched. Methods raise KubeErrors,
    and Lost when the term is over."""

    def __init__(self, client: Client, writer: Writer) -> None:
        self._client, self._writer = client, writer

    async def bind(self, key: WorkloadKey, node: str) -> None:
        body = {
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": key.uid},
            "target": {"kind": "Node", "name": node},
        }
        async with self._writer.turn(Lane.DECISION):
            await self._writer.create(PODS, body, namespace=key.namespace, subresource="binding")

    async def read(self, key: WorkloadKey) -> Pod | None:
        """Return the pod as the hub has it now; None if it was deleted or recreated."""
        try:
            pod = await self._client.get(PODS, key.name, namespace=key.namespace)
        except NotFound:
            return None
        return pod if pod.metadata.uid == key.uid else None

    async def patch_status(self, key: WorkloadKey, status: Mapping[str, Any]) -> Pod:
        """Merge a status; conditions are merged by their type."""
        return await self._writer.patch_any_version(
            PODS,
            key.name,
            {"metadata": {"uid": key.uid}, "status": status},
            kind=Patch.STRATEGIC,
            namespace=key.namespace,
            subresource="status",
        )

    async def delete(self, key: WorkloadKey) -> None:
        """Delete a pod with its own grace period."""
        pod = ObjectMeta(name=key.name, namespace=key.namespace, uid=key.uid)
        await self._writer.delete(PODS, pod, any_version=True)

    async def reserve_volume(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> PersistentVolume:
        """Write a claim to a volume, as kube-scheduler does: a controller then binds both."""
        annotations = volume.metadata.annotations
        body = {
            "metadata": {
                "annotations": {BOUND_BY_CONTROLLER: annotations.get(BOUND_BY_CONTROLLER, "yes")}
                if volume.spec.claimRef is None
                else {},
            },
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": claim.metadata.namespace,
                    "name": claim.metadata.name,
                    "uid": claim.metadata.uid,
                    "resourceVersion": claim.metadata.resourceVersion,
                }
            },
        }
        async with self._writer.batch(), self._writer.turn(Lane.DECISION):
            return await self._writer.patch(VOLUMES, volume.metadata, body)

    async def select_node(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
        """Write the node for which the volume of a claim is to be provisioned."""
        body = {"metadata": {"annotations": {SELECTED_NODE: node}}}
        async with self._writer.batch(), self._writer.turn(Lane.DECISION):
            return await self._writer.patch(CLAIMS, claim.metadata, body)
