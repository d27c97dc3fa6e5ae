"""The capacity of a hosting cluster, for the ledger: what it publishes, less what a policy keeps free.

Telemetry lags behind. A request of ours is *counted* once the telemetry certainly includes it. So that no hosted
cluster is counted twice for long, and none is ever left out:

- the number of hosted clusters of other owners is the published count less the counted requests, or less those that
  were published as created for requests, as far as their hosts have reported them;
- published free room is what the counted requests already left; the ledger subtracts the others.

Both err to the safe side: a hosted cluster that is included, but not yet known to be, takes its room twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairway.api.hosting_policy import AUTO, COUNT_MODEL, RESOURCES_MODEL, SLOTS_MODEL
from fairway.engine.workload import ResourceList
from fairway.workloads.hosting.fleet.telemetry import (
    FREE_CLAIMS,
    HIGHEST_SCORE,
    SLOTS_PREFIX,
    Telemetry,
    Unknown,
)
from fairway.workloads.hosting.requests.demand import SINGLE, SINGLE_SMALL, SIZES, SMALL, Demand, slots_worth
from fairway.workloads.hosting.resources import (
    CPU,
    DIMENSIONS,
    HOSTED,
    MEMORY,
    MILLI,
    PODS,
    SLOTS,
    UNLIMITED,
)
from fairway.workloads.hosting.rules.policy import Limits

NO_SLOTS: Final = "publishes no free slots (hcpSlotsSmall), which the policy's capacity model Slots reads"
NO_RESOURCES: Final = (
    "publishes neither {claims} nor allocatable resources, which the policy's capacity model Resources reads"
)


def _slots_name(size: str) -> str:
    return f"{SLOTS_PREFIX}{size[:1].upper()}{size[1:]}"


_WORTH: Final[Mapping[str, int]] = {
    _slots_name(SINGLE): slots_worth(SINGLE_SMALL),
    **{_slots_name(name): slots_worth(amounts) for name, amounts in SIZES.items()},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    model: str
    """Count, Slots or Resources: what limits the host, besides the maximum number."""
    amounts: ResourceList
    """For the ledger, in all dimensions; UNLIMITED where a dimension does not limit."""
    others: ResourceList
    """What hosted clusters of other owners use."""
    total: ResourceList
    """The whole capacity in the dimensions that limit, with what the policy keeps free."""
    offer: ResourceList
    """The most that one hosted cluster could get of an empty host; a dimension that is absent does not limit it."""
    included: int = 0
    """How many requests the published number of hosted clusters includes."""
    slots: Mapping[str, int] = field(default_factory=dict)
    """Published free slots by the name of the score."""
    room: int = 0
    """Published free slots of all sizes, in thousandths of small ones."""

    def amounts_for(self, demand: Demand) -> dict[str, int]:
        """Return what a hosted cluster takes here: at least its share of the slots."""
        amounts = dict(demand.amounts)
        share = self.slot_share(demand.slots_score)
        if share > amounts[SLOTS]:
            amounts[SLOTS] = share
        return amounts

    def slot_share(self, score: str | None) -> int:
        """Return what a hosted cluster takes at least of the room, by the published score of its size; 0 if none is.

        Where free slots of its size are published, it takes its share of the room, because zones and nodes may leave
        fewer slots than the room as a whole.
        """
        if self.model != SLOTS_MODEL or score is None or score not in self.slots:
            return 0
        fitting = self.slots[score]
        return -(-self.room // fitting) if fitting else UNLIMITED


def capacity_of(
    telemetry: Telemetry, limits: Limits, *, counted: Iterable[ResourceList] = (), reported: int = 0
) -> Capacity | Unknown:
    """``counted``: what the requests hold that the telemetry certainly includes. ``reported``: the number of requests
    whose hosted clusters the host has reported."""
    held = list(counted)
    # Of requests that exist no more, hosted clusters may be left. They are of other owners.
    included = min(telemetry.count, max(len(held), min(telemetry.of_requests or 0, reported)))
    others = telemetry.count - included
    model = _model(telemetry, limits)
    most = limits.max_per_host
    if telemetry.saturated:
        most = min(most, HIGHEST_SCORE)
    total = {HOSTED: most * MILLI}
    used = {HOSTED: others * MILLI}
    amounts = dict.fromkeys(DIMENSIONS, UNLIMITED)
    amounts[HOSTED] = total[HOSTED] * limits.max_utilization // 100
    if model == COUNT_MODEL:
        for resource, amount in (telemetry.free or {}).items():
            # The number ranks the hosts. It does not include other workloads, so that measured free amounts limit.
            amounts[resource] = amount + sum(amounts_held.get(resource, 0) for amounts_held in held)
        offer = _offer(telemetry, limits, small=most)
        return Capacity(
            model=model, amounts=amounts, others=used, total=total, offer=offer, included=included
        )
    room = max(
        (telemetry.slots[name] * worth for name, worth in _WORTH.items() if name in telemetry.slots),
        default=None,
    )
    if model == SLOTS_MODEL:
        if room is None:
            return Unknown(NO_SLOTS, limits.resource)
        free: ResourceList = {SLOTS: room}
        total[SLOTS] = room + sum(amounts_held.get(SLOTS, 0) for amounts_held in held) + others * MILLI
    elif telemetry.free is not None:
        free = telemetry.free
        for resource, amount in free.items():
            at_least = amount + sum(amounts_held.get(resource, 0) for amounts_held in held)
            if telemetry.allocatable is not None:
                total[resource] = max(at_least, telemetry.allocatable.get(resource, 0))
            else:
                # Without the hosted clusters of others, a loaded host would seem as empty as a new one.
                total[resource] = at_least + others * SIZES[SMALL].get(resource, 0)
    elif telemetry.allocatable is not None:
        free = {}
        for resource in (CPU, MEMORY, PODS):
            if resource in telemetry.allocatable:
                total[resource] = telemetry.allocatable[resource]
                amounts[resource] = total[resource] * limits.max_utilization // 100
                used[resource] = others * SIZES[SMALL][resource]
    else:
        return Unknown(NO_RESOURCES.format(claims=" and ".join(FREE_CLAIMS.values())), limits.resource)
    for resource, amount in free.items():
        kept = total[resource] * (100 - limits.max_utilization) // 100
        amounts[resource] = max(
            0, amount + sum(amounts_held.get(resource, 0) for amounts_held in held) - kept
        )
    offer = _offer(telemetry, limits, small=-(-total.get(SLOTS, most * MILLI) // MILLI))
    limited = {
        resource: amount * limits.max_utilization // 100
        for resource, amount in total.items()
        if resource != HOSTED
    }
    return Capacity(
        model=model,
        amounts=amounts,
        others=used,
        total=total,
        offer={**offer, **limited},
        included=included,
        slots=telemetry.slots,
        room=room or 0,
    )


def _offer(telemetry: Telemetry, limits: Limits, *, small: int) -> ResourceList:
    """Return what all nodes can give; where that is not published, what so many small hosted clusters need."""
    whole = {resource: amount * small for resource, amount in SIZES[SMALL].items()}
    if telemetry.allocatable is not None:
        whole |= telemetry.allocatable
    return {resource: amount * limits.max_utilization // 100 for resource, amount in whole.items()}


def _model(telemetry: Telemetry, limits: Limits) -> str:
    if limits.model != AUTO:
        return limits.model
    if _slots_name(SMALL) in telemetry.slots:
        return SLOTS_MODEL
    return COUNT_MODEL if telemetry.free is telemetry.allocatable is None else RESOURCES_MODEL
