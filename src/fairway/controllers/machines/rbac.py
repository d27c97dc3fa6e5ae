"""Permissions of the machines controller."""

from typing import Final

from fairway.kube.rbac import Rule

RULES: Final = (
    Rule(
        groups=("",),
        resources=("namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes"),
        verbs=("list", "watch"),
    ),
    Rule(groups=("",), resources=("pods",), verbs=("delete", "get", "list", "watch")),
    Rule(groups=("",), resources=("pods/binding",), verbs=("create",)),
    Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
    Rule(groups=("policy",), resources=("poddisruptionbudgets",), verbs=("list", "watch")),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
)
