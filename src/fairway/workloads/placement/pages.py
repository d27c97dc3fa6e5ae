"""The pages of a decision: PlacementDecisions with at most 100 clusters each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.api.decision import ClusterDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, DecisionGroupStatus
from fairway.workloads.placement.groups import Group

PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Page:
    """The desired state of a PlacementDecision."""

    name: str
    labels: Mapping[str, str]
    decisions: tuple[ClusterDecision, ...]

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(decision.clusterName for decision in self.decisions)


@dataclass(frozen=True, slots=True)
class GroupPages:
    """The pages of a decision group, before they have names. Placements that are alike share them."""

    name: str
    count: int
    """Number of clusters."""
    pages: tuple[tuple[ClusterDecision, ...], ...]


@dataclass(frozen=True, slots=True)
class PaginatedDecision:
    """All pages of a decision, and its groups."""

    pages: tuple[Page, ...]
    groups: tuple[DecisionGroupStatus, ...]


def paginate(groups: Sequence[Group], details: Mapping[str, ClusterDecision]) -> tuple[GroupPages, ...]:
    """``details`` has the score and reason to record for each cluster."""
    return tuple(
        GroupPages(
            name=group.name,
            count=len(group.clusters),
            pages=tuple(
                tuple(details[cluster] for cluster in group.clusters[start : start + PAGE_SIZE])
                for start in range(0, max(1, len(group.clusters)), PAGE_SIZE)
            ),
        )
        for group in groups
    )


def name_pages(placement: str, groups: Sequence[GroupPages]) -> PaginatedDecision:
    pages: list[Page] = []
    statuses: list[DecisionGroupStatus] = []
    for index, group in enumerate(groups):
        labels = {PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: str(index), GROUP_NAME_LABEL: group.name}
        first = len(pages)
        for decisions in group.pages:
            pages.append(Page(f"{placement}-decision-{len(pages) + 1}", labels, decisions))
        statuses.append(
            DecisionGroupStatus(
                decisionGroupIndex=index,
                decisionGroupName=group.name,
                decisions=tuple([page.name for page in pages[first:]]),
                clusterCount=group.count,
            )
        )
    return PaginatedDecision(pages=tuple(pages), groups=tuple(statuses))
