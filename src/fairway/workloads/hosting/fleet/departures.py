"""What residents gave up on a host, and which changes of its room help a request that waits.

Each bound request changes the room of its host. If each of these changes woke everything that waits for room, a burst
would be decided again after each of its members: only what gives room back may wake.
"""

from collections.abc import Iterable, Mapping

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.workloads.hosting.fleet.tenant_usage import Claimant
from fairway.workloads.hosting.resources import DIMENSIONS
from fairway.workloads.hosting.workload import Resident

_Claim = tuple[Claimant, ResourceList, frozenset[tuple[str, str, str, str]]]


class Departures:
    """Compares the residents of a host with those at the last call."""

    def __init__(self) -> None:
        self._claims: dict[HostKey, dict[WorkloadKey, _Claim]] = {}

    def observe(self, host: HostKey, residents: Iterable[Resident]) -> bool:
        """Return whether a resident left, or claims less or something else."""
        before = self._claims.get(host, {})
        after = {
            resident.key: (resident.claimant, resident.amounts, resident.objects) for resident in residents
        }
        if after:
            self._claims[host] = after
        else:
            self._claims.pop(host, None)
        return any(_gives_up(claim, after.get(key)) for key, claim in before.items())


def _gives_up(old: _Claim, new: _Claim | None) -> bool:
    if new is None:
        return True
    if old == new:
        return False
    return (
        old[0] != new[0]
        or not old[2] <= new[2]
        or any(new[1].get(resource, 0) < amount for resource, amount in old[1].items())
    )


def changed_room(before: Mapping[str, int], after: Mapping[str, int], *, freed: bool) -> dict[Key, Direction]:
    """Return the columns of a host whose free room changed. ``freed``: something else than room is free, too."""
    columns: dict[Key, Direction] = {}
    for resource in DIMENSIONS:
        old, new = before.get(resource), after.get(resource)
        direction = Direction.UP if freed else Direction.NONE
        if (old is None) != (new is None):
            direction = Direction.ANY  # the capacity became known or unknown
        elif old is not None and new is not None and old != new:
            direction |= Direction.UP if new > old else Direction.DOWN
        if direction:
            columns[grantable(resource)] = direction
    return columns
