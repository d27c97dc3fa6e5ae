"""Permissions of the acceptance controller.

RBAC lets a controller grant a role only if it has all of that role's permissions itself. The alternative, the verb
``escalate``, would allow it everything.
"""

from typing import Final

from fairway.api import GROUP
from fairway.controllers.acceptance.grants import OF_REGISTRATION, OF_WORK, of_cluster
from fairway.controllers.kinds import RBAC_GROUP
from fairway.kube.csr import CLIENT_SIGNER, SIGNING_REQUESTS
from fairway.kube.rbac import Rule

RULES: Final = (
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("get", "list", "watch")),
    Rule(groups=(GROUP,), resources=("managedclusters/status",), verbs=("patch",)),
    Rule(groups=("",), resources=("namespaces",), verbs=("create", "list", "watch")),
    Rule(
        groups=(RBAC_GROUP,),
        resources=("clusterrolebindings", "clusterroles", "rolebindings"),
        verbs=("create", "delete", "list", "patch", "watch"),
    ),
    # Approval of renewals. Reading requests is among the rights of agents.
    Rule(
        groups=(SIGNING_REQUESTS.group,), resources=("certificatesigningrequests/approval",), verbs=("patch",)
    ),
    Rule(
        groups=(SIGNING_REQUESTS.group,), resources=("signers",), verbs=("approve",), names=(CLIENT_SIGNER,)
    ),
    Rule(groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)),
    *(
        Rule(groups=each.api_groups, resources=each.resources, verbs=each.verbs)
        for each in (*of_cluster(""), *OF_REGISTRATION, *OF_WORK)
    ),
)
