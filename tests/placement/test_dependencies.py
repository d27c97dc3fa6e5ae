"""Whom a change concerns: exactly those who said so, whatever was said before."""

import hypothesis.strategies as st
from hypothesis import given

from fairway.api.placement import Placement
from fairway.clusters import Fleet, cells
from fairway.controllers.placement.dependency_index import (
    Dependencies,
    DependencyIndex,
    Owner,
    dependencies_of,
)
from fairway.engine import cycle
from fairway.fleet.column import Key
from fairway.fleet.direction import Direction
from fairway.fleet.journal import Change
from fairway.placement.workload import PlacementWorkload
from strategies import NOW_MICROS, placements

KEYS: tuple[Key, ...] = tuple((cells.LABEL, name) for name in "abcd")
OWNERS: tuple[Owner, ...] = (("ns1", "p0"), ("ns1", "p1"), ("ns2", "p0"))

keys = st.frozensets(st.sampled_from(KEYS))
concerns = st.builds(
    lambda wide, narrow, anything: Dependencies(wide, narrow - wide, anything), keys, keys, st.booleans()
)
steps = st.lists(st.tuples(st.sampled_from(OWNERS), st.one_of(st.none(), concerns)), max_size=15)
changes = st.builds(
    Change,
    rows=st.sampled_from([(), (1,)]),
    columns=st.dictionaries(st.sampled_from(KEYS), st.sampled_from(Direction)),
)


@given(steps=steps, change=changes)
def test_those_are_concerned_who_said_so_last(
    steps: list[tuple[Owner, Dependencies | None]], change: Change
) -> None:
    interest, said = DependencyIndex(), dict[Owner, Dependencies]()
    for owner, concern in steps:
        if concern is None:
            interest.forget(owner)
            said.pop(owner, None)
        else:
            interest.put(owner, concern)
            said[owner] = concern
    surely = {
        owner
        for owner, each in said.items()
        if each.wide & change.columns.keys() or (each.anything and bool(change.rows))
    }
    perhaps = {owner for owner, each in said.items() if each.narrow & change.columns.keys()} - surely
    found = interest.concerned(change)
    assert (set(found[0]), set(found[1])) == (surely, perhaps)


@given(st.lists(st.tuples(st.sampled_from(OWNERS), concerns), max_size=15))
def test_who_is_forgotten_leaves_nothing_behind(steps: list[tuple[Owner, Dependencies]]) -> None:
    interest = DependencyIndex()
    for owner, concern in steps:
        interest.put(owner, concern)
    for owner in OWNERS:
        interest.forget(owner)
    kept = (interest._wide, interest._narrow, interest._anything, interest._concerns)
    assert not any(kept)


@given(placement=placements())
def test_how_often_others_chose_a_cluster_concerns_nobody(placement: Placement) -> None:
    workload = PlacementWorkload(placement)
    outcome = cycle.run(Fleet().snapshot(), workload, workload.profile, now=NOW_MICROS)
    concern = dependencies_of(outcome, placement)
    assert cells.DECISIONS not in concern.wide | concern.narrow
    assert not concern.wide & concern.narrow
