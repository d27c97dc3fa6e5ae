"""Acceptance: what a cluster gets on the hub once an administrator sets ``spec.hubAcceptsClient``.

    ManagedCluster ──▶ controller ──▶ namespace, roles and bindings of its agent, condition HubAcceptedManagedCluster

``grants`` has the agent's rights, ``csr_approval`` approves the renewal of its certificates, ``requests`` checks and
approves the first one for `fairway accept`, ``auto_approval`` accepts clusters of listed bootstrap users,
``orphaned_works`` removes finalizers that block the namespace of a removed cluster, ``conditions`` has OCM's condition
messages, ``keys`` the kinds of keys in the controller's queue.
"""

from fairway.controllers.acceptance.controller import AcceptanceController
from fairway.controllers.acceptance.rbac import RULES

__all__ = ["RULES", "AcceptanceController"]
