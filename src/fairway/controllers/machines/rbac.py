"""Permissions of the machines controller. Those of virtual machines matter only on hubs that serve them; their
definitions are watched, because a hypervisor can be installed later."""

from typing import Final

from fairway.api.hosting_policy import HOSTING_GROUP
from fairway.api.kubevirt import KUBEVIRT_GROUP
from fairway.api.resources import MACHINE_MIGRATIONS
from fairway.api.virtual_machine import NEON_GROUP
from fairway.controllers.machines.hypervisors import HYPERVISORS
from fairway.controllers.machines.kinds import KUBEVIRTS
from fairway.controllers.pods import RULES as PODS
from fairway.controllers.pods.kinds import POD_GROUPS
from fairway.controllers.runtime.optional_kinds import definition_rule
from fairway.controllers.serving import RULES as REVIEWS
from kubewire.client.rbac import Rule

OPTIONAL: Final = (
    *(kind for hypervisor in HYPERVISORS.values() for kind in (hypervisor.machines, hypervisor.migrations)),
    MACHINE_MIGRATIONS,
    KUBEVIRTS,
    POD_GROUPS,
)
"""Kinds that a hub may begin to serve at any time."""

RULES: Final = (
    *PODS,
    Rule(groups=(NEON_GROUP,), resources=("virtualmachines",), verbs=("get", "list", "patch", "watch")),
    Rule(
        groups=(NEON_GROUP,),
        resources=("virtualmachinemigrations",),
        verbs=("create", "delete", "get", "list", "watch"),
    ),
    Rule(
        groups=(KUBEVIRT_GROUP,), resources=("kubevirts", "virtualmachineinstances"), verbs=("list", "watch")
    ),
    Rule(
        groups=(KUBEVIRT_GROUP,),
        resources=("virtualmachineinstancemigrations",),
        verbs=("create", "delete", "get", "list", "watch"),
    ),
    Rule(
        groups=(HOSTING_GROUP,),
        resources=("machinemigrations",),
        verbs=("create", "delete", "get", "list", "patch", "watch"),
    ),
    definition_rule(OPTIONAL),
    # Agents of virtual machines prove who they are with tokens.
    *REVIEWS,
)
