"""Names of a cluster's RBAC objects, and cluster names that must not be accepted.

A cluster gets a namespace of its name, and roles whose names contain it. The hub accepts cluster names that are not
valid namespace names, or that already belong to others. OCM would use the namespace ``kube-system`` for a cluster of
that name and grant its agent permissions there; and the role of a cluster named ``work`` would replace the role that
all clusters share.
"""

import re
from typing import Final

from kubewire.api.annotation import NAMESPACE

PREFIX: Final = "open-cluster-management:managedcluster:"
"""Prefix of the names of roles and bindings."""
GROUP_PREFIX: Final = "system:open-cluster-management:"
"""Prefix of the groups of agents."""
REGISTRATION: Final = "registration"
WORK: Final = "work"
EVERYBODY: Final = "managed-clusters"
"""The group of all agents has the form of a cluster's group."""

LONGEST: Final = 63

NOT_A_NAMESPACE: Final = (
    "{name!r} is not a valid namespace name, which a cluster name must be: at most 63 lower case letters, "
    "digits and '-', with a letter or digit at both ends; join the cluster under another name"
)
RESERVED: Final = "{name!r} is reserved: {whose}; join the cluster under another name"
KUBERNETES_OWN: Final = "Kubernetes uses it for its own namespaces"
OCM_OWN: Final = "Open Cluster Management uses it for its own namespaces"
FAIRWAY_OWN: Final = "Fairway uses it for its own namespace"
ROLE_OF_ALL: Final = "the cluster's role would replace the role that all clusters share"
GROUP_OF_ALL: Final = "its agent's group would be the group of all agents"

_NAMESPACE: Final = re.compile(NAMESPACE.removesuffix("$"))
_EXACT: Final = {
    "default": KUBERNETES_OWN,
    "fairway-system": FAIRWAY_OWN,
    "open-cluster-management": OCM_OWN,
    REGISTRATION: ROLE_OF_ALL,
    WORK: ROLE_OF_ALL,
    EVERYBODY: GROUP_OF_ALL,
}
_PREFIXES: Final = {"kube-": KUBERNETES_OWN, "open-cluster-management-": OCM_OWN}


def refusal(name: str) -> str | None:
    """Return why a cluster of this name is not accepted."""
    if len(name) > LONGEST or not _NAMESPACE.fullmatch(name):
        return NOT_A_NAMESPACE.format(name=name)
    owner = _EXACT.get(name)
    if owner is None:
        owner = next((owner for prefix, owner in _PREFIXES.items() if name.startswith(prefix)), None)
    return None if owner is None else RESERVED.format(name=name, whose=owner)
