"""ManifestWorks that no request has any more: after a finalizer was removed by force, or a delayed create."""

from fairway.api.hosted_request import REQUEST_UID_LABEL, HostedClusterRequest
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANIFEST_WORKS
from fairway.api.work import ManifestWork
from fairway.controllers.hosting.binding import host_of
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.workloads.hosting.requests.work import is_created_by_fairway, request_name
from kubewire.client import NotFound


async def delete_stray(work: ManifestWork, hub: HubAccess) -> None:
    """Delete a ManifestWork whose request does not have its place there, as the hub shows it now."""
    if work.metadata.deletionTimestamp is not None or not is_created_by_fairway(work):
        return
    namespace, name = request_name(work)
    if namespace and name:
        seen = hub.requests.get(name, namespace=namespace)
        if seen is not None and _has_place_at(work, seen):
            return  # only a deletion needs to be sure: each change of one of many works would cost a read
        try:
            request = await hub.client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
        except NotFound:
            pass
        else:
            if _has_place_at(work, request):
                return
    await hub.writer.delete(MANIFEST_WORKS, work.metadata)


def _has_place_at(work: ManifestWork, request: HostedClusterRequest) -> bool:
    host = host_of(request)
    same = request.metadata.uid == work.metadata.labels.get(REQUEST_UID_LABEL)
    return same and host is not None and host.name == work.metadata.namespace
