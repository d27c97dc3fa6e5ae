"""What a hosted cluster needs: by its size, or as its request lists it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fairway.api.hosted_request import (
    AVAILABILITY_FIELD,
    HIGHLY_AVAILABLE,
    SINGLE_REPLICA,
    HostedClusterRequest,
)
from fairway.api.hosting_policy import HostedClusterDemand, HostedClusterSize
from fairway.engine.workload import ResourceList, checked_resources, milli
from fairway.workloads.hosting.resources import CPU, HOSTED, MEMORY, MILLI, PODS, SLOTS
from kubewire.api.quantity import QuantityError

SMALL: Final = "small"
SINGLE: Final = "single"
"""What providers call a small control plane with one replica."""
CUSTOM: Final = "custom"
"""The size of a request with an explicit demand, in tables."""

UNKNOWN_SIZE: Final = "spec.size: there is no size {size!r}; write one of {known}, or list spec.demand"
BAD_AMOUNT: Final = "{field}: {reason}"
UNKNOWN_AVAILABILITY: Final = (
    "spec.hostedCluster.spec.controllerAvailabilityPolicy: {given!r} is unknown; write HighlyAvailable or "
    "SingleReplica"
)

_AMOUNTS: Final = (CPU, MEMORY, PODS)


def _size(cores: str, memory: str, pods: int) -> ResourceList:
    return {CPU: milli(cores), MEMORY: milli(memory), PODS: pods * MILLI}


SIZES: Final[Mapping[str, ResourceList]] = {
    SMALL: _size("5", "17Gi", 78),
    "medium": _size("13", "47Gi", 78),
    "large": _size("24", "86Gi", 78),
}
"""Requests of a highly available control plane, all replicas together; as the hosted-clusters provider has them."""
SINGLE_SMALL: Final[ResourceList] = _size("2700m", "8704Mi", 26)
"""A small control plane with one replica. Other sizes shrink in the same ratio."""


class DemandError(ValueError):
    """A request whose demand cannot be determined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    size: str
    """The size; ``custom`` for an explicit demand."""
    single: bool
    """Whether the control plane has one replica."""
    amounts: ResourceList
    """In all dimensions. The number of slots is how many small hosted clusters it is worth."""

    @property
    def slots_score(self) -> str | None:
        """Name of the published score for free slots of this size; None for an explicit demand."""
        if self.size == CUSTOM or (self.single and self.size != SMALL):
            return None
        name = SINGLE if self.single else self.size
        return f"hcpSlots{name[:1].upper()}{name[1:]}"


def demand_of(request: HostedClusterRequest, *, sizes: Iterable[HostedClusterSize] = ()) -> Demand:
    """``sizes`` are those of the policy. Raises DemandError."""
    spec = request.spec
    single = _is_single(request)
    if spec.demand is not None:
        return _demand(CUSTOM, _listed(spec.demand, field="spec.demand"), single=single)
    return size_demand(size_name(request), sizes=sizes, single=single)


def size_name(request: HostedClusterRequest) -> str:
    """Return the size of a request for a table, also where its demand is invalid."""
    return CUSTOM if request.spec.demand is not None else request.spec.size or SMALL


def size_demand(name: str, *, sizes: Iterable[HostedClusterSize] = (), single: bool = False) -> Demand:
    """Return the demand of a size. Raises DemandError."""
    own = {size.name: size for size in sizes}
    if name in own:
        return _demand(name, _listed(own[name], field=f"size {name} of the policy"), single=single)
    if name not in SIZES:
        known = ", ".join(sorted({*SIZES, *own}))
        raise DemandError(UNKNOWN_SIZE.format(size=name, known=known))
    amounts = SIZES[name]
    if single:
        amounts = {
            resource: _scaled(amounts[resource], SINGLE_SMALL[resource], SIZES[SMALL][resource])
            for resource in _AMOUNTS
        }
    return _demand(name, amounts, single=single)


def slots_worth(amounts: ResourceList) -> int:
    """Return how many small hosted clusters these amounts are worth, in thousandths, in the largest dimension."""
    small = SIZES[SMALL]
    return max(_scaled(amounts.get(resource, 0), MILLI, small[resource]) for resource in _AMOUNTS)


def _demand(size: str, amounts: ResourceList, *, single: bool) -> Demand:
    whole = {HOSTED: MILLI, SLOTS: max(1, slots_worth(amounts)), **amounts}
    return Demand(size=size, single=single, amounts=checked_resources(whole))


def _listed(demand: HostedClusterDemand, *, field: str) -> ResourceList:
    amounts = {PODS: demand.pods * MILLI}
    for name, text in ((CPU, demand.cpu), (MEMORY, demand.memory)):
        try:
            amounts[name] = milli(text)
        except QuantityError as error:
            raise DemandError(BAD_AMOUNT.format(field=f"{field}.{name}", reason=error)) from None
    try:
        return checked_resources(amounts)
    except ValueError as error:
        raise DemandError(BAD_AMOUNT.format(field=field, reason=error)) from None


def _is_single(request: HostedClusterRequest) -> bool:
    spec = request.spec
    given = spec.availability or spec.hostedCluster.spec.get(AVAILABILITY_FIELD) or HIGHLY_AVAILABLE
    if given not in (HIGHLY_AVAILABLE, SINGLE_REPLICA):
        raise DemandError(UNKNOWN_AVAILABILITY.format(given=given))
    return bool(given == SINGLE_REPLICA)


def _scaled(amount: int, numerator: int, denominator: int) -> int:
    """Rounded up."""
    return -(-amount * numerator // denominator)
