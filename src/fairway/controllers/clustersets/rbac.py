"""Permissions of the cluster set controller."""

from typing import Final

from fairway.api import GROUP
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(
        groups=(GROUP,),
        resources=("managedclusters", "managedclustersetbindings", "managedclustersets"),
        verbs=("list", "watch"),
    ),
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("patch",)),
    Rule(groups=(GROUP,), resources=("managedclustersets",), verbs=("create", "patch")),
    Rule(
        groups=(GROUP,),
        resources=("managedclustersetbindings/status", "managedclustersets/status"),
        verbs=("patch",),
    ),
)
