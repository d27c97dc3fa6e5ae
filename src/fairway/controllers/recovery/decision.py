"""Events and decisions of the recovery state machine."""

from dataclasses import dataclass
from typing import Final

LOW: Final = "HealthLow"
MISSING: Final = "HealthMissing"
REASONS: Final = (LOW, MISSING)
"""Values of the taint."""

RECOVERED: Final = "HealthRecovered"
EXEMPT: Final = "RecoveryOff"

OVER_BUDGET: Final = "OverBudget"
SUSPECT: Final = "ProviderSuspected"
HELD: Final = (OVER_BUDGET, SUSPECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObserved:
    """A cluster as the hub has it. ``tainted``: by recovery. ``exempt``: by annotation. ``unavailable``:
    placements could not move there."""

    cluster: str
    sets: frozenset[str] = frozenset()
    tainted: bool = False
    exempt: bool = False
    unavailable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDeleted:
    cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReported:
    """``score`` is None if it is missing or expired."""

    cluster: str
    score: int | None


@dataclass(frozen=True, slots=True)
class HealthUnobserved:
    """Scores could not be watched for a while: no state is known to have lasted."""


Event = ClusterObserved | ClusterDeleted | HealthReported | HealthUnobserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``since`` is on the monotonic clock."""

    score: int | None
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecheckAfter:
    """Do nothing before ``until``, or before the next event."""

    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """``reason`` is one of REASONS."""

    reason: str
    facts: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Untaint:
    """``facts`` is None for an exempt cluster."""

    reason: str
    facts: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """It is not tainted for the reason, one of HELD. Over budget: ``used`` of at most ``limit`` in ``scope``, which is
    a set or, if empty, the fleet; ``alone``: no other cluster there is available. Suspect: ``used`` of ``limit``
    clusters became unhealthy at once."""

    reason: str
    facts: Evidence
    scope: str = ""
    used: int
    limit: int
    alone: bool = False


Decision = RecheckAfter | Taint | Untaint | Withheld
WAIT: Final = RecheckAfter()
