"""What happens to clusters, as the machine is told of it, and what it decides."""

from dataclasses import dataclass
from typing import Final

LOW: Final = "HealthLow"
MISSING: Final = "HealthMissing"
REASONS: Final = (LOW, MISSING)
"""The values of the taint."""

RECOVERED: Final = "HealthRecovered"
EXEMPT: Final = "RecoveryOff"

OVER_BUDGET: Final = "OverBudget"
SUSPECT: Final = "ProviderSuspected"
HELD: Final = (OVER_BUDGET, SUSPECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObserved:
    """A cluster as it is on the hub. ``tainted``: by us. ``exempt``: somebody wants it left alone. ``away``: it is not
    available, so nothing could move there."""

    cluster: str
    sets: frozenset[str] = frozenset()
    tainted: bool = False
    exempt: bool = False
    away: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeleted:
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReported:
    """``score`` is None when there is none, or it has run out."""

    cluster: str
    score: int | None


@dataclass(frozen=True, slots=True)
class HealthUnobserved:
    """For a while nobody could see what was published: nothing is known to have lasted."""


Event = ClusterObserved | ClusterDeleted | HealthReported | HealthUnobserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``since`` is on the running clock."""

    score: int | None
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecheckAfter:
    """Nothing is to be done before ``until``, or before something happens."""

    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """``reason`` is one of REASONS."""

    reason: str
    facts: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Untaint:
    """``facts`` is None where somebody wants the cluster left alone."""

    reason: str
    facts: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """It would be tainted, but for the reason, one of HELD. Over budget: ``used`` of at most ``limit`` in ``scope``,
    which is a set or, if empty, the fleet; ``alone``: no other cluster there is available. Suspect: ``used`` clusters
    became unhealthy together of ``limit``."""

    reason: str
    facts: Evidence
    scope: str = ""
    used: int
    limit: int
    alone: bool = False


Decision = RecheckAfter | Taint | Untaint | Withheld
WAIT: Final = RecheckAfter()
