"""The identity that introduces clusters to a hub of managed clusters, as OCM names it.

It is there from the start, because clusteradm asks for a token of it and makes none where it is missing.
"""

from collections.abc import Iterator
from typing import Any, Final

from fairway.hub.resource import Document

NAMESPACE: Final = "open-cluster-management"
ACCOUNT: Final = "agent-registration-bootstrap"
ROLE: Final = "open-cluster-management:bootstrap"
BINDING: Final = "open-cluster-management:bootstrap:agent-registration"

RULES: Final[tuple[dict[str, Any], ...]] = (
    {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "list", "watch"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclusters"],
        "verbs": ["get", "create", "list", "watch"],
    },
)
"""What OCM lets agents do before they join, except what they have no use for: to read every ConfigMap, and to choose
the set their cluster is in."""

_RBAC: Final = "rbac.authorization.k8s.io"


def documents() -> Iterator[tuple[str, Document]]:
    """Each with the key of its resource, in the order in which they are to be created."""
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    yield "namespaces", {"metadata": {"name": NAMESPACE}}
    yield "serviceaccounts", {"metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    yield f"clusterroles.{_RBAC}", {"metadata": {"name": ROLE}, "rules": [dict(rule) for rule in RULES]}
    yield (
        f"clusterrolebindings.{_RBAC}",
        {
            "metadata": {"name": BINDING},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ROLE},
            "subjects": [subject],
        },
    )


def brought(document: Document) -> bool:
    """Whether every hub of managed clusters makes this object by itself. The namespace may hold more."""
    name, namespace = document["metadata"]["name"], document["metadata"].get("namespace", "")
    return (document.get("kind"), namespace, name) in (
        ("ServiceAccount", NAMESPACE, ACCOUNT),
        ("ClusterRole", "", ROLE),
        ("ClusterRoleBinding", "", BINDING),
    )
