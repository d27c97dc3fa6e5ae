"""Laws of what-if: an answer holds, nothing in it can be left out, and asking changes nothing."""

from itertools import combinations
from typing import Any

import hypothesis.strategies as st
from hypothesis import assume, event, given, settings
from msgspec import structs

from fairway.api.cluster import ManagedCluster
from fairway.api.placement import Placement, PrioritizerConfig
from fairway.engine.profile import Profile
from fairway.engine.trace import Trace
from fairway.hosts.clusters import cells
from fairway.testing import builders
from fairway.whatif.counterfactual import State, counterfactual
from fairway.whatif.edits import Edit, NumericEdit
from fairway.whatif.explain import explain
from fairway.whatif.world import Key, World
from strategies import NOW_MICROS, placements, worlds
from toy_plugins import PRICE, HelpfulCheapest, HelpfulTier, profile_with

EXAMPLES = settings(max_examples=25)


def contents(world: World) -> dict[str, Any]:
    """Return all objects of a World, and the outcomes of its placements."""
    snapshot = world.fleet.snapshot()
    return {
        "clusters": {name: snapshot.cluster(row) for name, row in snapshot.hosts.row_of.items()},
        "sets": dict(snapshot.sets),
        "bindings": {namespace: names for namespace, names in snapshot.bindings.items() if names},
        "scores": {name: dict(table) for name, table in snapshot.scores.items()},
        "calculators": {name: dict(table) for name, table in snapshot.calculators.items()},
        "placements": dict(world.placements),
        "decisions": {namespace: dict(world.decisions(namespace)) for namespace in ("ns1", "ns2")},
        "traces": {key: list(Trace(world.decide(key, now=NOW_MICROS).outcome)) for key in world.placements},
    }


class Region(HelpfulTier):
    """A third-party filter by a label that the strategies generate."""

    column = cells.label("region")
    default = "eu"


TOYS = profile_with(Region, HelpfulCheapest)


def wins(
    objects: list[object], key: Key, cluster: str, edits: tuple[Edit, ...], *, profile: Profile | None = None
) -> bool:
    """In a world of its own, which nothing was tried in before."""
    world = World(objects, profile=profile)
    for edit in edits:
        edit.apply(world)
    return cluster in world.decide(key, now=NOW_MICROS).outcome.selected


def losers(world: World, key: Key) -> list[str]:
    chosen = set(world.decide(key, now=NOW_MICROS).outcome.selected)
    return sorted(set(world.fleet.snapshot().hosts.row_of) - chosen)


@given(objects=worlds(), placement=placements(), data=st.data())
@EXAMPLES
def test_counterfactual_holds_and_is_minimal(
    objects: list[object], placement: Placement, data: st.DataObject
) -> None:
    objects = [*objects, placement]
    world = World(objects)
    key = ("ns1", placement.metadata.name)
    candidates = losers(world, key)
    assume(candidates)
    cluster = data.draw(st.sampled_from(candidates))
    check_answers(objects, world, key, cluster)


def check_answers(
    objects: list[object], world: World, key: Key, cluster: str, *, profile: Profile | None = None
) -> None:
    result = counterfactual(world, key, cluster, now=NOW_MICROS)
    event(result.state.value)
    assert result.state is not State.SELECTED
    assert bool(result.edits) == (result.state is State.FOUND)
    for answer in (result.edits, *result.alternatives):
        if not answer:
            continue
        event(f"{len(answer)} edits")
        assert wins(objects, key, cluster, answer, profile=profile)
        for count in range(len(answer)):
            for fewer in combinations(answer, count):
                assert not wins(objects, key, cluster, fewer, profile=profile)
        for at, edit in enumerate(answer):
            if isinstance(edit, NumericEdit) and edit.steps > 1:
                less = (*answer[:at], edit.with_steps(edit.steps - 1), *answer[at + 1 :])
                assert not wins(objects, key, cluster, less, profile=profile)


def priced(obj: object, price: int | None) -> object:
    """A cluster with a price, which the third-party score reads."""
    if price is None or not isinstance(obj, ManagedCluster):
        return obj
    labels = {**obj.metadata.labels, PRICE: str(price)}
    return structs.replace(obj, metadata=structs.replace(obj.metadata, labels=labels))


def by_price(placement: Placement, weight: int) -> Placement:
    spec = placement.spec
    others: tuple[PrioritizerConfig, ...] = ()
    if spec.prioritizerPolicy is not None:
        others = spec.prioritizerPolicy.configurations
    policy = builders.policy(*others, builders.builtin("Cheapest", weight))
    return structs.replace(placement, spec=structs.replace(spec, prioritizerPolicy=policy))


@given(
    objects=worlds(),
    placement=placements(),
    prices=st.lists(st.none() | st.integers(0, 250), min_size=7, max_size=7),
    weight=st.sampled_from([-2, 1, 3]),
    data=st.data(),
)
@EXAMPLES
def test_counterfactual_with_third_party_remedies_holds_and_is_minimal(
    objects: list[object], placement: Placement, prices: list[int | None], weight: int, data: st.DataObject
) -> None:
    placement = by_price(placement, weight)
    drawn = iter(prices)
    objects = [
        *(priced(obj, next(drawn, None)) if isinstance(obj, ManagedCluster) else obj for obj in objects),
        placement,
    ]
    world = World(objects, profile=TOYS)
    key = ("ns1", placement.metadata.name)
    candidates = losers(world, key)
    assume(candidates)
    check_answers(objects, world, key, data.draw(st.sampled_from(candidates)), profile=TOYS)


@given(objects=worlds(), placement=placements())
@EXAMPLES
def test_counterfactual_changes_nothing(objects: list[object], placement: Placement) -> None:
    world = World([*objects, placement])
    key = ("ns1", placement.metadata.name)
    before = contents(world)
    for cluster in sorted(world.fleet.snapshot().hosts.row_of):
        counterfactual(world, key, cluster, now=NOW_MICROS)
        assert contents(world) == before


@given(objects=worlds(), placement=placements())
@EXAMPLES
def test_counterfactual_depends_on_the_objects_only(objects: list[object], placement: Placement) -> None:
    key = ("ns1", placement.metadata.name)
    world, mirrored = World([*objects, placement]), World([placement, *reversed(objects)])
    for cluster in sorted(world.fleet.snapshot().hosts.row_of):
        assert counterfactual(world, key, cluster, now=NOW_MICROS) == counterfactual(
            mirrored, key, cluster, now=NOW_MICROS
        )


@given(objects=worlds(), placement=placements(), data=st.data())
@EXAMPLES
def test_explanation_agrees_with_the_cycle_and_changes_nothing(
    objects: list[object], placement: Placement, data: st.DataObject
) -> None:
    world = World([*objects, placement])
    key = ("ns1", placement.metadata.name)
    before = contents(world)
    outcome = world.decide(key, now=NOW_MICROS).outcome
    cluster = data.draw(st.sampled_from(sorted(world.fleet.snapshot().hosts.row_of)))
    explanation = explain(world, key, now=NOW_MICROS, cluster=cluster)
    assert contents(world) == before
    assert [host.host for host in explanation.chosen] == outcome.selected
    traced = {trace.host: trace for trace in before["traces"][key]}
    for host in (*explanation.chosen, *explanation.passed_over):
        assert host == traced.pop(host.host)
    for group in explanation.rejected:
        for name in group.clusters:
            trace = traced.pop(name)
            assert (trace.rejected_by, trace.reason) == (group.plugin, group.reason)
    assert not traced
