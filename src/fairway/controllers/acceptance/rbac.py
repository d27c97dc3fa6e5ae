"""Permissions of the acceptance controller.

RBAC lets a controller grant a role only if it has all of that role's permissions itself. The alternative, the verb
``escalate``, would allow it everything.
"""

from typing import Final

from fairway.api import GROUP
from fairway.api.addon import ADD_ON_GROUP
from fairway.api.work import WORK_GROUP
from fairway.controllers.acceptance.grants import OF_REGISTRATION, OF_WORK, of_cluster
from fairway.controllers.acceptance.ocm_detection import LEASE
from fairway.controllers.kinds import RBAC_GROUP
from kubewire.client.csr import CLIENT_SIGNER, SIGNING_REQUESTS
from kubewire.client.lease import LEASES
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("get", "list", "patch", "watch")),
    Rule(groups=(GROUP,), resources=("managedclusters/status",), verbs=("patch",)),
    # Of the admission policy and of OCM's webhook: to accept clusters of the users in --auto-approve-user.
    Rule(
        groups=("register.open-cluster-management.io",),
        resources=("managedclusters/accept",),
        verbs=("update",),
    ),
    Rule(groups=("",), resources=("namespaces",), verbs=("create", "list", "watch")),
    Rule(
        groups=(RBAC_GROUP,),
        resources=("clusterrolebindings", "clusterroles", "rolebindings"),
        verbs=("create", "delete", "list", "patch", "watch"),
    ),
    # Clean-up of deleted clusters. Reading is among the rights of agents.
    Rule(groups=(ADD_ON_GROUP,), resources=("managedclusteraddons",), verbs=("delete",)),
    Rule(groups=(WORK_GROUP,), resources=("manifestworks",), verbs=("delete",)),
    Rule(groups=(LEASES.group,), resources=("leases",), verbs=("list", "watch"), names=(LEASE,)),
    # Approval of renewals. Reading requests is among the rights of agents.
    Rule(
        groups=(SIGNING_REQUESTS.group,), resources=("certificatesigningrequests/approval",), verbs=("patch",)
    ),
    Rule(
        groups=(SIGNING_REQUESTS.group,), resources=("signers",), verbs=("approve",), names=(CLIENT_SIGNER,)
    ),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
    *(
        Rule(groups=grant.api_groups, resources=grant.resources, verbs=grant.verbs)
        for grant in (*of_cluster(""), *OF_REGISTRATION, *OF_WORK)
    ),
)
