"""Permissions of the availability controller."""

from typing import Final

from fairway.api import GROUP
from fairway.controllers.availability.heartbeats import LEASE
from fairway.kube.lease import LEASES
from fairway.kube.rbac import Rule

RULES: Final = (
    Rule(groups=(GROUP,), resources=("managedclusters",), verbs=("list", "patch", "watch")),
    Rule(groups=(GROUP,), resources=("managedclusters/status",), verbs=("patch",)),
    # By this one name, which is what the informer asks for. Only the question how far the hub is has no name in it;
    # the informer does without an answer. To create something, no name can be required.
    Rule(groups=(LEASES.group,), resources=("leases",), verbs=("list", "watch"), names=(LEASE,)),
    Rule(groups=(LEASES.group,), resources=("leases",), verbs=("create",)),
)
