"""What is placed, and on what: identities that outlive a snapshot.

Rows of a fleet are recycled, so everything that waits (the queue, the ledger, a commit) refers to workloads and hosts
by name and uid. A recreated object has another uid and inherits nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from fairway.hosts.instant import Micros
from kubewire.api.meta import ObjectMeta
from kubewire.api.quantity import Notation, Quantity

LARGEST_AMOUNT = (1 << 63) - 1
"""Larger amounts count as this one, so that columns and JSON can hold them."""
INVALID_AMOUNT = "{resource}: an amount must be a whole number of milli-units, at least 0; got {amount!r}"

ResourceList = Mapping[str, int]
"""Milli-units by resource: 1500 of ``cpu`` are one and a half cores. A resource that is absent counts 0."""

BYTES = ("memory", "storage", "ephemeral-storage", "hugepages-")
"""Resources in bytes; hugepages have their size in their name."""

SpecT_co = TypeVar("SpecT_co", covariant=True)


class WorkloadKey(NamedTuple):
    """Identifies a workload. Without uid, as users write it, the key names whichever object has the name now."""

    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, meta: ObjectMeta) -> Self:
        """Return the identity of the workload that an object asks for."""
        return cls(meta.namespace, meta.name, meta.uid)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class HostKey(NamedTuple):
    """Identifies a host."""

    name: str
    uid: str

    @classmethod
    def of(cls, meta: ObjectMeta) -> Self:
        """Return the identity of the host that an object describes."""
        return cls(meta.name, meta.uid)

    def __str__(self) -> str:
        return self.name


def checked_resources(amounts: ResourceList) -> ResourceList:
    """Return a private, read-only copy without zeros. Raises ValueError for floats and negative amounts."""
    for resource, amount in amounts.items():
        if type(amount) is not int or amount < 0:
            raise ValueError(INVALID_AMOUNT.format(resource=resource, amount=amount))
    return MappingProxyType(
        {resource: min(amount, LARGEST_AMOUNT) for resource, amount in amounts.items() if amount}
    )


def milli(quantity: str | float) -> int:
    """Return a quantity in milli-units, rounded up. Raises QuantityError."""
    return Quantity.parse(quantity).in_units(-3, most=LARGEST_AMOUNT)


def format_amount(resource: str, amount: int) -> str:
    """Return an amount as a quantity that users write: ``1500m`` of cpu, ``16Gi`` of memory."""
    if amount % 1000 == 0 and resource.rpartition(".")[2].startswith(BYTES):
        return str(Quantity(amount // 1000, 0, Notation.BINARY, exact=True))
    return str(Quantity(amount, -3, Notation.DECIMAL, exact=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[SpecT_co]):
    """A workload of any kind; ``spec`` is what its profile's plugins read."""

    key: WorkloadKey
    spec: SpecT_co
    priority: int = 0
    created: Micros = 0
    demand: ResourceList = field(default_factory=dict)
    """What one host must provide."""
    wanted: int | None = 1
    """Number of hosts; None for all feasible ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "demand", checked_resources(self.demand))

    def with_spec(self, spec: Any) -> "Workload[Any]":
        """Return the workload with an equal copy of its spec."""
        return replace(self, spec=spec)

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def name(self) -> str:
        return self.key.name
