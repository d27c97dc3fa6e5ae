"""Conditions of HostedClusterRequests and HostingPolicies, and their reasons."""

from typing import Final

from fairway.api.hosted_request import COUNTED as COUNTED

SCHEDULED: Final = "Scheduled"
BOUND_CONDITION: Final = "Bound"
CONFIRMED_CONDITION: Final = "Confirmed"
APPLIED_CONDITION: Final = "Applied"
AVAILABLE: Final = "Available"
MOVED: Final = "Moved"
HOST_AVAILABLE: Final = "HostAvailable"
VALID: Final = "Valid"

RESERVED: Final = "Reserved"
UNSCHEDULABLE: Final = "Unschedulable"
MISCONFIGURED: Final = "Misconfigured"
DEMAND_TOO_LARGE: Final = "DemandTooLarge"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
SECRET_UNREADABLE: Final = "SecretUnreadable"
NOT_PERMITTED: Final = "NotPermitted"
MANIFEST_WORK_WRITTEN: Final = "ManifestWorkWritten"
MANIFEST_WORK_PENDING: Final = "ManifestWorkPending"
MANIFEST_WORK_REFUSED: Final = "ManifestWorkRefused"
REPORTED: Final = "Reported"
NOT_REPORTED: Final = "NotReported"
ALL_APPLIED: Final = "AllApplied"
NOT_APPLIED: Final = "NotApplied"
CONFLICT: Final = "Conflict"
REFUSED: Final = "Refused"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
HOST_REPORTS: Final = "HostingClusterAvailable"
HOST_UNAVAILABLE: Final = "HostingClusterUnavailable"
HOST_LOST: Final = "HostingClusterLost"
HOST_DELETING: Final = "HostingClusterDeleting"
HOST_GONE: Final = "HostingClusterGone"
LOSSES: Final = (HOST_LOST, HOST_DELETING, HOST_GONE)
"""Reasons of the condition HostAvailable with which a hosting cluster counts as lost."""
RECOVERY_APPROVED: Final = "RecoveryApproved"
RELEASED: Final = "Released"
ADOPTED: Final = "Adopted"
MANIFEST_WORK_GONE: Final = "ManifestWorkGone"
CONTROL_PLANE_READY: Final = "ControlPlaneAvailable"
NOT_READY: Final = "ControlPlaneNotAvailable"
IN_PUBLISHED_LOAD: Final = "InPublishedLoad"
MOVE_APPROVED: Final = "MoveApproved"
DATA_ON_HOST: Final = "DataOnHost"
APPLIES: Final = "Applies"
CONFLICTING: Final = "Conflicting"
PROTECTED_NAMESPACE: Final = "ProtectedNamespace"

CONDITIONS: Final = {
    ("HostedClusterRequest", SCHEDULED): {
        RESERVED: "A hosting cluster is selected, and room is reserved there.",
        ADOPTED: "The hosted cluster existed before the request, which follows it.",
        UNSCHEDULABLE: "No hosting cluster qualifies; `status.rejections` and `status.wouldFit` have the details.",
        MISCONFIGURED: "The request, its policy or its Placement must be changed first.",
        DEMAND_TOO_LARGE: "No hosting cluster is large enough, even if it were empty; the message names the largest.",
        QUOTA_EXCEEDED: "The request waits until its tenant gives a place back, or the policy changes.",
        SECRET_UNREADABLE: "A Secret of `spec.secrets` does not exist, or the controller has no right to get it.",
        NOT_PERMITTED: "The policy does not permit a Secret of `spec.secrets`.",
        DEADLINE_EXCEEDED: "The hosting cluster did not report the HostedCluster in time; its place is given up.",
        REFUSED: "The hosting cluster refused what the request creates; its place is given up.",
        RELEASED: "The place was given up, and the request is scheduled again.",
        MOVE_APPROVED: "A person approved to move the request; its place is given up for the new one.",
        HOST_LOST: "The hosting cluster was lost before it reported the HostedCluster; the place is given up.",
        RECOVERY_APPROVED: "The hosting cluster is lost, and a person approved to create the hosted cluster again.",
    },
    ("HostedClusterRequest", HOST_AVAILABLE): {
        HOST_REPORTS: "The hosting cluster is available again. The condition does not exist before a first outage.",
        HOST_UNAVAILABLE: "The hosting cluster is not available; the message says since when, and when it is lost.",
        HOST_LOST: "It was unavailable for longer than `hostLoss.after` of the policy; the message has the remedy.",
        HOST_DELETING: "The ManagedCluster is being deleted.",
        HOST_GONE: "The ManagedCluster was deleted or recreated.",
    },
    ("HostedClusterRequest", MOVED): {
        DATA_ON_HOST: "An approved move waits: the hosted cluster exists, and Fairway does not copy its data.",
    },
    ("HostedClusterRequest", BOUND_CONDITION): {
        ADOPTED: "The hosted cluster existed before the request; Fairway does not change it.",
        MANIFEST_WORK_GONE: "The ManifestWork of an adopted hosted cluster no longer carries it.",
        MANIFEST_WORK_WRITTEN: "The ManifestWork is in the namespace of the hosting cluster.",
        MANIFEST_WORK_PENDING: "The ManifestWork is not written yet.",
        MANIFEST_WORK_REFUSED: "A ManifestWork of that name exists, and was not created for this request.",
        SECRET_UNREADABLE: "A Secret of `spec.secrets` cannot be read, so that the ManifestWork is not written.",
        NOT_PERMITTED: "The policy does not permit a Secret of `spec.secrets`; the ManifestWork is not written.",
        HOST_GONE: "The hosting cluster was deleted or recreated.",
    },
    ("HostedClusterRequest", CONFIRMED_CONDITION): {
        REPORTED: "The hosting cluster reports that it applied the HostedCluster.",
        NOT_REPORTED: "The hosting cluster has not reported yet.",
        NOT_APPLIED: "The hosting cluster could not apply a manifest.",
        HOST_GONE: "The hosting cluster was deleted or recreated; the request keeps its place until it is recovered.",
    },
    ("HostedClusterRequest", APPLIED_CONDITION): {
        ALL_APPLIED: "The hosting cluster applied all objects of the request.",
        NOT_APPLIED: "The hosting cluster refused an object, for example a NodePool; the message has its words.",
        CONFLICT: "An object on the hosting cluster has another owner or field manager, and is left as it is.",
    },
    ("HostedClusterRequest", AVAILABLE): {
        CONTROL_PLANE_READY: "The control plane is available, as the HostedCluster reports.",
        NOT_READY: "The control plane is not available, or does not report it.",
    },
    ("HostedClusterRequest", COUNTED): {
        IN_PUBLISHED_LOAD: "The published load of the hosting cluster includes the hosted cluster.",
    },
    ("HostingPolicy", VALID): {
        APPLIES: "The policy applies to its hosting clusters.",
        CONFLICTING: "Another policy covers the same hosting cluster and differs in limits; requests of both wait.",
        PROTECTED_NAMESPACE: "`permits.hostNamespaces` lists namespaces that no request gets; the rest applies.",
    },
}
