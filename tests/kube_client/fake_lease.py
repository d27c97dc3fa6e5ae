"""A hub that holds one Lease, and the clocks of machines that disagree."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fairway.api.lease import Lease
from fairway.kube.errors import AlreadyExists, Conflict, NotFound

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class ReplicaClock:
    """A machine's own idea of time: its wall clock may be off or stand still, its running clock fast or slow."""

    time: Callable[[], float]
    skew: timedelta = timedelta()
    stuck: bool = False
    since: float = 0.0
    rate: float = 1.0

    def wall(self) -> datetime:
        return START + self.skew + timedelta(seconds=0 if self.stuck else self.time())

    def monotonic(self) -> float:
        return self.since + self.rate * self.time()


@dataclass
class Hub:
    """Holds one Lease as a hub does: versions, conflicts, fields nobody here knows, and no write without a change."""

    lease: dict[str, Any] | None = None
    version: int = 100
    uids: Iterator[int] = field(default_factory=itertools.count)
    writes: int = 0
    reads: int = 0

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec = self.lease["spec"]
        assert isinstance(spec, dict)
        return spec

    @property
    def holder(self) -> str | None:
        return None if self.lease is None else self.spec.get("holderIdentity")

    def read(self) -> Lease:
        self.reads += 1
        if self.lease is None:
            raise NotFound("no such lease")
        return msgspec.convert(self.lease, Lease)

    def create(self, spec: Mapping[str, Any]) -> Lease:
        if self.lease is not None:
            raise AlreadyExists("there is one")
        self.lease = {"metadata": {"uid": f"uid-{next(self.uids)}"}, "spec": {}}
        return self._write(spec)

    def patch(self, spec: Mapping[str, Any], resource_version: str) -> Lease:
        if self.lease is None:
            raise NotFound("no such lease")
        if self.lease["metadata"]["resourceVersion"] != resource_version:
            raise Conflict("changed meanwhile")
        return self._write(spec)

    def edit(self, **spec: Any) -> None:
        """By somebody with kubectl, who asks nobody."""
        self._write(spec)

    def _write(self, spec: Mapping[str, Any]) -> Lease:
        assert self.lease is not None
        merged = {key: value for key, value in {**self.spec, **spec}.items() if value is not None}
        if merged != self.spec:
            self.version += 1
            self.writes += 1
            self.lease["spec"] = merged
            self.lease["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.convert(self.lease, Lease)
