"""Permissions for the scheduling of pods."""

from typing import Final

from fairway.api.pod_group import POD_GROUP_API
from fairway.api.storage import STORAGE_GROUP
from fairway.controllers.pods.kinds import STORAGE
from kubewire.client.rbac import Rule

RULES: Final = (
    Rule(
        groups=("",),
        resources=(
            "namespaces",
            "nodes",
            "replicationcontrollers",
            "services",
        ),
        verbs=("list", "watch"),
    ),
    Rule(
        groups=("",),
        resources=("persistentvolumeclaims", "persistentvolumes"),
        verbs=("list", "patch", "watch"),
    ),
    Rule(
        groups=(STORAGE_GROUP,),
        resources=tuple(sorted(kind.plural for kind in STORAGE)),
        verbs=("list", "watch"),
    ),
    Rule(groups=("apps",), resources=("replicasets", "statefulsets"), verbs=("list", "watch")),
    Rule(groups=("",), resources=("pods",), verbs=("delete", "get", "list", "watch")),
    Rule(groups=("",), resources=("pods/binding",), verbs=("create",)),
    Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
    Rule(groups=("policy",), resources=("poddisruptionbudgets",), verbs=("list", "watch")),
    Rule(groups=(POD_GROUP_API,), resources=("podgroups",), verbs=("list", "watch")),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
)
