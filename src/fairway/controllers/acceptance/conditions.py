"""The conditions HubAcceptedManagedCluster and Deleting. Messages of acceptance, denial and deletion are OCM's."""

from typing import Final

from fairway.api.cluster import CONDITION_ACCEPTED
from kubewire.api.meta import FALSE, TRUE, Condition

ADMIN_ACCEPTED: Final = "HubClusterAdminAccepted"
ADMIN_DENIED: Final = "HubClusterAdminDenied"
FAILED: Final = "Error"
NAME_REFUSED: Final = "ClusterNameRefused"
NAMESPACE_TAKEN: Final = "NamespaceTaken"
NAMESPACE_ENDING: Final = "NamespaceTerminating"

ACCEPTED_MESSAGE: Final = "Accepted by hub cluster admin"
DENIED_MESSAGE: Final = "Denied by hub cluster admin"
TAKEN_MESSAGE: Final = (
    "namespace {name} exists without the label {label}={name}, so it may have another owner; "
    "label it if it is for this cluster"
)
ENDING_MESSAGE: Final = "namespace {name} is being deleted; the cluster is accepted once it is deleted"
KEPT_MESSAGE: Final = "{ending}. Blocked by: {why}"

DELETING: Final = "Deleting"
RESOURCE_REMAINING: Final = "ResourceRemaining"
DELETING_ERROR: Final = "DeletingError"
NO_RESOURCE: Final = "NoResource"
REMAINING_MESSAGE: Final = (
    "The resource {plural} is remaning, the remaining count is {count}, the finalizer pending count is {held}"
)
"""With OCM's misspelling, because users and programs compare it."""
NO_RESOURCE_MESSAGE: Final = "No cleaned resource in cluster ns."

CONDITIONS: Final = {
    ("ManagedCluster", CONDITION_ACCEPTED): {
        ADMIN_ACCEPTED: "An administrator accepted the cluster, and its rights are granted.",
        ADMIN_DENIED: "An administrator withdrew the acceptance.",
        NAME_REFUSED: "The name cannot be used for a namespace.",
        NAMESPACE_TAKEN: "The namespace of that name belongs to another owner.",
        NAMESPACE_ENDING: "The namespace of that name is being deleted.",
        FAILED: "The rights could not be granted; the message has the reason.",
    },
    ("ManagedCluster", DELETING): {
        RESOURCE_REMAINING: "The cluster is deleted once its add-ons, and then its works, are deleted.",
        DELETING_ERROR: "An object of the cluster could not be deleted; the message has the reason.",
        NO_RESOURCE: "No add-on and no work is left, and the cluster is being deleted.",
    },
}

GRANTED: Final = Condition(
    type=CONDITION_ACCEPTED, status=TRUE, reason=ADMIN_ACCEPTED, message=ACCEPTED_MESSAGE
)
DENIED: Final = Condition(type=CONDITION_ACCEPTED, status=FALSE, reason=ADMIN_DENIED, message=DENIED_MESSAGE)


def refused(reason: str, message: str) -> Condition:
    return Condition(type=CONDITION_ACCEPTED, status=FALSE, reason=reason, message=message)


def ending(name: str, *, kept_by: str) -> Condition:
    message = ENDING_MESSAGE.format(name=name)
    if kept_by:
        message = KEPT_MESSAGE.format(ending=message, why=kept_by)
    return refused(NAMESPACE_ENDING, message)


def remaining(plural: str, *, count: int, held: int) -> Condition:
    message = REMAINING_MESSAGE.format(plural=plural, count=count, held=held)
    return Condition(type=DELETING, status=FALSE, reason=RESOURCE_REMAINING, message=message)


def deleting_error(message: str) -> Condition:
    return Condition(type=DELETING, status=FALSE, reason=DELETING_ERROR, message=message)


CLEANED_UP: Final = Condition(type=DELETING, status=TRUE, reason=NO_RESOURCE, message=NO_RESOURCE_MESSAGE)
