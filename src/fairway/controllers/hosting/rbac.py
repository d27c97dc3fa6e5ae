"""Permissions of the hosting controller.

They contain no Secrets: a Role in the namespace of the requests grants the right to get those that they name.
"""

from typing import Final

from fairway.api import GROUP
from fairway.api.hosting_policy import HOSTING_GROUP
from fairway.api.work import WORK_GROUP
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(
        groups=(GROUP,),
        resources=(
            "addonplacementscores",
            "managedclusters",
            "managedclustersetbindings",
            "managedclustersets",
            "placementdecisions",
            "placements",
        ),
        verbs=("list", "watch"),
    ),
    Rule(
        groups=(HOSTING_GROUP,),
        resources=("hostedclusterrequests",),
        verbs=("get", "list", "patch", "watch"),
    ),
    Rule(groups=(HOSTING_GROUP,), resources=("hostingpolicies",), verbs=("list", "watch")),
    Rule(
        groups=(HOSTING_GROUP,),
        resources=("hostedclusterrequests/status", "hostingpolicies/status"),
        verbs=("patch",),
    ),
    Rule(
        groups=(WORK_GROUP,),
        resources=("manifestworks",),
        verbs=("create", "delete", "get", "list", "patch", "watch"),
    ),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
)
