"""Conditions of HostedClusterRequests and HostingPolicies, and their reasons."""

from typing import Final

from fairway.api.hosted_request import COUNTED as COUNTED

SCHEDULED: Final = "Scheduled"
BOUND_CONDITION: Final = "Bound"
CONFIRMED_CONDITION: Final = "Confirmed"
AVAILABLE: Final = "Available"
MOVED: Final = "Moved"
VALID: Final = "Valid"

RESERVED: Final = "Reserved"
UNSCHEDULABLE: Final = "Unschedulable"
MISCONFIGURED: Final = "Misconfigured"
SECRET_UNREADABLE: Final = "SecretUnreadable"
MANIFEST_WORK_WRITTEN: Final = "ManifestWorkWritten"
MANIFEST_WORK_PENDING: Final = "ManifestWorkPending"
MANIFEST_WORK_REFUSED: Final = "ManifestWorkRefused"
REPORTED: Final = "Reported"
NOT_REPORTED: Final = "NotReported"
NOT_APPLIED: Final = "NotApplied"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
HOST_GONE: Final = "HostingClusterGone"
RELEASED: Final = "Released"
CONTROL_PLANE_READY: Final = "ControlPlaneAvailable"
NOT_READY: Final = "ControlPlaneNotAvailable"
IN_PUBLISHED_LOAD: Final = "InPublishedLoad"
MOVE_APPROVED: Final = "MoveApproved"
DATA_ON_HOST: Final = "DataOnHost"
APPLIES: Final = "Applies"
CONFLICTING: Final = "Conflicting"

CONDITIONS: Final = {
    ("HostedClusterRequest", SCHEDULED): {
        RESERVED: "A hosting cluster is selected, and room is reserved there.",
        UNSCHEDULABLE: "No hosting cluster qualifies; `status.rejections` and `status.wouldFit` have the details.",
        MISCONFIGURED: "The request, its policy or its Placement must be changed first.",
        SECRET_UNREADABLE: "A Secret of `spec.secrets` does not exist, or the controller has no right to get it.",
        DEADLINE_EXCEEDED: "The hosting cluster did not report the HostedCluster in time; its place is given up.",
        RELEASED: "The place was given up, and the request is scheduled again.",
        MOVE_APPROVED: "A person approved to move the request; its place is given up for the new one.",
    },
    ("HostedClusterRequest", MOVED): {
        DATA_ON_HOST: "An approved move waits: the hosted cluster exists, and Fairway does not copy its data.",
    },
    ("HostedClusterRequest", BOUND_CONDITION): {
        MANIFEST_WORK_WRITTEN: "The ManifestWork is in the namespace of the hosting cluster.",
        MANIFEST_WORK_PENDING: "The ManifestWork is not written yet.",
        MANIFEST_WORK_REFUSED: "A ManifestWork of that name exists, and was not created for this request.",
        SECRET_UNREADABLE: "A Secret of `spec.secrets` cannot be read, so that the ManifestWork is not written.",
        HOST_GONE: "The hosting cluster was deleted or recreated.",
    },
    ("HostedClusterRequest", CONFIRMED_CONDITION): {
        REPORTED: "The hosting cluster reports that it applied the HostedCluster.",
        NOT_REPORTED: "The hosting cluster has not reported yet.",
        NOT_APPLIED: "The hosting cluster could not apply a manifest.",
        HOST_GONE: "The hosting cluster was deleted or recreated; the request stays pinned to it until it is deleted.",
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
    },
}
