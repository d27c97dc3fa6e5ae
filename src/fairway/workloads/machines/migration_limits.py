"""How many migrations a hypervisor carries out at once. It leaves further ones pending, with room kept for them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fairway.engine.workload import HostKey
from fairway.workloads.machines.migration import Migration


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationLimits:
    in_fleet: int
    from_host: int
    others: Mapping[HostKey, int] = field(default_factory=dict)
    """Unfinished migrations of other clients, by the node that the machine leaves. They take places, too."""
    others_elsewhere: int = 0
    """Those whose node is unknown."""

    def left(self, active: Iterable[Migration], host: HostKey) -> int:
        """Return how many more may leave a node beside our own migrations."""
        ours = [migration.source_host for migration in active]
        others = sum(self.others.values()) + self.others_elsewhere
        return min(
            self.in_fleet - others - len(ours), self.from_host - self.others.get(host, 0) - ours.count(host)
        )
