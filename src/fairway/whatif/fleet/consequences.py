"""What follows from decisions that move, as far as the objects at hand show.

The add-on controller installs an add-on where the Placements of its install strategy select clusters. A hosted cluster
is bound to its hosting cluster and moves with no placement, so that it stays on a cluster that is drained or lost.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fairway.api.addon import PLACEMENTS, ClusterManagementAddOn
from fairway.api.cluster import NO_SELECT, ManagedCluster
from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.kinds import KubeObject
from fairway.whatif.fleet.changes import Changed
from fairway.whatif.world import Key

INSTALLED: Final = "installed"
REMOVED: Final = "removed"
REMAINS: Final = "remains"


@dataclass(frozen=True, slots=True)
class Consequence:
    kind: str
    name: str
    """With its namespace, if it has one."""
    what: str
    clusters: tuple[str, ...]


class Consumers:
    """What reads the decisions of placements, or runs on clusters."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._addons: dict[Key, list[str]] = {}
        """Names of add-ons by placement."""
        self._hosted: dict[str, list[str]] = {}
        """Requests of hosted clusters by hosting cluster."""
        for thing in objects:
            match thing:
                case ClusterManagementAddOn() if thing.spec.installStrategy.type == PLACEMENTS:
                    for placement in thing.spec.installStrategy.placements:
                        key = (placement.namespace, placement.name)
                        self._addons.setdefault(key, []).append(thing.metadata.name)
                case HostedClusterRequest() if thing.status.hostingCluster is not None:
                    name = f"{thing.metadata.namespace}/{thing.metadata.name}"
                    self._hosted.setdefault(thing.status.hostingCluster.name, []).append(name)

    def of(self, key: Key, *, added: Sequence[str], removed: Sequence[str]) -> Iterator[Consequence]:
        """Yield what follows from one move."""
        for name in sorted(self._addons.get(key, ())):
            if added:
                yield Consequence("ManagedClusterAddOn", name, INSTALLED, tuple(added))
            if removed:
                yield Consequence("ManagedClusterAddOn", name, REMOVED, tuple(removed))

    def stranded(self, changes: Iterable[Changed]) -> Iterator[Consequence]:
        """Yield the hosted clusters on clusters that get a taint NoSelect."""
        for change in changes:
            before, after = change.before, change.after
            if not isinstance(after, ManagedCluster) or not isinstance(before, ManagedCluster):
                continue
            if _repelling(after) - _repelling(before):
                for name in sorted(self._hosted.get(after.metadata.name, ())):
                    yield Consequence("HostedClusterRequest", name, REMAINS, (after.metadata.name,))


def _repelling(cluster: ManagedCluster) -> set[tuple[str, str]]:
    return {(taint.key, taint.value) for taint in cluster.spec.taints if taint.effect == NO_SELECT}
