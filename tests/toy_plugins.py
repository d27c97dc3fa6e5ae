"""Plugins as a third party writes them, and a profile for Placements that enables them behind guards."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.profile import Enabled, Profile, build_profile
from fairway.engine.remedies import MoveNumber, Remedy, SetCell, SetField
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.clusters import cells
from fairway.scheduling.guard import FaultReport, Supervisor, guarded_class, guarded_factory
from fairway.workloads.placement.profile import PLACEMENT_KIND, placement_registry

TIER = "example.com/tier"
PRICE = "example.com/cents-per-core"
WRONG_TIER = "is of tier {own}, and the placement wants tier {wanted}"
GOLD = "gold"


class Tier(Timeless):
    """Rejects clusters of another tier than the placement's annotation names."""

    name = "Tier"
    column = cells.label(TIER)
    default = GOLD

    def wanted(self, context: Context) -> str:
        workload: Any = context.workload
        wanted: str = workload.spec.metadata.annotations.get(TIER, self.default)
        return wanted

    def filter(self, context: Context, row: int, /) -> Status:
        own, wanted = context.snapshot.codes(self.column).value(row), self.wanted(context)
        if own == wanted:
            return OK
        return unschedulable(WRONG_TIER.format(own=own, wanted=wanted), plugin=self.name)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({self.column}))


class HelpfulTier(Tier):
    """Tier, with remedies."""

    def filter_remedies(self, context: Context, row: int, /) -> Iterator[Remedy]:
        yield SetCell(self.column, self.wanted(context))
        own = context.snapshot.codes(self.column).value(row)
        if own is not None:
            yield SetField(("metadata", "annotations", TIER), str(own))


class Cheapest(Timeless):
    """Prefers clusters with a lower price."""

    name = "Cheapest"
    column = cells.label(PRICE)

    def score(self, context: Context, row: int, /) -> int | None:
        price = context.snapshot.codes(self.column).value(row)
        return None if price is None else max(-100, 100 - int(str(price)))

    def remark(self, context: Context, row: int, /) -> str:
        return "has no price" if self.score(context, row) is None else ""

    def knows(self, context: Context, rows: Any, /) -> Any:
        return context.snapshot.codes(self.column).codes[rows] != 0

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({self.column}))


class HelpfulCheapest(Cheapest):
    """Cheapest, with remedies."""

    def score_remedies(self, _context: Context, _row: int, weight: int, /) -> Iterator[Remedy]:
        yield MoveNumber(self.column, up=weight < 0)


def profile_with(*kinds: type[Any], reports: list[FaultReport] | None = None) -> Profile:
    """Return the profile for Placements with these plugins, guarded, in addition."""
    supervisor = Supervisor(clock=lambda: 0.0, report=(reports if reports is not None else []).append)
    registry = placement_registry()
    for kind in kinds:
        guarded = guarded_class(kind)
        registry.register(kind.name, guarded_factory(kind, guarded, supervisor), kind=guarded)
    enabled = (*PLACEMENT_KIND.enabled, *(Enabled(kind.name) for kind in kinds))
    toys = replace(PLACEMENT_KIND, profile="with-toys", registry=lambda: registry, enabled=enabled)
    return build_profile(toys.spec(), registry)
