"""What a plan of moves is made of: candidates, targets with their room, and the work that a search may do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.instant import Micros

MOST_WORK = 200_000
"""Visits of one plan: a node that is considered for a machine, or a step of a search. About 0.2 seconds."""
PAUSE = 1_000
"""Visits between two steps: about a millisecond."""

Cost = tuple[int, int, int, int]
"""Moves, bytes, priorities, and how recently the machines arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A machine that may move."""

    key: WorkloadKey
    amounts: ResourceList
    """What it counts on a node."""
    bytes: int = 0
    """What a migration copies."""
    priority: int = 0
    arrived: Micros = 0
    targets: Sequence[HostKey] = ()
    """Nodes that passed the filters for it, the best first. Machines that are alike share the object."""


@dataclass(frozen=True, slots=True)
class Move:
    key: WorkloadKey
    target: HostKey
    amounts: ResourceList


class Proof(Enum):
    """What a search established about its plan."""

    CHEAPEST = "no set of migrations is cheaper"
    FEWEST = "no set has fewer migrations"
    NONE = "not proved to be the smallest set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    moves: tuple[Move, ...]
    cost: Cost
    lower_bound: int
    """No plan has fewer moves."""
    proof: Proof
    covers: bool = True
    """Whether it covers the whole deficit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a search."""

    plan: Plan | None
    proved: bool = True
    """Without a plan: whether none exists; otherwise the search ended at its limit."""


@dataclass(slots=True)
class Targets:
    """What is left on each node while a plan is made. A node without an entry takes nothing."""

    room: dict[HostKey, dict[str, int]] = field(default_factory=dict)
    slots: dict[HostKey, int] = field(default_factory=dict)
    """Migrations that a node may still receive."""

    def fits(self, candidate: Candidate, target: HostKey) -> bool:
        room = self.room.get(target)
        if room is None or self.slots.get(target, 0) < 1:
            return False
        for resource, amount in candidate.amounts.items():  # the innermost loop: all() takes twice as long
            if amount > room.get(resource, 0):
                break
        else:
            return True
        return False

    def take(self, candidate: Candidate, target: HostKey) -> bool:
        if not self.fits(candidate, target):
            return False
        self._add(candidate, target, -1)
        return True

    def give_back(self, candidate: Candidate, target: HostKey) -> None:
        self._add(candidate, target, 1)

    def _add(self, candidate: Candidate, target: HostKey, sign: int) -> None:
        room = self.room[target]
        for resource, amount in candidate.amounts.items():
            room[resource] = room.get(resource, 0) + sign * amount
        self.slots[target] += sign

    def only(self, hosts: Sequence[HostKey]) -> "Targets":
        """Return a copy with some of the nodes, and their resources in the same order."""
        return Targets(
            {host: dict(sorted(self.room[host].items())) for host in hosts},
            {host: self.slots.get(host, 0) for host in hosts},
        )

    def copy(self) -> "Targets":
        return self.only(list(self.room))


@dataclass(slots=True)
class Work:
    """The visits that a search may still make. It counts what it does instead of seconds, so that the same input has
    the same plan on every machine."""

    left: int = MOST_WORK
    cut: bool = False
    """Whether anything was left out."""
    _paused: int = 0

    def spend(self, visits: int) -> bool:
        """Return whether the visits may be made."""
        self.left -= visits
        self._paused += visits
        if self.left < 0:
            self.cut = True
        return self.left >= 0

    def pauses(self) -> bool:
        """Return whether it is time for a step."""
        if self._paused < PAUSE:
            return False
        self._paused = 0
        return True

    def part(self, share: int) -> "Work":
        """Return the work of one of several searches. Give it back with ``join``."""
        return Work(max(0, self.left) // share)

    def join(self, part: "Work", share: int) -> None:
        self.left -= max(0, self.left) // share - max(0, part.left)


def cost_of(chosen: Sequence[Candidate]) -> Cost:
    return (
        len(chosen),
        sum(candidate.bytes for candidate in chosen),
        sum(candidate.priority for candidate in chosen),
        sum(candidate.arrived for candidate in chosen),
    )


def plan_of(
    chosen: Sequence[tuple[Candidate, HostKey]], *, bound: int, proof: Proof, covers: bool = True
) -> Plan:
    if proof is Proof.NONE and covers and len(chosen) == bound:
        proof = Proof.FEWEST
    return Plan(
        moves=tuple(Move(candidate.key, target, candidate.amounts) for candidate, target in chosen),
        cost=cost_of([candidate for candidate, _ in chosen]),
        lower_bound=bound,
        proof=proof,
        covers=covers,
    )
