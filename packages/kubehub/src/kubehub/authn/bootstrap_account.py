"""The service account that joining clusters use, with OCM's name.

The hub creates it at the start, because clusteradm requests a token for it and doesn't create it.
"""

from collections.abc import Iterator
from typing import Any, Final

from kubehub.resource import Document

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
"""OCM's permissions of joining agents, except those they don't need: to read every ConfigMap, and to choose the set
of their cluster."""

_RBAC: Final = "rbac.authorization.k8s.io"


def documents() -> Iterator[tuple[str, Document]]:
    """Yield each object with its resource key, in the order of creation."""
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


def is_default(document: Document) -> bool:
    """Return whether the hub creates this object itself. Its namespace may contain others."""
    name, namespace = document["metadata"]["name"], document["metadata"].get("namespace", "")
    return (document.get("kind"), namespace, name) in (
        ("ServiceAccount", NAMESPACE, ACCOUNT),
        ("ClusterRole", "", ROLE),
        ("ClusterRoleBinding", "", BINDING),
    )
