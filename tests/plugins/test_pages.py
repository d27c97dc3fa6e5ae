from collections.abc import Iterator

import pytest

from fairway.api.decision import ClusterDecision, PlacementDecision
from fairway.api.meta import ObjectMeta
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from fairway.engine.status import OK, Status, misconfigured, warning
from fairway.placement.groups import Group
from fairway.placement.pages import Event, PaginatedDecision, Writes, paginate, plan, score_text
from fairway.testing.builders import decision


def clusters(count: int) -> tuple[str, ...]:
    return tuple(sorted(f"c{at}" for at in range(count)))


def pages(*groups: Group, placement: str = "p1") -> PaginatedDecision:
    details = {
        name: ClusterDecision(clusterName=name, reason=f"why {name}", score=1)
        for group in groups
        for name in group.clusters
    }
    return paginate(placement, groups, details)


def labels(index: int = 0, name: str = "", placement: str = "p1") -> dict[str, str]:
    return {PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: str(index), GROUP_NAME_LABEL: name}


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(0, [0]), (1, [1]), (99, [99]), (100, [100]), (101, [100, 1]), (200, [100, 100]), (250, [100, 100, 50])],
    ids=str,
)
def test_decision_page_has_at_most_100_clusters(count: int, sizes: list[int]) -> None:
    paper = pages(Group("", clusters(count)))
    assert [len(page.decisions) for page in paper.pages] == sizes
    assert tuple(name for page in paper.pages for name in page.clusters) == clusters(count)
    (group,) = paper.groups
    assert group.clusterCount == count
    assert group.decisions == tuple(f"p1-decision-{at}" for at in range(1, len(sizes) + 1))


def test_page_numbers_start_at_one_and_continue_across_groups() -> None:
    paper = pages(Group("canary", clusters(150)), Group("", clusters(3)), Group("", clusters(1)))
    assert [(page.name, page.labels) for page in paper.pages] == [
        ("p1-decision-1", labels(0, "canary")),
        ("p1-decision-2", labels(0, "canary")),
        ("p1-decision-3", labels(1)),
        ("p1-decision-4", labels(2)),
    ]
    assert [(each.decisionGroupIndex, each.decisionGroupName, each.decisions) for each in paper.groups] == [
        (0, "canary", ("p1-decision-1", "p1-decision-2")),
        (1, "", ("p1-decision-3",)),
        (2, "", ("p1-decision-4",)),
    ]


def test_pages_have_score_and_reason() -> None:
    (page,) = pages(Group("", ("c1",))).pages
    assert page.decisions == (ClusterDecision(clusterName="c1", reason="why c1", score=1),)


def planned(
    paper: PaginatedDecision,
    *existing: PlacementDecision,
    status: Status = OK,
    scores: dict[str, int] | None = None,
) -> Writes:
    return plan(
        namespace="ns1",
        placement="p1",
        existing={each.metadata.name: each for each in existing},
        paper=paper,
        status=status,
        scores=scores or {},
    )


def there(
    number: int, held: tuple[str, ...], *, index: int = 0, name: str = "", extra: dict[str, str] | None = None
) -> PlacementDecision:
    found = decision(f"p1-decision-{number}", held)
    meta = ObjectMeta(
        name=found.metadata.name, namespace="ns1", labels={**labels(index, name), **(extra or {})}
    )
    return PlacementDecision(metadata=meta, status=found.status)


def created(name: str) -> Event:
    words = f"Decision {name} is created with placement p1 in namespace ns1"
    return Event("Normal", "DecisionCreate", "DecisionCreated", words)


def updated(name: str) -> Event:
    words = f"Decision {name} is updated with placement p1 in namespace ns1"
    return Event("Normal", "DecisionUpdate", "DecisionUpdated", words)


def deleted(name: str) -> Event:
    words = f"Decision {name} is deleted with placement p1 in namespace ns1"
    return Event("Normal", "DecisionDelete", "DecisionDeleted", words)


def test_created_page_has_no_score_event() -> None:
    paper = pages(Group("", clusters(101)))
    writes = planned(paper, scores={"c1": 5})
    assert writes == Writes(create=paper.pages, events=(created("p1-decision-1"), created("p1-decision-2")))


def test_empty_selection_is_one_empty_page() -> None:
    writes = planned(pages(Group("", ())))
    assert [page.clusters for page in writes.create] == [()]


def test_unchanged_page_is_not_written() -> None:
    """Changed scores and reasons alone do not cause a write."""
    assert planned(pages(Group("", ("c1", "c2"))), there(1, ("c1", "c2"))) == Writes()


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(("c1",), id="one less"),
        pytest.param(("c1", "c2", "c3"), id="one more"),
        pytest.param(("c2", "c1"), id="another order"),
        pytest.param((), id="none"),
    ],
)
def test_changed_clusters_update_page_with_score_event(held: tuple[str, ...]) -> None:
    paper = pages(Group("", ("c1", "c2")))
    writes = planned(paper, there(1, held), scores={"c2": 7, "c1": -3, "unchosen": 0})
    told = Event("Normal", "ScoreUpdate", "ScoreUpdated", "c1:-3 c2:7 unchosen:0 ")
    assert writes == Writes(rewrite=paper.pages, events=(updated("p1-decision-1"), told))


def test_page_update_without_scores_has_no_score_event() -> None:
    writes = planned(pages(Group("", ())), there(1, ("c1",)))
    assert writes.events == (updated("p1-decision-1"),)


