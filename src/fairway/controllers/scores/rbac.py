"""Permissions of the score controller."""

from typing import Final

from fairway.api import GROUP
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(groups=(GROUP,), resources=("addonplacementscores",), verbs=("delete", "list", "patch", "watch")),
    Rule(groups=(GROUP,), resources=("addonplacementscores/status",), verbs=("patch",)),
    Rule(groups=(GROUP,), resources=("managedclusters", "managedclusterscores"), verbs=("list", "watch")),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
)
