"""The requests that the scheduling of pods sends to the hub: bindings, statuses, deletions, and reads of one pod."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fairway.api.pod import Pod
from fairway.controllers.leadership import Leadership
from fairway.controllers.write_limiter import Lane, WriteLimiter
from fairway.engine.workload import WorkloadKey
from fairway.kube import ApiError, Client, KubeError, NotFound, Patch
from fairway.kube.resource import PODS
from fairway.observe.meters import Meters

FIELD_MANAGER: Final = "fairway-machines"
CONTROLLER: Final = "machines"


class PodAccess:
    """All writes name the uid: a pod that was recreated under the same name is not touched. Methods raise KubeErrors,
    and Lost when the term is over."""

    def __init__(
        self, client: Client, *, leadership: Leadership, meters: Meters, limiter: WriteLimiter
    ) -> None:
        self._client, self._leadership, self._meters, self._limiter = client, leadership, meters, limiter

    async def bind(self, key: WorkloadKey, node: str) -> None:
        body = {
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": key.uid},
            "target": {"kind": "Node", "name": node},
        }
        async with self._limiter.turn(Lane.DECISION):
            with self._counted("pods/binding", "create"):
                await self._client.create(
                    PODS, body, namespace=key.namespace, subresource="binding", field_manager=FIELD_MANAGER
                )

    async def read(self, key: WorkloadKey) -> Pod | None:
        """Return the pod as the hub has it now; None if it was deleted or recreated."""
        try:
            found = await self._client.get(PODS, key.name, namespace=key.namespace)
        except NotFound:
            return None
        return found if found.metadata.uid == key.uid else None

    async def patch_status(self, key: WorkloadKey, status: Mapping[str, Any]) -> Pod:
        """Merge a status; conditions are merged by their type."""
        with self._counted("pods/status", "patch"):
            return await self._client.patch(
                PODS,
                key.name,
                {"metadata": {"uid": key.uid}, "status": status},
                kind=Patch.STRATEGIC,
                namespace=key.namespace,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )

    async def delete(self, key: WorkloadKey) -> None:
        """Delete a pod with its own grace period."""
        with self._counted("pods", "delete"):
            await self._client.delete(PODS, key.name, namespace=key.namespace, uid=key.uid)

    @contextmanager
    def _counted(self, resource: str, verb: str) -> Iterator[None]:
        self._leadership.ensure()
        error = ""
        try:
            yield
        except KubeError as failure:
            error = (failure.reason if isinstance(failure, ApiError) else "") or type(failure).__name__
            raise
        finally:
            self._meters.write(controller=CONTROLLER, resource=resource, verb=verb, error=error)
