"""Permissions of the add-on controller.

To grant an agent its role, the controller needs the verb ``bind`` on that role. It has it for the add-on that ships
with Fairway; an administrator grants it for other add-ons. ``bind`` on all roles would allow it everything.
"""

from typing import Final

from fairway.api import GROUP
from fairway.api.addon import ADD_ON_GROUP
from fairway.api.work import WORK_GROUP
from fairway.controllers.addons.ocm_detection import LEASE
from fairway.controllers.kinds import RBAC_GROUP
from kubewire.client.csr import CLIENT_SIGNER, SIGNING_REQUESTS
from kubewire.client.lease import LEASES
from kubewire.client.rbac import Rule

AGENT_ROLE: Final = "open-cluster-management:resource-usage-collect:agent"
"""The role of the agent of Fairway's own add-on in its cluster's namespace."""

_READ: Final = ("list", "watch")

RULES: Final = (
    Rule(
        groups=(ADD_ON_GROUP,),
        resources=("addondeploymentconfigs", "addontemplates", "clustermanagementaddons"),
        verbs=_READ,
    ),
    Rule(
        groups=(ADD_ON_GROUP,),
        resources=("managedclusteraddons",),
        verbs=("create", "delete", "patch", *_READ),
    ),
    Rule(
        groups=(ADD_ON_GROUP,),
        resources=("clustermanagementaddons/status", "managedclusteraddons/status"),
        verbs=("patch",),
    ),
    # Required by hubs with OwnerReferencesPermissionEnforcement, for blockOwnerDeletion.
    Rule(
        groups=(ADD_ON_GROUP,),
        resources=("clustermanagementaddons/finalizers", "managedclusteraddons/finalizers"),
        verbs=("update",),
    ),
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("patch", *_READ)),
    Rule(groups=(GROUP,), resources=("placementdecisions", "placements"), verbs=_READ),
    Rule(groups=(WORK_GROUP,), resources=("manifestworks",), verbs=("create", "patch", *_READ)),
    Rule(groups=(RBAC_GROUP,), resources=("rolebindings",), verbs=("create", "delete", "patch", *_READ)),
    Rule(groups=(RBAC_GROUP,), resources=("clusterroles",), verbs=("bind",), names=(AGENT_ROLE,)),
    Rule(groups=(SIGNING_REQUESTS.group,), resources=("certificatesigningrequests",), verbs=_READ),
    Rule(
        groups=(SIGNING_REQUESTS.group,), resources=("certificatesigningrequests/approval",), verbs=("patch",)
    ),
    Rule(
        groups=(SIGNING_REQUESTS.group,), resources=("signers",), verbs=("approve",), names=(CLIENT_SIGNER,)
    ),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
    Rule(groups=(LEASES.group,), resources=("leases",), verbs=_READ, names=(LEASE,)),
)
