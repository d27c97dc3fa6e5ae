"""Leases on a hub, and the timing of leader election."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

from fairway.api.lease import Lease
from fairway.kube.request_options import Patch
from fairway.kube.resource import Resource
from fairway.kube.rest import Client

LEASES: Final = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True, type=Lease
)

BAD_TIMING: Final = "must be lease > renew > retry × (1 + jitter) > 0, and stuck > 0"
LONGEST_LEASE: Final = 300
"""Seconds; no Lease is believed to last longer without a renewal, whatever is written in it. OCM's last 137 s."""
CLOCKS_APART: Final = timedelta(hours=1)
"""A Lease renewed further in the future is nonsense, where clocks have to be compared at all."""

T = TypeVar("T")


class LeaseStore(Protocol):
    """One Lease. Raises KubeErrors: NotFound, AlreadyExists, Conflict."""

    async def read(self) -> Lease:
        """As the hub has it at the moment, not from a cache."""

    async def create(self, spec: Mapping[str, Any]) -> Lease: ...

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        """Change these fields only, None removing one. Conflict if the Lease is not of that version any more."""


class HubLease:
    """On a hub. Best with a client of its own: a renewal must not queue up behind a thousand other requests."""

    def __init__(self, client: Client, *, namespace: str, name: str) -> None:
        self._client = client
        self.namespace, self.name = namespace, name

    async def read(self) -> Lease:
        return await self._client.get(LEASES, self.name, namespace=self.namespace)

    async def create(self, spec: Mapping[str, Any]) -> Lease:
        body = {"metadata": {"name": self.name, "namespace": self.namespace}, "spec": spec}
        return await self._client.create(LEASES, body, namespace=self.namespace)

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        body = {"metadata": {"resourceVersion": resource_version}, "spec": spec}
        return await self._client.patch(LEASES, self.name, body, kind=Patch.MERGE, namespace=self.namespace)


class Runner(Protocol):
    """Where the requests of an elector are made: a ``LeaseThread``, or the event loop that asks."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T: ...


class _InPlace:
    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work


IN_PLACE: Final[Runner] = _InPlace()


def believed_seconds(written: int, *, default: float) -> float:
    """For how long a Lease lasts that says ``written``: nonsense counts as ``default``, and too much as the longest."""
    return min(written, max(LONGEST_LEASE, default)) if written > 0 else default


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    lease: int = 15
    """For so long others leave the Lease alone after they saw it renewed."""
    renew: float = 10.0
    """For so long the leader goes on without a confirmed renewal."""
    retry: float = 2.0
    """Between renewals, and between the looks of those who wait."""
    jitter: float = 0.5
    """Those who wait add up to this share of ``retry``, so that they do not come all at once."""
    stuck: float = 60.0
    """A leader whose event loop has not answered for so long is not renewed any more, so that another can lead."""

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * (1 + self.jitter) > 0 or self.stuck <= 0:
            raise ValueError(BAD_TIMING)

    @property
    def request(self) -> float:
        """For one request; leaves time for a second one."""
        return self.renew / 2
