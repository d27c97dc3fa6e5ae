"""Lease: the holder of a role, and the time of its last renewal."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Struct

from kubewire.api.annotation import Field, Int32
from kubewire.api.meta import ObjectMeta

MicroTime = Annotated[str, Field(format="date-time")]
"""A time in microseconds, as written. Kubernetes accepts only exactly six digits, so it stays a string."""


class LeaseSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    holderIdentity: Annotated[str, Field("Identity of the holder; absent when the lease is free.")] = ""
    leaseDurationSeconds: Annotated[
        Int32, Field("Seconds after the last observed renewal until other candidates may take the lease.")
    ] = 0
    acquireTime: Annotated[MicroTime, Field("When the holder took it, by its own clock.")] = ""
    renewTime: Annotated[MicroTime, Field("When the holder last renewed it, by its own clock.")] = ""
    leaseTransitions: Annotated[Int32, Field("Number of changes of the holder.")] = 0
    strategy: Annotated[str, Field("Strategy of coordinated leader election.")] = ""
    preferredHolder: Annotated[str, Field("Candidate to which the holder should hand over the lease.")] = ""


class Lease(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[LeaseSpec, Field("The lease.")] = LeaseSpec()


def parse_micro_time(text: str) -> datetime | None:
    """Parse a time of any precision; None if it is invalid or has no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def format_micro_time(moment: datetime) -> MicroTime:
    """Format as Kubernetes does: UTC, always six digits."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
