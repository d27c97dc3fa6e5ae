"""A Lease on a fake hub, and clocks of machines that disagree."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubewire.api.lease import Lease
from kubewire.client.lease import LEASES
from rigs.fake_hub import Call, FakeHub

KEY = (LEASES.plural, "fairway", "scheduler")
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class ReplicaClock:
    """The clock of a machine: its wall clock may be off or stopped, its monotonic clock fast or slow."""

    time: Callable[[], float]
    skew: timedelta = timedelta()
    stuck: bool = False
    since: float = 0.0
    rate: float = 1.0

    def wall(self) -> datetime:
        return START + self.skew + timedelta(seconds=0 if self.stuck else self.time())

    def monotonic(self) -> float:
        return self.since + self.rate * self.time()


class FakeLease:
    """One Lease on a fake hub, and the requests of a LeaseStore."""

    def __init__(self) -> None:
        self.hub = FakeHub(live=False)
        self.reads = 0

    @property
    def exists(self) -> bool:
        return KEY in self.hub.documents

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.hub.documents[KEY]["spec"]
        return spec

    @property
    def holder(self) -> str | None:
        return self.spec.get("holderIdentity") if self.exists else None

    @property
    def writes(self) -> int:
        return len(self.hub.log)

    def read(self) -> Lease:
        self.reads += 1
        return self._answer("get")

    def create(self, spec: Mapping[str, Any]) -> Lease:
        return self._answer("create", {"metadata": {"name": KEY[2]}, "spec": dict(spec)})

    def patch(self, spec: Mapping[str, Any], resource_version: str) -> Lease:
        metadata = {"resourceVersion": resource_version}
        return self._answer("patch", {"metadata": metadata, "spec": dict(spec)})

    def edit(self, **spec: Any) -> None:
        """Change the Lease as another client, without a precondition."""
        self._answer("patch", {"spec": spec})

    def delete(self) -> None:
        self.hub.erase(KEY)

    def _answer(self, verb: str, body: Any = None) -> Lease:
        call = Call(verb=verb, resource=LEASES, namespace=KEY[1], name=KEY[2], body=body)
        answer: Lease = self.hub.answer(call)
        return answer