def test_every_updated_page_has_a_score_event() -> None:
    writes = planned(pages(Group("", clusters(101))), there(1, ()), there(2, ()), scores={"c1": 1})
    assert [event.reason for event in writes.events] == ["DecisionUpdate", "ScoreUpdate"] * 2


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(there(1, ("c1",), name="canary"), id="another group name"),
        pytest.param(there(1, ("c1",), index=4), id="another index"),
        pytest.param(there(1, ("c1",), extra={"team": "blue"}), id="a label that is not ours"),
        pytest.param(decision("p1-decision-1", ["c1"]), id="no labels at all"),
    ],
)
def test_label_update_of_page_has_no_event(page: PlacementDecision) -> None:
    paper = pages(Group("", ("c1",)))
    assert planned(paper, page) == Writes(relabel=paper.pages)


def test_page_clusters_are_written_before_labels() -> None:
    paper = pages(Group("canary", ("c1",)))
    first = planned(paper, there(1, ("c2",)))
    assert (first.rewrite, first.relabel) == (paper.pages, ())
    second = planned(paper, there(1, ("c1",)))
    assert (second.rewrite, second.relabel) == ((), paper.pages)


def test_surplus_pages_are_deleted_by_name() -> None:
    paper = pages(Group("", ("c1",)))
    surplus = [there(number, ("x",)) for number in (10, 9, 2)]
    writes = planned(paper, there(1, ("c1",)), *surplus)
    names = ("p1-decision-10", "p1-decision-2", "p1-decision-9")
    assert writes == Writes(delete=names, events=tuple(deleted(name) for name in names))


def test_decisions_with_label_of_placement_belong_to_it() -> None:
    paper = pages(Group("", ("c1",)))
    mine = there(1, ("c1",))
    foreign = decision("somebody-made-this", ["c1"], placement="p1")
    others = (decision("p2-decision-1", ["c1"], placement="p2"), decision("p1-decision-7", ["c1"]))
    assert planned(paper, mine, foreign, *others).delete == ("somebody-made-this",)


def test_smaller_selection_updates_first_page_and_deletes_others() -> None:
    everybody = clusters(128)
    before = (there(1, everybody[:100]), there(2, everybody[100:]))
    fewer = planned(pages(Group("", everybody[:10])), *before)
    assert [page.name for page in fewer.rewrite] == ["p1-decision-1"]
    assert fewer.delete == ("p1-decision-2",)
    assert fewer.events == (updated("p1-decision-1"), deleted("p1-decision-2"))
    nobody = planned(pages(Group("", ())), *before)
    assert [page.clusters for page in nobody.rewrite] == [()]
    assert nobody.delete == ("p1-decision-2",)


def test_no_groups_delete_all_pages() -> None:
    assert planned(pages(), there(1, ("c1",))).delete == ("p1-decision-1",)


def test_warning_event_is_added_to_page_updates_only() -> None:
    status = warning(lambda: "AddOnPlacementScores c1/default expired", plugin="AddOn/default/free")
    paper = pages(Group("", clusters(101)))
    writes = planned(paper, there(1, ()), there(3, ()), status=status, scores={"c1": 0})
    assert writes.events == (
        Event(
            "Warning",
            "DecisionUpdate",
            "DecisionUpdated",
            "Decision p1-decision-1 is updated with placement p1 in namespace ns1: "
            "AddOnPlacementScores c1/default expired in plugin AddOn/default/free",
        ),
        Event("Normal", "ScoreUpdate", "ScoreUpdated", "c1:0 "),
        created("p1-decision-2"),
        deleted("p1-decision-3"),
    )


def test_misconfiguration_is_not_a_warning_event() -> None:
    writes = planned(pages(Group("", ())), there(1, ("c1",)), status=misconfigured("no"))
    assert writes.events == (updated("p1-decision-1"),)


def test_score_event_lists_scores_by_name() -> None:
    assert score_text({"b": 1, "a": -20, "c": 0}) == "a:-20 b:1 c:0 "
    assert score_text({}) == ""


def test_event_message_of_1000_bytes_is_complete() -> None:
    scores = {f"c{at:02d}-": 10 for at in range(100)}
    scores = {f"{name}xx": value for name, value in scores.items()}
    text = score_text(scores)
    assert len(text) == 1000
    assert text.endswith("c99-xx:10 ")
    longer = score_text({**scores, "d": 1})
    assert longer == text + "......"


def test_longer_event_message_is_truncated_between_entries() -> None:
    scores = {f"cluster-{at:03d}": 100 for at in range(100)}
    text = score_text(scores)
    assert len(text) == 16 * 62 + 6
    assert text.endswith("cluster-061:100 ......")


def test_event_message_length_is_in_bytes() -> None:
    assert score_text({"é" * 498: 1}) == "é" * 498 + ":1 "
    assert score_text({"é" * 499: 1}) == "......"


def test_score_message_is_formatted_once_and_only_for_updates() -> None:
    """A placement of 100,000 clusters has 1,000 pages, and a new cluster may change them all."""
    told: list[str] = []

    class Scores(dict[str, int]):
        def __iter__(self) -> Iterator[str]:
            told.append("scores")
            return super().__iter__()

    def words() -> str:
        told.append("warning")
        return "late"

    paper = pages(Group("", clusters(500)))
    written = [there(at, page.clusters) for at, page in enumerate(paper.pages, 1)]
    planned(paper, *written, status=warning(words, plugin="P"), scores=Scores(c1=1))
    assert told == []
    others = [there(at, ("other",)) for at in range(1, 6)]
    writes = planned(paper, *others, status=warning(words, plugin="P"), scores=Scores(c1=1))
    assert [event.message for event in writes.events[1::2]] == ["c1:1 "] * 5
    assert all(": late in plugin P" in event.message for event in writes.events[::2])
    assert sorted(told) == ["scores", "warning"]
