"""The Kubernetes client: kubeconfig, requests, watches, informers, the work queue, leases and events.

    kubeconfig ──▶ connection (address, tls, credentials) ──▶ transport (retries) ──▶ rest.Client
    transport ──▶ exchange (ordinary requests) or session (aiohttp: watches, lists, proxies)
    rest.Client ──▶ informer (list and watch) ──▶ replica (the store) ──▶ batches of changes ──▶ workqueue

Objects are decoded straight into typed Structs, so a watch event costs microseconds. Decoding drops unknown fields, so
a typed object is never sent back whole: writes are creations, or patches of the fields we own. ``resource`` is the path
and type of a kind, ``call`` encodes requests, ``codec`` decodes responses, ``errors`` has a class for each reaction,
``deadlines`` limit the time of requests. ``leader``, ``lease``, ``lease_thread`` and ``fence`` elect one writer,
``events`` and ``correlator`` record Events, ``rbac`` describes rights, ``clock`` has clocks, back-off and rate limits.

May import ``fairway.api``, ``fairway.documents`` and ``fairway.observe`` only.
"""

from fairway.kube.change import Added, Batch, Change, Deleted, Updated
from fairway.kube.clock import SYSTEM_CLOCK, Backoff, Clock, SystemClock, TokenBucket
from fairway.kube.connection import Connection
from fairway.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    ConfigError,
    Conflict,
    CredentialError,
    Expired,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from fairway.kube.events import HubEvents, Recorder
from fairway.kube.fence import Fence, LeaderError, Lost, Unconfirmed
from fairway.kube.informer import Informer
from fairway.kube.kubeconfig import Kubeconfig, load
from fairway.kube.leader import Elector
from fairway.kube.lease import HubLease, Timing
from fairway.kube.lease_thread import LeaseThread
from fairway.kube.request_options import Patch
from fairway.kube.resource import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_PLACEMENT_SCORES,
    ADD_ON_TEMPLATES,
    APPLIED_MANIFEST_WORKS,
    CLUSTER_CLAIMS,
    CLUSTER_MANAGEMENT_ADD_ONS,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Resource,
)
from fairway.kube.rest import Client, Listing
from fairway.kube.workqueue import WorkQueue

__all__ = [
    "ADD_ON_DEPLOYMENT_CONFIGS",
    "ADD_ON_PLACEMENT_SCORES",
    "ADD_ON_TEMPLATES",
    "APPLIED_MANIFEST_WORKS",
    "CLUSTER_CLAIMS",
    "CLUSTER_MANAGEMENT_ADD_ONS",
    "HOSTED_CLUSTER_REQUESTS",
    "HOSTING_POLICIES",
    "MANAGED_CLUSTERS",
    "MANAGED_CLUSTER_ADD_ONS",
    "MANAGED_CLUSTER_SCORES",
    "MANAGED_CLUSTER_SETS",
    "MANAGED_CLUSTER_SET_BINDINGS",
    "MANIFEST_WORKS",
    "PLACEMENTS",
    "PLACEMENT_DECISIONS",
    "SYSTEM_CLOCK",
    "Added",
    "AlreadyExists",
    "ApiError",
    "Backoff",
    "BadRequest",
    "Batch",
    "Change",
    "Client",
    "Clock",
    "ConfigError",
    "Conflict",
    "Connection",
    "CredentialError",
    "Deleted",
    "Elector",
    "Expired",
    "Fence",
    "Forbidden",
    "HubEvents",
    "HubLease",
    "Informer",
    "Invalid",
    "KubeError",
    "Kubeconfig",
    "LeaderError",
    "LeaseThread",
    "Listing",
    "Lost",
    "NotFound",
    "Patch",
    "Recorder",
    "Resource",
    "ServerError",
    "SystemClock",
    "Timing",
    "TokenBucket",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "Unconfirmed",
    "Updated",
    "WorkQueue",
    "load",
]
