"""Permissions of the recovery controller."""

from typing import Final

from fairway.api import GROUP
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(
        groups=(GROUP,),
        resources=("addonplacementscores", "managedclusterscores", "managedclustersets"),
        verbs=("list", "watch"),
    ),
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("get", "list", "patch", "watch")),
    Rule(groups=(GROUP,), resources=("managedclusters/status",), verbs=("patch",)),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
)
