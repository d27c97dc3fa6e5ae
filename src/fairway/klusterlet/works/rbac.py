"""Permissions of the work agent, on the hub and on the managed cluster."""

from typing import Final

from kubewire.client.rbac import Rule

_WORK: Final = ("work.open-cluster-management.io",)

RULES_HUB: Final = (
    Rule(groups=_WORK, resources=("manifestworks",), verbs=("get", "list", "watch", "patch")),
    Rule(groups=_WORK, resources=("manifestworks/status",), verbs=("patch",)),
)
"""In the namespace of the cluster. The permissions that OCM and ``fairway accept`` grant are sufficient."""

RULES_HUB_TTL: Final = (Rule(groups=_WORK, resources=("manifestworks",), verbs=("delete",)),)
"""For ``deleteOption.ttlSecondsAfterFinished``. Without it, a controller of the hub must delete works."""

RULES_CLUSTER: Final = (
    Rule(
        groups=_WORK,
        resources=("appliedmanifestworks",),
        verbs=("get", "list", "watch", "create", "patch", "delete"),
    ),
    Rule(groups=_WORK, resources=("appliedmanifestworks/status",), verbs=("patch",)),
    Rule(groups=("*",), resources=("*",), verbs=("get", "list", "watch", "create", "patch", "delete")),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
    Rule(groups=("",), resources=("serviceaccounts", "groups"), verbs=("impersonate",)),
    Rule(
        groups=("rbac.authorization.k8s.io",), resources=("clusterroles", "roles"), verbs=("bind", "escalate")
    ),
)
"""On the whole managed cluster. The third may be restricted to the kinds of the works; the fourth and fifth are for
works with an executor, the last for works that grant permissions which the agent does not have."""
