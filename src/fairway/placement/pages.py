"""The pages of a decision: PlacementDecisions with at most 100 clusters each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.api.decision import ClusterDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, DecisionGroupStatus
from fairway.placement.groups import Group

PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Page:
    """The desired state of a PlacementDecision."""

    name: str
    labels: Mapping[str, str]
    decisions: tuple[ClusterDecision, ...]

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(each.clusterName for each in self.decisions)


@dataclass(frozen=True, slots=True)
class PaginatedDecision:
    """All pages of a decision, and its groups."""

    pages: tuple[Page, ...]
    groups: tuple[DecisionGroupStatus, ...]


def paginate(
    placement: str, groups: Sequence[Group], details: Mapping[str, ClusterDecision]
) -> PaginatedDecision:
    """``details`` has the score and reason to record for each cluster."""
    pages: list[Page] = []
    statuses: list[DecisionGroupStatus] = []
    for index, group in enumerate(groups):
        labels = {PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: str(index), GROUP_NAME_LABEL: group.name}
        names: list[str] = []
        for start in range(0, max(1, len(group.clusters)), PAGE_SIZE):
            name = f"{placement}-decision-{len(pages) + 1}"
            clusters = group.clusters[start : start + PAGE_SIZE]
            pages.append(Page(name, labels, tuple(details[cluster] for cluster in clusters)))
            names.append(name)
        statuses.append(
            DecisionGroupStatus(
                decisionGroupIndex=index,
                decisionGroupName=group.name,
                decisions=tuple(names),
                clusterCount=len(group.clusters),
            )
        )
    return PaginatedDecision(pages=tuple(pages), groups=tuple(statuses))
