"""A Placement as a workload of the engine: what the plugins read of it, and what they derive from it.

Plugins live as long as their profile and keep nothing about single placements. What a plugin compiles from a spec, such
as selectors, is derived once per workload: a changed spec is another workload.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from fairway.api.placement import SCHEDULING_DISABLED_ANNOTATION, Placement
from fairway.engine.points import Context
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.clusters.debits import NO_RULES, DebitRules
from fairway.hosts.instant import to_micros
from fairway.workloads.placement.plugins.trust import Trust, trust_of_placement
from fairway.workloads.placement.plugins.work_budget import OF_PLACEMENT, Pace, WorkLimits

NOT_A_PLACEMENT = "expected a Placement as workload; got {kind}"

_Derived = TypeVar("_Derived")
_put = object.__setattr__  # instances are frozen


class PlacementWorkload(Workload[Placement]):
    """``spec`` is the Placement; its status may be out of date."""

    __slots__ = ("_debits", "_derived", "limits", "owner", "pace", "trust")

    owner: tuple[str, str]
    """(namespace, name)"""
    trust: Trust
    pace: Pace
    """Slice of expression work that one attempt may do; unlimited by default."""
    limits: WorkLimits
    _debits: DebitRules
    _derived: dict[Callable[["PlacementWorkload"], Any], Any]

    def __init__(
        self, placement: Placement, *, debits: DebitRules = NO_RULES, limits: WorkLimits = OF_PLACEMENT
    ) -> None:
        """``debits`` are the rules of the profile (see ``trust_of_placement``)."""
        meta, number = placement.metadata, placement.spec.numberOfClusters
        super().__init__(
            key=WorkloadKey.of(meta),
            spec=placement,
            created=0 if meta.creationTimestamp is None else to_micros(meta.creationTimestamp),
            wanted=None if number is None else max(0, number),
        )
        _put(self, "owner", (meta.namespace, meta.name))
        _put(self, "pace", Pace())
        _put(self, "limits", limits)
        _put(self, "trust", trust_of_placement(placement, debits))
        _put(self, "_debits", debits)
        _put(self, "_derived", {})

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def with_spec(self, spec: Placement) -> "PlacementWorkload":
        return PlacementWorkload(spec, debits=self._debits, limits=self.limits)

    def derive(self, make: Callable[["PlacementWorkload"], _Derived]) -> _Derived:
        """Return ``make(workload)``, which is called once and must depend on the placement only."""
        derived: _Derived | None = self._derived.get(make)
        if derived is None:
            derived = self._derived[make] = make(self)
        return derived

    @property
    def placement(self) -> Placement:
        return self.spec

    @property
    def idle(self) -> bool:
        """Whether scheduling of this placement is disabled."""
        meta = self.spec.metadata
        return (
            meta.deletionTimestamp is not None
            or meta.annotations.get(SCHEDULING_DISABLED_ANNOTATION) == "true"
        )


def placement_of(context: Context) -> PlacementWorkload:
    """Return the workload as a Placement, for plugins that read its spec."""
    workload: Any = context.workload
    if not isinstance(workload, PlacementWorkload):
        raise TypeError(NOT_A_PLACEMENT.format(kind=type(workload).__name__))
    return workload
