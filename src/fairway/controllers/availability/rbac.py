"""Permissions of the availability controller."""

from typing import Final

from fairway.api import GROUP
from fairway.controllers.availability.heartbeats import LEASE
from kubewire.client.lease import LEASES
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("list", "patch", "watch")),
    Rule(groups=(GROUP,), resources=("managedclusters/status",), verbs=("patch",)),
    # Restricted to the name that the informer selects. The informer also requests the hub's current version, without
    # a name, and continues if that is forbidden. RBAC cannot restrict create to a name.
    Rule(groups=(LEASES.group,), resources=("leases",), verbs=("list", "watch"), names=(LEASE,)),
    Rule(groups=(LEASES.group,), resources=("leases",), verbs=("create",)),
)
