"""Permissions of the machines controller. Those of virtual machines matter only on hubs that serve them; their
definitions are watched, because a hypervisor can be installed later."""

from typing import Final

from fairway.api.kubevirt import KUBEVIRT_GROUP
from fairway.api.pod_group import POD_GROUP_API
from fairway.api.virtual_machine import NEON_GROUP
from fairway.controllers.machines.hypervisors import HYPERVISORS
from fairway.controllers.machines.kinds import POD_GROUPS
from fairway.controllers.optional_kinds import definition_rule
from fairway.controllers.serving import RULES as REVIEWS
from fairway.kube.rbac import Rule

OPTIONAL: Final = (
    *(kind for each in HYPERVISORS.values() for kind in (each.machines, each.migrations)),
    POD_GROUPS,
)
"""Kinds that a hub may begin to serve at any time."""

RULES: Final = (
    Rule(
        groups=("",),
        resources=(
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "replicationcontrollers",
            "services",
        ),
        verbs=("list", "watch"),
    ),
    Rule(groups=("apps",), resources=("replicasets", "statefulsets"), verbs=("list", "watch")),
    Rule(groups=("",), resources=("pods",), verbs=("delete", "get", "list", "watch")),
    Rule(groups=("",), resources=("pods/binding",), verbs=("create",)),
    Rule(groups=("",), resources=("pods/status",), verbs=("patch",)),
    Rule(groups=("policy",), resources=("poddisruptionbudgets",), verbs=("list", "watch")),
    Rule(groups=(NEON_GROUP,), resources=("virtualmachines",), verbs=("get", "list", "patch", "watch")),
    Rule(
        groups=(NEON_GROUP,),
        resources=("virtualmachinemigrations",),
        verbs=("create", "delete", "get", "list", "patch", "watch"),
    ),
    Rule(groups=(KUBEVIRT_GROUP,), resources=("virtualmachineinstances",), verbs=("list", "watch")),
    Rule(
        groups=(KUBEVIRT_GROUP,),
        resources=("virtualmachineinstancemigrations",),
        verbs=("create", "delete", "get", "list", "patch", "watch"),
    ),
    definition_rule(OPTIONAL),
    # Agents of virtual machines prove who they are with tokens.
    *REVIEWS,
    Rule(groups=(POD_GROUP_API,), resources=("podgroups",), verbs=("list", "watch")),
    Rule(groups=("events.k8s.io",), resources=("events",), verbs=("create", "patch")),
)
