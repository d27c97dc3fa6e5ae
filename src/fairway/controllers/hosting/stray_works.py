"""ManifestWorks that no request has any more: after a finalizer was removed by force, or a delayed create."""

from typing import Final

from fairway.api.work import ManifestWork
from fairway.controllers.hosting.binding import host_of
from fairway.controllers.hosting.hub_access import HubAccess
from fairway.controllers.leadership import Leadership
from fairway.hosting.work import MANAGED_BY, MANAGER, REQUEST_ANNOTATION, REQUEST_UID_LABEL
from fairway.kube import HOSTED_CLUSTER_REQUESTS, MANIFEST_WORKS, NotFound

PREFIX: Final = "manifestworks/"
"""Of the namespace in keys of ManifestWorks. No namespace contains a slash."""


def is_ours(work: ManifestWork) -> bool:
    labels = work.metadata.labels
    return labels.get(MANAGED_BY) == MANAGER and REQUEST_UID_LABEL in labels


def request_name(work: ManifestWork) -> tuple[str, str]:
    namespace, _, name = work.metadata.annotations.get(REQUEST_ANNOTATION, "").partition("/")
    return namespace, name


async def delete_stray(work: ManifestWork, hub: HubAccess, *, leadership: Leadership) -> None:
    """Delete a ManifestWork whose request does not have its place there, as the hub shows it now."""
    if work.metadata.deletionTimestamp is not None:
        return
    namespace, name = request_name(work)
    if namespace and name:
        try:
            request = await hub.client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
        except NotFound:
            pass
        else:
            host = host_of(request)
            same = request.metadata.uid == work.metadata.labels.get(REQUEST_UID_LABEL)
            if same and host is not None and host.name == work.metadata.namespace:
                return
    await hub.writer.delete(MANIFEST_WORKS, work.metadata, leadership=leadership)
