"""Settings of permits and migrations."""

from dataclasses import dataclass, fields

from fairway.engine.workload import ResourceList
from fairway.hosts.instant import SECOND, Micros

NOT_A_SHARE = "{field} must be more than 0 and at most 1000 thousandths; got {value}"
NOT_POSITIVE = "{field} must be at least 1; got {value}"
NEGATIVE = "{field} must not be negative; got {value}"


class PolicyError(ValueError):
    """A setting out of its range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePolicy:
    watermark: int = 900
    """Share of a node, in thousandths, above which it is relieved, and up to which it takes migrations."""
    together: bool = False
    """Whether CPU and memory grow by the same number of compute units, instead of each as far as there is room."""
    pressure_delay: Micros = 10 * SECOND
    """How long a node must exceed the watermark before machines move; at once if it exceeds its capacity."""
    settle_delay: Micros = 5 * SECOND
    """How long room must last before it cancels a migration, unless a workload was deleted; also the least time between
    a cancelled migration and the next one on the same node."""
    cooldown: Micros = 300 * SECOND
    """How long a machine stays where it is after a migration."""
    per_source: int = 2
    """Migrations at the same time from one node."""
    per_target: int = 2
    """Migrations at the same time to one node."""
    per_fleet: int = 16
    """Migrations at the same time."""
    target_timeout: Micros = 60 * SECOND
    """How long a target pod may stay unbound."""
    copy_timeout: Micros = 3600 * SECOND
    """How long a copy may take; also how long room is kept for its beneficiary."""
    abort_timeout: Micros = 60 * SECOND
    """How long to wait for an abort before it is sent again."""
    retry_delay: Micros = SECOND
    """How long after a failed write it is sent again."""
    replan_delay: Micros = SECOND
    """The least time between two plans for a node that lacks room, unless something changes on it."""
    backoff: Micros = 30 * SECOND
    """How long a machine is left alone after its migration failed; doubled with each failure."""
    most_backoff: Micros = 3600 * SECOND
    prevent_same_host: bool = True
    """Whether a machine never moves to the node that it leaves."""
    preempt_earmarks: bool = False
    """Whether a workload of higher priority may take room that is kept for a machine."""
    for_demand: bool = True
    """Whether denied demand starts migrations."""
    for_pressure: bool = True
    """Whether a node above its watermark starts migrations."""
    oldest_first: bool = False
    """Whether the longest-lived machines move, as the reference does, instead of the cheapest set."""
    exact_candidates: int = 20
    """Candidates up to which the cheapest set of moves is searched exactly."""

    def watermark_of(self, capacity: ResourceList | None) -> dict[str, int]:
        """Return the amounts at the watermark of a node; nothing if its capacity is unknown."""
        return {name: amount * self.watermark // 1000 for name, amount in (capacity or {}).items()}

    def __post_init__(self) -> None:
        if not 0 < self.watermark <= 1000:
            raise PolicyError(NOT_A_SHARE.format(field="watermark", value=self.watermark))
        for field in fields(self):
            value = getattr(self, field.name)
            least = 1 if field.name.startswith("per_") or field.name == "copy_timeout" else 0
            if value < least:
                message = NOT_POSITIVE if least else NEGATIVE
                raise PolicyError(message.format(field=field.name, value=value))
