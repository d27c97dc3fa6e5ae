"""Permissions of providers on a hub."""

from typing import Final

from fairway.api import GROUP
from kubewire.client.lease import LEASES
from kubewire.client.rbac import Rule

_SCORES: Final = Rule(
    groups=(GROUP,), resources=("addonplacementscores",), verbs=("create", "get", "list", "watch")
)
_STATUS: Final = Rule(groups=(GROUP,), resources=("addonplacementscores/status",), verbs=("patch",))

CLUSTER_RULES: Final = (_SCORES, _STATUS)
"""For a cluster provider, in the namespace of its cluster."""

FLEET_RULES: Final = (
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("list", "watch")),
    _SCORES,
    _STATUS,
)
"""For a fleet provider."""

LEASE_RULES: Final = (Rule(groups=(LEASES.group,), resources=("leases",), verbs=("create", "get", "patch")),)
"""Added by ``--leader-elect``, in the namespace of the Lease."""

ADOPT_RULES: Final = (Rule(groups=(GROUP,), resources=("addonplacementscores",), verbs=("patch",)),)
"""Added by ``--adopt``."""

RAW_RULES: Final = (
    Rule(groups=(GROUP,), resources=("managedclusterscores",), verbs=("create", "delete", "get", "list")),
    Rule(groups=(GROUP,), resources=("managedclusterscores/status",), verbs=("patch",)),
)
"""Added by ``--managed-cluster-scores``."""

CLEANUP_RULES: Final = (
    Rule(
        groups=(GROUP,), resources=("addonplacementscores", "managedclusterscores"), verbs=("delete", "list")
    ),
)
"""For ``fairway provider cleanup``."""
