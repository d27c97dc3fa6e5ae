"""What the state machine keeps of one cluster."""

from dataclasses import dataclass
from typing import Final

WORST: Final = -(2**63)
"""Rank of a cluster with missing health, where that is unhealthy: below every score."""

Rank = tuple[bool, int, float, str]
"""Sort key: whether its taint was refused, its score, since when it is low, its name."""
BudgetGroup = tuple[frozenset[str], bool, bool]
"""Sets, whether it is unavailable, whether a taint was requested: clusters for which the budgets give one answer."""


@dataclass(slots=True)
class ClusterState:
    """State of one cluster."""

    name: str
    present: bool = False
    sets: frozenset[str] = frozenset()
    tainted: bool = False
    exempt: bool = False
    unavailable: bool = False
    attempted: bool = False
    """A taint was requested, and its outcome is unknown."""
    refused: bool = False
    """The hub refused the taint, and the cluster has not changed since."""
    reported: bool = False
    """Whether its health is known."""
    score: int | None = None
    low_since: float | None = None
    healthy_since: float | None = None
    burst_time: float | None = None
    """When it became low, as ``LowBursts`` counts it. None while it is not low, and for a cluster that was tainted
    before this process observed it."""
    wakes_at: float | None = None
    """When ``DueClusters`` considers it."""
    due_place: tuple[int, BudgetGroup, Rank] | None = None
    """Where ``DueClusters`` has it."""

    @property
    def counts(self) -> bool:
        """Whether it counts against the budgets."""
        return self.present and (self.tainted or self.attempted)

    @property
    def open(self) -> bool:
        """Whether placements could move there."""
        return self.present and not (self.counts or self.unavailable)

    @property
    def is_candidate(self) -> bool:
        """Whether it is tainted once it has been low for long enough."""
        return self.present and self.low_since is not None and not (self.tainted or self.exempt)

    def rank(self, *, since: float) -> Rank:
        """Return the sort key: the most unhealthy first, then the longest unhealthy; refused ones last, so that they do
        not block others."""
        return (self.refused, WORST if self.score is None else self.score, since, self.name)

    def group(self) -> BudgetGroup:
        return (self.sets, self.unavailable, self.attempted)
