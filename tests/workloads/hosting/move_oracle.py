"""All plans of moves of a small fleet, tried one by one with the filters that place requests."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine import cycle
from fairway.engine.ledger import InsufficientCapacity
from fairway.engine.workload import HostKey
from fairway.workloads.hosting import HostingState, Resident, violations
from fairway.workloads.hosting.decision import decision_of
from fairway.workloads.hosting.planning.move_problem import freeze_of
from fairway.workloads.hosting.profile import without_quiet_hours, without_spare
from fairway.workloads.hosting.workload import key_of
from workloads.hosting.hosts import NOW

Moves = Sequence[tuple[Resident, HostKey]]


class MoveOracle:
    """``clean``: whether every host must be within policy after the moves."""

    def __init__(self, state: HostingState, requests: Sequence[HostedClusterRequest], *, clean: bool) -> None:
        self._state, self._clean = state, clean
        self._requests = {key_of(request): request for request in requests}
        self._hosts = [facts.key for facts in state.facts.values()]

    def best(self, *, must: HostKey | None = None, most_moves: int) -> tuple[int, int] | None:
        """Return the fewest moves, and the shortest freeze of so many; None if more than that are needed."""
        residents = [resident for host in self._hosts for resident in self._state.on(host)]
        leaving = [resident for resident in residents if resident.host == must]
        others = [resident for resident in residents if resident.host != must]
        for number in range(len(leaving), most_moves + 1):
            valid = [
                sum(freeze_of(resident) for resident, _ in moves)
                for extra in combinations(others, number - len(leaving))
                for moves in self._assignments([*leaving, *extra], closed=must)
                if self.is_valid(moves)
            ]
            if valid:
                return number, min(valid)
        return None

    def _assignments(self, residents: Sequence[Resident], *, closed: HostKey | None) -> Iterator[Moves]:
        for targets in product([host for host in self._hosts if host != closed], repeat=len(residents)):
            if all(resident.host != target for resident, target in zip(residents, targets, strict=True)):
                yield list(zip(residents, targets, strict=True))

    def is_valid(self, moves: Moves) -> bool:
        """Return whether each host would take what moves there, with everything else as it is at the end."""
        final = self._state.fork()
        for resident, _ in moves:
            final.vacate(resident.key)
        for resident, target in moves:
            try:
                final.reserve(final.workload_of(self._requests[resident.key]), target)
            except InsufficientCapacity:
                return False
        if self._clean and violations(final):
            return False
        return all(self._admits(final, resident, target) for resident, target in moves)

    def _admits(self, final: HostingState, resident: Resident, target: HostKey) -> bool:
        trial = final.fork()
        trial.vacate(resident.key)
        for host in self._hosts:
            if host != target:
                trial.close(host)
        workload = trial.workload_of(self._requests[resident.key])
        outcome = cycle.run(
            trial.snapshot(), workload, without_spare(without_quiet_hours(trial.profile)), now=NOW
        )
        return decision_of(outcome, workload.key).host == target
