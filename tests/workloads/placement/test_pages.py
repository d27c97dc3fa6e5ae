import pytest

from fairway.api.decision import ClusterDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from fairway.workloads.placement.groups import Group
from fairway.workloads.placement.pages import PaginatedDecision, name_pages, paginate


def clusters(count: int) -> tuple[str, ...]:
    return tuple(sorted(f"c{at}" for at in range(count)))


def pages(*groups: Group, placement: str = "p1") -> PaginatedDecision:
    details = {
        name: ClusterDecision(clusterName=name, reason=f"why {name}", score=1)
        for group in groups
        for name in group.clusters
    }
    return name_pages(placement, paginate(groups, details))


def labels(index: int = 0, name: str = "", placement: str = "p1") -> dict[str, str]:
    return {PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: str(index), GROUP_NAME_LABEL: name}


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, [0]), (1, [1]), (99, [99]), (100, [100]), (101, [100, 1]), (200, [100, 100]), (250, [100, 100, 50])],
    ids=str,
)
def test_pages_hold_at_most_100_clusters(count: int, sizes: list[int]) -> None:
    paper = pages(Group("", clusters(count)))
    assert [len(page.decisions) for page in paper.pages] == sizes
    assert tuple(name for page in paper.pages for name in page.clusters) == clusters(count)
    (group,) = paper.groups
    assert group.clusterCount == count
    assert group.decisions == tuple(f"p1-decision-{at}" for at in range(1, len(sizes) + 1))


def test_page_numbers_run_on_across_groups_and_start_at_one() -> None:
    paper = pages(Group("canary", clusters(150)), Group("", clusters(3)), Group("", clusters(1)))
    assert [(page.name, page.labels) for page in paper.pages] == [
        ("p1-decision-1", labels(0, "canary")),
        ("p1-decision-2", labels(0, "canary")),
        ("p1-decision-3", labels(1)),
        ("p1-decision-4", labels(2)),
    ]
    assert [
        (group.decisionGroupIndex, group.decisionGroupName, group.decisions) for group in paper.groups
    ] == [
        (0, "canary", ("p1-decision-1", "p1-decision-2")),
        (1, "", ("p1-decision-3",)),
        (2, "", ("p1-decision-4",)),
    ]


def test_pages_carry_score_and_reason() -> None:
    (page,) = pages(Group("", ("c1",))).pages
    assert page.decisions == (ClusterDecision(clusterName="c1", reason="why c1", score=1),)
