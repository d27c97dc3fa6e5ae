"""When a cluster is unhealthy, when it is healthy again, and how many may be tainted at once."""

from dataclasses import dataclass, field
from typing import Final

from fairway.api.cluster import NO_SELECT, NO_SELECT_IF_NEW
from fairway.controllers.recovery.health_source import HealthSource

IGNORE: Final = "ignore"
UNHEALTHY: Final = "unhealthy"
LOWEST, HIGHEST = -100, 100
"""The range of an AddOnPlacementScore."""
HEALTH: Final = HealthSource(resource="health-score", score="health")
"""The score of the health provider: from 0 to 100."""

ABOVE_BELOW: Final = "above must be greater than below; got above {above} and below {below}"
RECOVERY_DWELL_TOO_SHORT: Final = (
    "recoveryDwell must be longer than dwell; got recoveryDwell {back:g} s and dwell {dwell:g} s"
)
NOT_POSITIVE: Final = "{what} must be greater than 0; got {value:g}"
NOT_A_PERCENTAGE: Final = "{what} must be from 1 to 100; got {value}"
WRONG_EFFECT: Final = "effect must be {wanted}; got {effect!r}"
BELOW_TOO_LOW: Final = "below must be at least {least}: {health} ranges from {lowest} to 100; got {below}"
ABOVE_TOO_HIGH: Final = "above must be at most 100: {health} ranges from {lowest} to 100; got {above}"
WRONG_MISSING: Final = "missing must be {wanted}; got {missing!r}"


class RecoveryPolicyError(ValueError):
    """An invalid policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many clusters of a group may be tainted at once: the smaller of both limits.

    Rounded down, but at least 1, so that groups of less than ten clusters have recovery. Never all clusters, because
    placements need one to move to.
    """

    percent: int
    count: int | None = None

    def of(self, size: int) -> int:
        allowed = max(1, size * self.percent // 100)
        if self.count is not None:
            allowed = min(allowed, self.count)
        return max(0, min(allowed, size - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """Times are in seconds. Raises RecoveryPolicyError."""

    health: HealthSource = field(default=HEALTH)
    below: int = 40
    """A score below this is unhealthy."""
    above: int = 60
    """A score from here on is healthy. In between nothing changes."""
    dwell: float = 300.0
    """A cluster is tainted after being unhealthy for this time without interruption."""
    recovery_dwell: float = 900.0
    """The taint is removed after being healthy for this time without interruption."""
    effect: str = NO_SELECT
    """NoSelect moves placements away; NoSelectIfNew only keeps new ones away."""
    missing: str = IGNORE
    """Whether a missing or expired score is unhealthy. By default it is not, because availability handles silent
    clusters."""
    fleet: Budget = field(default=Budget(percent=10))
    per_set: Budget = field(default=Budget(percent=34))
    suspect_percent: int = 50
    """If this percentage of the fleet became unhealthy within the window, the provider is suspected to fail."""
    suspect_window: float = 600.0
    fresh: float | None = None
    """A ManagedClusterScore that was not updated for this time counts as missing; None: never."""

    def __post_init__(self) -> None:
        if self.above <= self.below:
            raise RecoveryPolicyError(ABOVE_BELOW.format(above=self.above, below=self.below))
        times = {"dwell": self.dwell, "recovery dwell": self.recovery_dwell, "window": self.suspect_window}
        if self.fresh is not None:
            times["freshness"] = self.fresh
        for what, value in times.items():
            if not value > 0:
                raise RecoveryPolicyError(NOT_POSITIVE.format(what=what, value=value))
        if self.recovery_dwell <= self.dwell:
            raise RecoveryPolicyError(
                RECOVERY_DWELL_TOO_SHORT.format(back=self.recovery_dwell, dwell=self.dwell)
            )
        shares = {
            "budget of the fleet": self.fleet.percent,
            "budget of a set": self.per_set.percent,
            "share that is suspect": self.suspect_percent,
        }
        for what, percent in shares.items():
            if not 1 <= percent <= 100:
                raise RecoveryPolicyError(NOT_A_PERCENTAGE.format(what=what, value=percent))
        for what, budget in (("budget of the fleet", self.fleet), ("budget of a set", self.per_set)):
            if budget.count is not None and budget.count < 1:
                raise RecoveryPolicyError(NOT_POSITIVE.format(what=what, value=budget.count))
        if self.effect not in (NO_SELECT, NO_SELECT_IF_NEW):
            raise RecoveryPolicyError(
                WRONG_EFFECT.format(effect=self.effect, wanted=f"{NO_SELECT} or {NO_SELECT_IF_NEW}")
            )
        if self.missing not in (IGNORE, UNHEALTHY):
            raise RecoveryPolicyError(
                WRONG_MISSING.format(missing=self.missing, wanted=f"{IGNORE} or {UNHEALTHY}")
            )
        if self.health.resource:
            self._check_range()

    def _check_range(self) -> None:
        """Check thresholds against the range of AddOnPlacementScores; ManagedClusterScores have no range."""
        lowest = 0 if self.health == HEALTH else LOWEST
        names = {"health": self.health, "lowest": lowest}
        if self.below <= lowest:
            raise RecoveryPolicyError(BELOW_TOO_LOW.format(**names, below=self.below, least=lowest + 1))
        if self.above > HIGHEST:
            raise RecoveryPolicyError(ABOVE_TOO_HIGH.format(**names, above=self.above))
