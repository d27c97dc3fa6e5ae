"""Decide one Placement: from a snapshot of the fleet to conditions, groups and pages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fairway.api.decision import ClusterDecision
from fairway.api.placement import SORT_BY_SCORE, DecisionGroupStatus
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code, Status, failed
from fairway.hosts.clusters.tenures import UNKNOWN
from fairway.workloads.placement.conditions import misconfigured_condition, satisfied_condition
from fairway.workloads.placement.groups import divide
from fairway.workloads.placement.pages import GroupPages, Page, name_pages, paginate
from fairway.workloads.placement.plugins import clustersets
from fairway.workloads.placement.plugins.contract import contract_faults
from fairway.workloads.placement.plugins.stability import stay_of
from fairway.workloads.placement.workload import PlacementWorkload, placement_of
from kubewire.api.meta import Condition

LABEL_LENGTH = 63
NAME_TOO_LONG = (
    "placement name {name} has {length} characters: its decisions have the name as a label, at most 63 long; "
    "give the placement a shorter name"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """With ``frozen``, a cluster set is invalid or a plugin failed, and decisions must not be written."""

    outcome: Outcome
    status: Status
    conditions: tuple[Condition, ...]
    """The conditions that Fairway owns; others on the object are not changed."""
    groups: tuple[DecisionGroupStatus, ...]
    pages: tuple[Page, ...]
    frozen: bool = False

    @property
    def error(self) -> str | None:
        """Why the placement must be decided again soon."""
        return None if self.status.code is Code.SUCCESS else self.status.message

    @property
    def selected(self) -> int:
        return len(self.outcome.selected_rows)


def conclude(outcome: Outcome, workload: PlacementWorkload) -> Verdict:
    if len(workload.name) > LABEL_LENGTH:
        refused = failed(NAME_TOO_LONG.format(name=workload.name, length=len(workload.name)))
        return Verdict(outcome, refused, (), (), (), frozen=True)
    if outcome.status.aborts and (outcome.faults or outcome.status.plugin == clustersets.NAME):
        return Verdict(outcome, outcome.status, (), (), (), frozen=True)
    # Named groups depend on labels of the selected clusters, which are no part of the details.
    named = workload.placement.spec.decisionStrategy.groupStrategy.decisionGroups
    conclusion = _conclude(outcome) if named else outcome.derive(_conclude)
    paginated = name_pages(workload.name, conclusion.groups)
    return Verdict(
        outcome=outcome,
        status=conclusion.mistake or outcome.status,
        conditions=conclusion.conditions,
        groups=paginated.groups,
        pages=paginated.pages,
    )


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """What placements that are alike have in common."""

    mistake: Status | None
    """Of the decision groups."""
    conditions: tuple[Condition, ...]
    groups: tuple[GroupPages, ...]


def _conclude(outcome: Outcome) -> _Conclusion:
    workload = placement_of(outcome.context)
    spec = workload.placement.spec
    division = divide(
        outcome.snapshot,
        outcome.selected,
        spec.decisionStrategy.groupStrategy,
        order=_by_rank(outcome) if spec.sortBy == SORT_BY_SCORE else sorted,
    )
    mistake = division.status if division.status.aborts else None
    status = mistake or outcome.status
    return _Conclusion(
        mistake=mistake,
        conditions=(
            misconfigured_condition(status, ignored=(*workload.trust.faults, *contract_faults(workload))),
            satisfied_condition(
                wanted=spec.clusterSets,
                sets=clustersets.sets_of(outcome.context),
                available=outcome.eligible,
                selected=len(outcome.selected_rows),
                unscheduled=outcome.unscheduled,
                status=status,
            ),
        ),
        groups=paginate(division.groups, outcome.derive(_details)),
    )


def _by_rank(outcome: Outcome) -> Callable[[Sequence[str]], list[str]]:
    place = {name: at for at, name in enumerate(outcome.selected)}
    return lambda clusters: sorted(clusters, key=place.__getitem__)


def _details(outcome: Outcome) -> dict[str, ClusterDecision]:
    stay = stay_of(outcome)
    tenures = {} if stay is None else stay.tenures
    return {
        name: ClusterDecision(
            clusterName=name,
            reason=f"{reason}{tenures.get(name, UNKNOWN)}" if tenures else reason,
            score=total,
        )
        for name, reason, total in outcome.reasons()
    }
