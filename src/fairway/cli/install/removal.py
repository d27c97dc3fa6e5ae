"""What belongs to an installation on a hub, and how it is deleted.

Objects are found by the label that every installed object has, so an installation of any mode and version is found.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from fairway.cli.client.hub_objects import HubObjects
from fairway.install.installation import NAME, OURS, PART_OF, Document

LABEL: Final = f"{PART_OF}={NAME}"
CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_MONITORING: Final = "monitoring.coreos.com/v1"
KINDS: Final = (
    # The pods end first, while they have their rights: they release their Leases.
    ("apps/v1", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "ConfigMap"),
    (_MONITORING, "ServiceMonitor"),
    (_MONITORING, "PrometheusRule"),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"),
    (_ADMISSION, "ValidatingAdmissionPolicy"),
    (_RBAC, "ClusterRoleBinding"),
    (_RBAC, "ClusterRole"),
    (_RBAC, "RoleBinding"),
    (_RBAC, "Role"),
    ("v1", "ServiceAccount"),
    ("v1", "Namespace"),
)
"""Kinds of installed objects, in the order in which they are deleted."""
DATA: Final = (
    ("placement.fairway.dev/v1alpha1", "HostedClusterRequest"),
    ("cluster.open-cluster-management.io/v1", "ManagedCluster"),
)
"""Kinds whose objects have finalizers that only the running controllers remove, in the order in which they are deleted:
a hosted cluster must be deleted on its host before the host is."""
AGENT_ROLES: Final = (
    "open-cluster-management:managedcluster:registration",
    "open-cluster-management:managedcluster:work",
)
"""ClusterRoles that the controller ``acceptance`` creates for agents."""
POLL_SECONDS: Final = 0.5

Report = Callable[[Document], None]


async def installed(objects: HubObjects) -> AsyncIterator[Document]:
    """Yield the installed objects, in the order in which they are deleted. CRDs are not among them."""
    for version, kind in KINDS:
        async for document in objects.list(version, kind, labels=LABEL):
            yield document


async def data(objects: HubObjects, crds: list[Document]) -> list[Document]:
    """Return the objects of the kinds in ``DATA`` whose CRDs are deleted, too."""
    kinds = {definition["spec"]["names"]["kind"] for definition in crds}
    return [
        document for version, kind in DATA if kind in kinds async for document in objects.list(version, kind)
    ]


async def definitions(objects: HubObjects, names: frozenset[str]) -> list[Document]:
    """Return the CRDs that Fairway installed.

    OCM's kinds are among them only with our label: on a hub that runs OCM, wherever its operator is, the clusters and
    their definitions are OCM's.
    """
    return [
        document
        async for document in objects.list(*CRD)
        if document["metadata"]["name"] in names
        and (
            document["spec"]["names"]["kind"] in OURS
            or document["metadata"].get("labels", {}).get(PART_OF) == NAME
        )
    ]


async def agent_roles(objects: HubObjects) -> list[Document]:
    documents = [
        await objects.get({"apiVersion": _RBAC, "kind": "ClusterRole", "metadata": {"name": name}})
        for name in AGENT_ROLES
    ]
    return [document for document in documents if document is not None]


async def delete(objects: HubObjects, documents: list[Document], *, report: Report) -> None:
    """Delete objects, and return when the hub has none of them."""
    for document in documents:
        await objects.delete(document)
    for document in documents:
        await _gone(objects, document)
        report(document)


async def _gone(objects: HubObjects, document: Document) -> None:
    uid = document["metadata"]["uid"]
    while (live := await objects.get(document)) is not None and live["metadata"]["uid"] == uid:
        await asyncio.sleep(POLL_SECONDS)
