"""Leases on a hub, and the timing of leader election."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

from kubewire.api.lease import Lease
from kubewire.api.resource import Resource
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client

LEASES: Final = Resource(
    group="coordination.k8s.io", version="v1", plural="leases", kind="Lease", namespaced=True, type=Lease
)

BAD_TIMING: Final = "must be lease > renew > retry × (1 + jitter) > 0, and stuck > 0"
LONGEST_LEASE: Final = 300
"""Seconds; longer durations in a Lease are cut to this. OCM uses 137 seconds."""
SHORTEST_LEASE: Final = 3
"""Seconds; renewals are then 0.4 seconds apart."""
LONGEST_UNCONFIRMED: Final = 3.0
"""Seconds for which a leader writes at most without a new confirmation of its Lease."""
CLOCKS_APART: Final = timedelta(hours=1)
"""Seconds; a renewTime further in the future is ignored where clocks must be compared."""

T = TypeVar("T")


class LeaseStore(Protocol):
    """One Lease. Methods raise NotFound, AlreadyExists, Conflict and other KubeErrors."""

    async def read(self) -> Lease:
        """Read the current Lease, not from a cache."""

    async def create(self, spec: Mapping[str, Any]) -> Lease: ...

    async def patch(self, spec: Mapping[str, Any], *, resource_version: str) -> Lease:
        """Change these fields; None removes one. Raise Conflict if the Lease has another version."""


class HubLease:
    """A Lease on a hub. Use a separate client, so that renewals do not queue behind other requests."""

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
    """Runs the requests of an elector: on a ``LeaseThread``, or on the calling event loop."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T: ...


class _InPlace:
    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await work


IN_PLACE: Final[Runner] = _InPlace()


def effective_lease_seconds(written: int, *, default: float) -> float:
    """The duration of a Lease: ``default`` if ``written`` is invalid, at most LONGEST_LEASE."""
    return min(written, max(LONGEST_LEASE, default)) if written > 0 else default


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    lease: int = 15
    """How long other processes wait after they saw the Lease renewed."""
    renew: float = 10.0
    """How long the leader continues without a confirmed renewal."""
    retry: float = 2.0
    """Between renewals, and between reads of waiting processes."""
    jitter: float = 0.5
    """Waiting processes add up to this share of ``retry``, so that their requests spread."""
    stuck: float = 60.0
    """If the leader's event loop does not respond for this long, renewals stop, so that another process can lead."""

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * (1 + self.jitter) > 0 or self.stuck <= 0:
            raise ValueError(BAD_TIMING)

    @classmethod
    def of_lease(cls, seconds: int) -> "Timing":
        """Return the timing for a Lease of this duration, in the proportions of the default."""
        default = cls()
        return cls(
            lease=seconds,
            renew=default.renew * seconds / default.lease,
            retry=default.retry * seconds / default.lease,
        )

    @property
    def fresh(self) -> float:
        """How long a confirmed renewal counts as recent: longer than ``retry``, so that work does not wait for a
        request while renewals succeed."""
        return min(self.retry * 1.5, LONGEST_UNCONFIRMED)

    @property
    def request(self) -> float:
        """The timeout of one request, which leaves time for a second one."""
        return self.renew / 2
