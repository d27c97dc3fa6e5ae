"""Laws of the steps, from any pages to any others: nothing is lost on the way, and nothing is done twice."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from controllers.steps.decision_pages import (
    Decisions,
    Situation,
    assigned,
    by_name,
    carried_out,
    decision_of,
    honest,
    own,
    paged,
    planned,
    situations,
    states,
    union,
    wanted_pages,
    without_scores,
)
from fairway.api.decision import ClusterDecision, PlacementDecisionStatus
from fairway.api.placement import PLACEMENT_LABEL
from fairway.workloads.placement.pages import Page
from fairway.workloads.placement.steps import Create, Delete, Fill, Relabel, Step
from kubewire.api.meta import ObjectMeta


def pages_of(*groups: str) -> tuple[Page, ...]:
    """A group for each word, a cluster for each letter."""
    return paged(
        [
            (f"g{at}", [ClusterDecision(clusterName=cluster) for cluster in group])
            for at, group in enumerate(groups)
        ]
    )


def decided(*groups: str) -> Decisions:
    return by_name(decision_of(page) for page in pages_of(*groups))


FOUR = ("ab", "c", "d", "ef")
SWAPPED_BETWEEN_TWO_THAT_SHRINK = ("a", "db", "cf", "e")
"""Neither the first page nor the last can help the two in the middle."""


@given(situation=situations, refresh=st.booleans(), ranked=st.booleans())
@example(situation=(decided(*FOUR), pages_of(*SWAPPED_BETWEEN_TWO_THAT_SHRINK)), refresh=False, ranked=False)
def test_selected_cluster_is_never_missing_between_steps(
    situation: Situation, refresh: bool, ranked: bool
) -> None:
    before, pages = situation
    stays = union(before) & {cluster for page in pages for cluster in page.clusters}
    for state in states(planned(pages, before, refresh=refresh, ranked=ranked), before):
        assert stays <= union(state)


@given(situation=situations)
def test_steps_with_a_refresh_end_in_exactly_the_pages(situation: Situation) -> None:
    before, pages = situation
    after = states(planned(pages, before, refresh=True), before)[-1]
    assert {
        name: (decision.metadata.labels, decision.status.decisions) for name, decision in own(after).items()
    } == {page.name: (page.labels, page.decisions) for page in pages}
    assert all(decision.metadata.ownerReferences[-1].uid == "uid-p" for decision in own(after).values())
    assert planned(pages, after, refresh=True) == ()


@given(situation=situations, ranked=st.booleans())
def test_scores_of_all_pages_are_written_or_none(situation: Situation, ranked: bool) -> None:
    before, pages = situation
    steps = planned(pages, before, refresh=False, ranked=ranked)
    after = states(steps, before)[-1]
    if any(isinstance(step, Fill) for step in steps):
        assert {page.name: after[page.name].status.decisions for page in pages} == {
            page.name: page.decisions for page in pages
        }


@given(situation=situations)
def test_steps_without_a_refresh_end_in_the_same_decision(situation: Situation) -> None:
    """Which page of a group a cluster is on, and in what order, may be as it was."""
    before, pages = situation
    after = states(planned(pages, before, refresh=False), before)[-1]
    wanted = by_name(decision_of(page) for page in pages)
    assert assigned(after) == assigned(wanted)
    assert own(after).keys() == wanted.keys()
    assert planned(pages, after, refresh=False) == ()


@given(situation=situations)
def test_steps_end_in_the_required_order(situation: Situation) -> None:
    """Only scores and reasons may be outdated."""
    before, pages = situation
    after = states(planned(pages, before, refresh=False, ranked=False), before)[-1]
    assert without_scores(own(after)) == {page.name: (page.labels, page.clusters) for page in pages}
    assert planned(pages, after, refresh=False, ranked=False) == ()


@given(situation=situations, refresh=st.booleans(), data=st.data())
def test_new_process_finishes_interrupted_steps(
    situation: Situation, refresh: bool, data: st.DataObject
) -> None:
    before, pages = situation
    reached = states(planned(pages, before, refresh=refresh), before)
    left = data.draw(st.sampled_from(reached))
    again = states(planned(pages, left, refresh=False), left)
    assert assigned(again[-1]) == assigned(by_name(decision_of(page) for page in pages))
    stays = union(before) & {cluster for page in pages for cluster in page.clusters}
    assert all(stays <= union(state) for state in again)


@given(situation=situations, meanwhile=wanted_pages(), data=st.data())
def test_new_process_with_another_decision_converges(
    situation: Situation, meanwhile: tuple[Page, ...], data: st.DataObject
) -> None:
    before, pages = situation
    left = data.draw(st.sampled_from(states(planned(meanwhile, before, refresh=False), before)))
    after = states(planned(pages, left, refresh=False), left)[-1]
    assert assigned(after) == assigned(by_name(decision_of(page) for page in pages))


def kinds(steps: Sequence[Step]) -> Counter[tuple[str, str]]:
    return Counter(
        ("temporary" if isinstance(step, Fill) and step.temporary else type(step).__name__, _page(step))
        for step in steps
    )


def _page(step: Step) -> str:
    return step.page.name if isinstance(step, Create | Relabel) else step.page


@given(situation=situations, refresh=st.booleans())
@example(situation=(decided(*FOUR), pages_of(*SWAPPED_BETWEEN_TWO_THAT_SHRINK)), refresh=False)
def test_every_step_changes_something_and_occurs_once(situation: Situation, refresh: bool) -> None:
    before, pages = situation
    steps = planned(pages, before, refresh=refresh)
    assert max(kinds(steps).values(), default=0) <= 1
    state = dict(before)
    for step in steps:
        after = carried_out(step, state)
        assert after != state, step
        state = after


@given(before=honest, pages=wanted_pages())
@example(before=decided(*FOUR), pages=pages_of(*SWAPPED_BETWEEN_TWO_THAT_SHRINK))
def test_no_page_is_written_twice_without_need(before: Decisions, pages: tuple[Page, ...]) -> None:
    """One write for each fact that is wrong, and one more for a page of each circle in which pages swap clusters."""
    steps = planned(pages, before, refresh=True)
    wanted = {page.name: page for page in pages}
    wrong = {
        name
        for name, page in wanted.items()
        if (before[name].status.decisions if name in before else ()) != page.decisions
    }
    relabelled = {
        name for name in wanted if name in before and before[name].metadata.labels != wanted[name].labels
    }
    assert {page for kind, page in kinds(steps) if kind == "Fill"} == wrong
    assert {page for kind, page in kinds(steps) if kind == "Create"} == wanted.keys() - before.keys()
    assert {page for kind, page in kinds(steps) if kind == "Relabel"} == relabelled
    assert {page for kind, page in kinds(steps) if kind == "Delete"} == before.keys() - wanted.keys()
    temporary = {page for kind, page in kinds(steps) if kind == "temporary"}
    assert temporary <= circling(before, pages)
    assert not temporary or len(temporary) < len(circling(before, pages))


def circling(before: Decisions, pages: Sequence[Page]) -> set[str]:
    """Pages that wait, by way of others, for themselves."""
    source = {
        decision.clusterName: name for name, page in before.items() for decision in page.status.decisions
    }
    waits: dict[str, set[str]] = {}
    for page in pages:
        for cluster in page.clusters:
            if cluster in source and source[cluster] != page.name:
                waits.setdefault(source[cluster], set()).add(page.name)

    def reachable(start: str) -> set[str]:
        reached: set[str] = set()
        todo = [start]
        while todo:
            for page in waits.get(todo.pop(), set()) - reached:
                reached.add(page)
                todo.append(page)
        return reached

    kept = {page.name for page in pages}
    return {name for name in waits if name in reachable(name) and name in kept}


@given(situation=situations, refresh=st.booleans())
def test_page_counts_as_changed_when_its_clusters_change(situation: Situation, refresh: bool) -> None:
    """Events are sent once per page, with its last write."""
    before, pages = situation
    for step in planned(pages, before, refresh=refresh):
        if isinstance(step, Fill) and not step.temporary:
            names = tuple(decision.clusterName for decision in step.decisions)
            old = before.get(step.page)
            known = () if old is None else tuple(decision.clusterName for decision in old.status.decisions)
            assert step.changed == (names != known)


def test_correct_pages_are_not_written() -> None:
    assert planned(pages_of("ab", "c"), decided("ab", "c"), refresh=True) == ()


def test_shift_to_later_pages_begins_with_the_last() -> None:
    steps = planned(pages_of("xabcdef"), decided("abcdef"), refresh=False)
    assert [(type(step), _page(step)[-1]) for step in steps] == [
        (Create, "4"),
        (Fill, "4"),
        (Fill, "3"),
        (Fill, "2"),
        (Fill, "1"),
    ]


def test_shift_to_earlier_pages_begins_with_the_first() -> None:
    steps = planned(pages_of("bcdefg"), decided("abcdefg"), refresh=False)
    assert [(type(step), _page(step)[-1]) for step in steps] == [
        (Fill, "1"),
        (Fill, "2"),
        (Fill, "3"),
        (Delete, "4"),
    ]


def test_swapped_pages_pass_through_a_page_with_both_clusters() -> None:
    before, pages = decided("ab", "cd"), pages_of("cd", "ab")
    steps = planned(pages, before, refresh=False)
    assert [(_page(step)[-1], isinstance(step, Fill) and step.temporary) for step in steps] == [
        ("1", True),
        ("2", False),
        ("1", False),
    ]
    assert without_scores(states(steps, before)[-1]) == without_scores(decided("cd", "ab"))


def test_adopted_page_gets_current_scores() -> None:
    pages = pages_of("ab")
    stranger = structs.replace(
        decision_of(pages[0]),
        metadata=ObjectMeta(name=pages[0].name, namespace="ns1", labels={PLACEMENT_LABEL: "other"}),
        status=PlacementDecisionStatus(
            decisions=(ClusterDecision(clusterName="a", score=7), ClusterDecision(clusterName="b"))
        ),
    )
    assert planned(pages, by_name([stranger]), refresh=False) == (
        Fill(pages[0].name, pages[0].decisions, changed=False, rescored=True),
        Relabel(pages[0]),
    )


def test_page_with_both_clusters_is_corrected_after_a_crash() -> None:
    """Not when scores may be refreshed: until then the decision would name a cluster twice."""
    before, pages = decided("abcd"), pages_of("cdab")
    temporary, *_ = planned(pages, before, refresh=True)
    assert isinstance(temporary, Fill)
    assert temporary.temporary
    left = carried_out(temporary, before)
    after = states(planned(pages, left, refresh=False), left)[-1]
    assert max(assigned(after).values()) == 1
