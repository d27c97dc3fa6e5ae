"""The machines of a plan with the nodes that could take them, reduced to what a search has to tell apart.

On a fleet of thousands of nodes most targets are full, or like others. Each search visits its targets very often, so
that a single pass removes both first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairway.engine.workload import HostKey, ResourceList
from fairway.hosts.steps import Steps
from fairway.workloads.machines.moves import Candidate, Targets, Work

LEAST_TARGETS = 256
"""Nodes that are visited for each kind of machine, however many kinds there are."""


@dataclass(slots=True)
class Movables:
    """``candidates`` in order of their cost; at the same place in ``kinds`` which of them are alike."""

    candidates: list[Candidate]
    kinds: list[int]
    """Candidates of a kind have the same amounts and targets: a search takes the cheapest of them first."""
    options: list[list[HostKey]]
    """Of each kind: the nodes that have room for one of it, the best first."""
    targets: Targets
    """A copy of these nodes."""
    states: dict[HostKey, int] = field(default_factory=dict)
    """Nodes with the same number are interchangeable."""
    most: int = 0
    """No plan has more moves."""
    room: dict[str, int] = field(default_factory=dict)
    """What all targets together may take."""


def find_movables(
    candidates: Iterable[Candidate], deficit: ResourceList, targets: Targets, work: Work
) -> Steps[Movables]:
    """Leave out candidates without a target or without use, and targets without room or with enough others like
    them."""
    order = sorted(
        (candidate for candidate in candidates if _is_useful(candidate, deficit)),
        key=lambda candidate: (candidate.bytes, candidate.priority, candidate.arrived, candidate.key),
    )
    numbers: dict[object, int] = {}
    kinds = [numbers.setdefault(_kind(candidate), len(numbers)) for candidate in order]
    firsts = [order[kinds.index(kind)] for kind in range(len(numbers))]
    options: list[list[HostKey]] = []
    for at, first in enumerate(firsts):
        # Of what is left by then: kinds with few targets leave their share to those after them. The other half is for
        # the search.
        share = max(LEAST_TARGETS, max(0, work.left) // 2 // (len(firsts) - at))
        if share < len(first.targets):
            work.cut = True
        options.append((yield from _hosts_for(first, first.targets[:share], targets, work)))
    movable = [(candidate, kind) for candidate, kind in zip(order, kinds, strict=True) if options[kind]]
    movables = Movables([c for c, _ in movable], [kind for _, kind in movable], options, Targets())
    yield from _reduce(movables, targets)
    _bound(movables)
    return movables


def _is_useful(candidate: Candidate, deficit: ResourceList) -> bool:
    return any(candidate.amounts.get(resource, 0) > 0 for resource in deficit)


def _kind(candidate: Candidate) -> object:
    return tuple(sorted(candidate.amounts.items())), id(candidate.targets)


def _hosts_for(
    candidate: Candidate, hosts: Sequence[HostKey], targets: Targets, work: Work
) -> Steps[list[HostKey]]:
    fitting: list[HostKey] = []
    for at in range(0, len(hosts), LEAST_TARGETS):
        some = hosts[at : at + LEAST_TARGETS]
        work.spend(len(some))
        fitting += [host for host in some if targets.fits(candidate, host)]
        if work.pauses():
            yield
    return fitting


def _reduce(movables: Movables, targets: Targets) -> Steps[None]:
    """Keep of interchangeable nodes as many as there are machines: no plan uses more."""
    kinds_of: dict[HostKey, list[int]] = {}
    for kind, hosts in enumerate(movables.options):
        yield
        for host in hosts:
            kinds_of.setdefault(host, []).append(kind)
    numbers: dict[object, int] = {}
    kept: dict[int, int] = {}
    for at, (host, kinds) in enumerate(kinds_of.items()):
        if not at % LEAST_TARGETS:
            yield
        state = (tuple(kinds), targets.slots[host], tuple(sorted(targets.room[host].items())))
        number = numbers.setdefault(state, len(numbers))
        kept[number] = kept.get(number, 0) + 1
        if kept[number] <= len(movables.candidates):
            movables.states[host] = number
    movables.options = [[host for host in hosts if host in movables.states] for hosts in movables.options]
    movables.targets = targets.only(list(movables.states))


def _bound(movables: Movables) -> None:
    """Compute what no plan can exceed, whatever it moves."""
    resources = {name for candidate in movables.candidates for name in candidate.amounts}
    least: Mapping[str, int] = {
        name: min(candidate.amounts.get(name, 0) for candidate in movables.candidates) for name in resources
    }
    for host, room in movables.targets.room.items():
        fit = [room.get(name, 0) // amount for name, amount in least.items() if amount > 0]
        movables.most += max(0, min(movables.targets.slots[host], *fit, len(movables.candidates)))
        for name in resources:
            movables.room[name] = movables.room.get(name, 0) + max(0, room.get(name, 0))
    movables.most = min(movables.most, len(movables.candidates))
