"""The Kubernetes client: kubeconfig, requests, watches, informers, the work queue, leases and events.

    kubeconfig ──▶ connection (address, tls, credentials) ──▶ transport (retries) ──▶ rest.Client
    transport ──▶ exchange (ordinary requests) or session (aiohttp: watches, lists, proxies)
    rest.Client ──▶ informer (list and watch) ──▶ replica (the store) ──▶ batches of changes ──▶ index, workqueue

Objects are decoded straight into typed Structs, so a watch event costs microseconds. Decoding drops unknown fields, so
a typed object is never sent back whole: writes are creations, or patches of the fields we own. ``resource`` is the path
and type of a kind, ``call`` encodes requests, ``codec`` decodes responses, ``errors`` has a class for each reaction,
``deadlines`` limit the time of requests. ``leader``, ``lease``, ``lease_thread`` and ``fence`` elect one writer,
``events`` and ``correlator`` record Events, ``rbac`` describes rights, ``clock`` has clocks, back-off and rate limits.

"""

from kubewire.api.resource import Resource
from kubewire.client.change import Added, Batch, Change, Deleted, Updated
from kubewire.client.clock import SYSTEM_CLOCK, Backoff, Clock, SystemClock, TokenBucket
from kubewire.client.connection import Connection
from kubewire.client.errors import (
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
from kubewire.client.events import HubEvents, Recorder
from kubewire.client.fence import Fence, LeaderError, Lost, Unconfirmed
from kubewire.client.index import Index
from kubewire.client.informer import Informer
from kubewire.client.kubeconfig import Kubeconfig, load
from kubewire.client.leader import Elector
from kubewire.client.lease import HubLease, Timing
from kubewire.client.lease_thread import LeaseThread
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client, Listing
from kubewire.client.workqueue import WorkQueue

__all__ = [
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
    "Index",
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
