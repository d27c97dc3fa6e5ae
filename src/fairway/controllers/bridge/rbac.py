"""Permissions of the bridge."""

from typing import Final

from fairway.api import GROUP
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(
        groups=(GROUP,),
        resources=("addonplacementscores", "managedclusterscores"),
        verbs=("create", "delete", "list", "patch", "watch"),
    ),
    Rule(
        groups=(GROUP,),
        resources=("addonplacementscores/status", "managedclusterscores/status"),
        verbs=("patch",),
    ),
)
