"""A machine: a pod on a node, with what it uses, what it asks for and what it may use."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from fairway.api.pod_requests import MEMORY
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.machines.size import ONE, Factors, charge, exceeds, grown, missing, units_between

VIRTUAL_MACHINE: Final = "VirtualMachine"
"""NeonVM's kind."""

Identity = tuple[str, str, str]
"""Kind, namespace and name of the object that a machine is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A pod that is bound to a node, as observed. A pod without ``vm`` is a workload that only uses room."""

    key: WorkloadKey
    host: HostKey
    using: ResourceList
    """Its size now; of a pod that is no VM, its requests."""
    vm: str = ""
    """Name of its VirtualMachine, or object of another ``kind``, in the pod's namespace."""
    kind: str = VIRTUAL_MACHINE
    grows: bool = True
    """Whether an agent may scale it. The permit of another machine is always its size."""
    smallest: ResourceList = field(default_factory=dict)
    """The least that an agent may ask for; a resource that is absent has no bound."""
    largest: ResourceList = field(default_factory=dict)
    """The most that may be permitted; a resource that is absent has no bound."""
    factors: Factors = field(default_factory=dict)
    """Overcommit factors."""
    priority: int = 0
    created: Micros = 0
    moved: Micros | None = None
    """When its last migration ended."""
    migratable: bool = False

    @property
    def size_to_copy(self) -> int:
        """Bytes of memory that a migration copies."""
        return self.using.get(MEMORY, 0) // ONE

    @property
    def identity(self) -> Identity:
        return (self.kind, self.key.namespace, self.vm)


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What a machine asks for, and what it may use. It outlives the machine's pod: a migration hands it on."""

    requested: ResourceList
    approved: ResourceList
    unit: ResourceList = field(default_factory=dict)
    generation: int = 0
    """Counts the requests. A permit is written only to the request that it answers."""
    since: Micros | None = None
    """When a part of it was first denied; None if nothing is denied."""

    @cached_property
    def denied(self) -> bool:
        return exceeds(self.requested, self.approved)

    def missing(self, factors: Factors, *, units: int | None = None) -> dict[str, int]:
        """Return what is denied, as it counts on the node; with ``units``, only that many compute units of it."""
        most = units_between(self.approved, self.requested, self.unit)
        size = grown(self.approved, self.requested, self.unit, most if units is None else min(units, most))
        return missing(charge(size, factors), charge(self.approved, factors))

    @property
    def missing_units(self) -> int:
        return units_between(self.approved, self.requested, self.unit)

    def ask(self, requested: ResourceList, unit: ResourceList) -> "Demand":
        """Return the demand after a request; the same one if it asks for nothing new."""
        if requested == self.requested and unit == self.unit:
            return self
        return replace(self, requested=requested, unit=unit, generation=self.generation + 1)

    def approve(self, approved: ResourceList, *, now: Micros) -> "Demand":
        after = replace(self, approved=approved)
        since = (self.since if self.since is not None else now) if after.denied else None
        return replace(after, since=since)
