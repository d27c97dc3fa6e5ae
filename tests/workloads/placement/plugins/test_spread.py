from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from fairway.api.placement import PlacementSpec, SpreadConstraint, SpreadPolicy
from fairway.engine.trace import NONE_WANTED, Trace
from fairway.testing.builders import addon, cluster, placement, policy, predicate, score, selector
from fairway.workloads.placement import PlacementWorkload
from fairway.workloads.placement.plugins.spread import (
    NAME,
    PASSED_OVER,
    TAKEN_LAST,
    Constraint,
    Tally,
    spread_constraints,
)
from workloads.placement.plugins.verdicts import look, refusal, selected, trace

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"


def over(key: str, when: str = HARD, *, skew: int = 1, kind: str = "Label") -> SpreadConstraint:
    return SpreadConstraint(topologyKey=key, topologyKeyType=kind, maxSkew=skew, whenUnsatisfiable=when)


def spread(*constraints: SpreadConstraint, wanted: int | None = None) -> PlacementSpec:
    return PlacementSpec(
        numberOfClusters=wanted, spreadPolicy=SpreadPolicy(spreadConstraints=tuple(constraints))
    )


def fleet(text: str) -> list[object]:
    """Return clusters with regions from ``a:eu b:us c``, in order of preference."""
    clusters: list[object] = []
    for word in text.split():
        name, _, region = word.partition(":")
        clusters.append(cluster(name, labels={"region": region} if region else {}))
    return clusters


LOPSIDED = "a1:eu a2:eu a3:eu a4:eu b1:us c1:ap"


@pytest.mark.parametrize(
    ("clusters", "spec", "expected"),
    [
        pytest.param(LOPSIDED, spread(wanted=4), "a1 a2 a3 a4", id="without constraints the best are taken"),
        pytest.param(
            LOPSIDED, spread(over("region"), wanted=3), "a1 b1 c1", id="a hard constraint takes turns"
        ),
        pytest.param(
            LOPSIDED,
            spread(over("region"), wanted=4),
            "a1 a2 b1 c1",
            id="a topology may be one ahead of the emptiest",
        ),
        pytest.param(
            LOPSIDED,
            spread(over("region"), wanted=6),
            "a1 a2 b1 c1",
            id="rather fewer than wanted than too uneven",
        ),
        pytest.param(LOPSIDED, spread(over("region")), "a1 a2 b1 c1", id="also when all that fit are wanted"),
        pytest.param(
            LOPSIDED,
            spread(over("region", skew=2), wanted=3),
            "a1 a2 b1",
            id="a skew of 2 lets two come first",
        ),
        pytest.param(
            LOPSIDED,
            spread(over("region", skew=2), wanted=6),
            "a1 a2 a3 b1 c1",
            id="a skew of 2 lets one more in at the end",
        ),
        pytest.param(
            LOPSIDED, spread(over("region", skew=0), wanted=4), "a1 a2 b1 c1", id="a skew below 1 counts as 1"
        ),
        pytest.param(
            LOPSIDED,
            spread(over("region", SOFT), wanted=5),
            "a1 a2 a3 b1 c1",
            id="a soft constraint is broken when nothing else is left",
        ),
        pytest.param(
            LOPSIDED,
            spread(over("region", ""), wanted=3),
            "a1 b1 c1",
            id="a constraint that does not say what to do is soft",
        ),
        pytest.param(
            LOPSIDED,
            spread(over("region", SOFT), wanted=3),
            "a1 b1 c1",
            id="a soft constraint is kept while it can be",
        ),
        pytest.param(
            "a1:eu a2:eu", spread(over("region"), wanted=2), "a1 a2", id="one topology alone is never uneven"
        ),
        pytest.param(LOPSIDED, spread(over("region"), wanted=0), "", id="none wanted, none taken"),
        pytest.param(
            "a1:eu a2 b1:us",
            spread(over("region"), wanted=3),
            "a1 b1",
            id="a hard constraint leaves out clusters without the label",
        ),
        pytest.param(
            "a1 b1:eu b2:eu c1:us",
            spread(over("region", SOFT), wanted=3),
            "b1 b2 c1",
            id="a soft constraint takes clusters without the label last but for balance",
        ),
        pytest.param(
            "a1 b1:eu c1:us", spread(over("region", SOFT), wanted=3), "a1 b1 c1", id="but takes them"
        ),
        pytest.param(
            "a1 a2", spread(over("region", SOFT), wanted=1), "a1", id="also if no cluster has the label"
        ),
    ],
)
def test_spread_constraint_selects_clusters(clusters: str, spec: PlacementSpec, expected: str) -> None:
    assert selected(*fleet(clusters), spec=spec) == expected.split()


def test_clusters_without_topology_do_not_count_for_skew() -> None:
    spec = spread(over("region", SOFT), wanted=4)
    regions = "a1:eu a2:eu a3:eu b1:us b2:us"
    assert selected(*fleet(regions), spec=spec) == ["a1", "a2", "b1", "b2"]
    assert selected(*fleet(f"{regions} z"), spec=spec) == ["a1", "a2", "b1", "b2"]


def test_claim_as_topology_of_spread() -> None:
    clusters = [cluster(name, claims={"zone": zone}) for name, zone in (("a", "1"), ("b", "1"), ("c", "2"))]
    assert selected(*clusters, spec=spread(over("zone", kind="Claim"), wanted=2)) == ["a", "c"]
    assert selected(*clusters, spec=spread(over("zone", kind="Label"), wanted=2)) == []


def test_spread_selects_by_score_within_skew_in_rank_order() -> None:
    spec = structs.replace(
        spread(over("region"), wanted=3), prioritizerPolicy=policy(addon("free"), mode="Exact")
    )
    scores = [score(name, {"free": value}) for name, value in (("a1", 10), ("a2", 50), ("a3", 90), ("b1", 0))]
    assert selected(*fleet("a1:eu a2:eu a3:eu b1:us"), *scores, spec=spec) == ["a3", "a2", "b1"]


def test_spread_topologies_are_those_of_feasible_clusters() -> None:
    spec = structs.replace(
        spread(over("region"), wanted=3), predicates=(predicate(labels=selector(labels={"env": "prod"})),)
    )
    prod = [cluster(name, labels={"env": "prod", "region": "eu"}) for name in ("a", "b", "c")]
    assert selected(*prod, cluster("d", labels={"region": "us"}), spec=spec) == ["a", "b", "c"]


def two(name: str, region: str, tier: str) -> object:
    return cluster(name, labels={"region": region, "tier": tier})


def test_earlier_soft_spread_constraint_has_precedence() -> None:
    clusters = [two("a", "eu", "gold"), two("b", "eu", "lead"), two("c", "us", "gold")]
    regions_first = spread(over("region", SOFT), over("tier", SOFT), wanted=2)
    assert selected(*clusters, spec=regions_first) == ["a", "c"]
    tiers_first = spread(over("tier", SOFT), over("region", SOFT), wanted=2)
    assert selected(*clusters, spec=tiers_first) == ["a", "b"]


def test_hard_spread_constraint_has_precedence_over_soft_one() -> None:
    clusters = [two("a", "eu", "gold"), two("b", "eu", "lead"), two("c", "us", "gold")]
    assert selected(*clusters, spec=spread(over("tier", SOFT), over("region"), wanted=2)) == ["a", "c"]


def test_all_hard_spread_constraints_hold_together() -> None:
    clusters = [
        two("a", "eu", "gold"),
        two("b", "eu", "lead"),
        two("c", "us", "gold"),
        two("d", "us", "lead"),
    ]
    assert selected(*clusters, spec=spread(over("region"), over("tier"), wanted=2)) == ["a", "d"]
    assert selected(*clusters[:3], spec=spread(over("region"), over("tier"), wanted=3)) == ["a"]


def test_message_of_spread_rejection() -> None:
    verdict = look(*fleet("a1:eu a2:eu a3:eu b1:us z"), spec=spread(over("region"), wanted=4))
    assert verdict.outcome.selected == ["a1", "a2", "b1"]
    assert refusal(verdict, "z") == (NAME, "has no label region, over which the placement must be spread")
    left_out = trace(verdict, "a3")
    assert left_out.rank == 3
    assert left_out.reason == (
        "would leave label region=eu 2 ahead of the emptiest, and at most 1 is allowed"
    )
    assert [stage.plugin for stage in verdict.outcome.details.stages] == [
        "Predicate",
        "TaintToleration",
        NAME,
    ]


def test_cluster_passed_over_by_a_soft_constraint_names_the_constraint() -> None:
    verdict = look(*fleet("a1:eu a2:eu b1:us c1"), spec=spread(over("region", SOFT), wanted=2))
    assert verdict.outcome.selected == ["a1", "b1"]
    assert trace(verdict, "a2").reason == PASSED_OVER.format(kind="label", key="region", value="eu", most=1)
    assert trace(verdict, "c1").reason == "passed every filter, but 2 hosts ranked higher, and 2 are wanted"
    assert [reason.partition(" with")[0] for _, reason, _ in verdict.outcome.reasons()] == [
        "Rank 1 of 4",
        "Rank 3 of 4",
    ]


def test_cluster_without_topology_is_selected_last_with_reason() -> None:
    verdict = look(*fleet("a1 b1:us"), spec=spread(over("region", SOFT), wanted=1))
    assert verdict.outcome.selected == ["b1"]
    assert trace(verdict, "a1").reason == TAKEN_LAST.format(kind="label", key="region")


topologies = st.lists(st.tuples(st.sampled_from(["eu", "us", ""]), st.sampled_from("xy")), max_size=8)
constraints = st.lists(
    st.builds(
        over, st.sampled_from(["region", "tier"]), st.sampled_from([HARD, SOFT]), skew=st.integers(1, 2)
    ),
    min_size=1,
    max_size=2,
)


@given(topologies=topologies, constraints=constraints, wanted=st.one_of(st.none(), st.integers(0, 8)))
@settings(max_examples=50)
def test_every_cluster_skipped_by_spread_has_a_true_reason(
    topologies: list[tuple[str, str]], constraints: list[SpreadConstraint], wanted: int | None
) -> None:
    clusters = [
        cluster(f"c{at}", labels={"tier": tier, **({"region": region} if region else {})})
        for at, (region, tier) in enumerate(topologies)
    ]
    verdict = look(*clusters, spec=spread(*constraints, wanted=wanted))
    hosts = list(Trace(verdict.outcome))
    chosen = [host for host in hosts if host.selected]
    for host in hosts:
        if host.selected or host.rank is None:
            continue
        lower = [other for other in chosen if (other.rank or 0) > host.rank]
        if wanted == 0:
            assert host.reason == NONE_WANTED
        elif "ranked higher" in host.reason:
            assert not lower
            assert len(chosen) == wanted
        elif "lower-ranked" in host.reason:
            assert lower
        else:
            assert "at most" in host.reason
            assert wanted is None or len(chosen) < wanted


def test_soft_spread_constraint_is_not_named_for_unselected_cluster() -> None:
    verdict = look(*fleet("a1:eu a2:eu b1:us"), spec=spread(over("region", SOFT), wanted=1))
    assert verdict.outcome.selected == ["a1"]
    assert trace(verdict, "a2").reason == "passed every filter, but 1 host ranked higher, and 1 is wanted"


regions = st.lists(st.sampled_from(["eu", "us", "ap", ""]), max_size=9)


@given(regions=regions, wanted=st.one_of(st.none(), st.integers(0, 9)), skew=st.integers(1, 3))
@settings(max_examples=50)
def test_hard_spread_constraint_holds_and_selects_as_many_as_possible(
    regions: list[str], wanted: int | None, skew: int
) -> None:
    region_of = {f"c{at}": region for at, region in enumerate(regions)}
    clusters = fleet(" ".join(f"{name}:{region}" for name, region in region_of.items()))
    chosen = selected(*clusters, spec=spread(over("region", skew=skew), wanted=wanted))

    topologies = {region for region in regions if region}
    counts = Counter(dict.fromkeys(topologies, 0))
    counts.update(region_of[name] for name in chosen)
    assert "" not in counts
    assert max(counts.values(), default=0) - min(counts.values(), default=0) <= skew

    if wanted is None or len(chosen) < wanted:
        emptiest = min(counts.values(), default=0)
        for name, region in region_of.items():
            if region and name not in chosen:
                assert counts[region] + 1 - emptiest > skew
    else:
        assert len(chosen) == wanted


@given(regions=regions, wanted=st.one_of(st.none(), st.integers(0, 9)))
@settings(max_examples=30)
def test_soft_spread_constraint_never_reduces_the_selection(regions: list[str], wanted: int | None) -> None:
    clusters = fleet(" ".join(f"c{at}:{region}" for at, region in enumerate(regions)))
    chosen = selected(*clusters, spec=spread(over("region", SOFT), wanted=wanted))
    assert len(chosen) == len(selected(*clusters, spec=spread(wanted=wanted)))


def one_by_one(
    topologies: list[tuple[int, ...]], constraints: tuple[Constraint, ...], wanted: int
) -> list[int]:
    """Select by examining every cluster for every selection, as the module docstring defines it."""
    counts: list[Counter[int]] = [
        Counter({topology[at]: 0 for topology in topologies if topology[at]})
        for at in range(len(constraints))
    ]
    left = dict(enumerate(topologies))
    taken: list[int] = []
    while len(taken) < wanted:
        options = []
        for place, topology in left.items():
            broken = tuple(
                not code or count[code] + 1 - min(count.values()) > constraint.most
                for constraint, count, code in zip(constraints, counts, topology, strict=True)
            )
            if not any(constraint.hard and bad for constraint, bad in zip(constraints, broken, strict=True)):
                options.append((broken, place))
        if not options:
            break
        _, place = min(options)
        taken.append(place)
        for count, code in zip(counts, left.pop(place), strict=True):
            if code:
                count[code] += 1
    return sorted(taken)


@given(
    topologies=st.integers(1, 3).flatmap(
        lambda size: st.lists(st.tuples(*[st.integers(0, 4)] * size), min_size=1, max_size=40)
    ),
    data=st.data(),
)
def test_spread_selection_equals_exhaustive_selection(
    topologies: list[tuple[int, ...]], data: st.DataObject
) -> None:
    constraints = tuple(
        over(f"k{at}", data.draw(st.sampled_from([HARD, SOFT])), skew=data.draw(st.integers(1, 3)))
        for at in range(len(topologies[0]))
    )
    wanted = data.draw(st.one_of(st.none(), st.integers(0, 45)))
    fleet = [
        cluster(f"c{place:02d}", labels={f"k{at}": str(code) for at, code in enumerate(topology) if code})
        for place, topology in enumerate(topologies)
    ]
    spec = spread(*constraints, wanted=wanted)
    derived = spread_constraints(PlacementWorkload(placement(spec=spec)))
    hard = [at for at, constraint in enumerate(derived) if constraint.hard]
    feasible = [place for place, topology in enumerate(topologies) if all(topology[at] for at in hard)]
    expected = one_by_one(
        [topologies[place] for place in feasible], derived, len(fleet) if wanted is None else wanted
    )
    assert selected(*fleet, spec=spec) == [f"c{feasible[at]:02d}" for at in expected]


@pytest.mark.parametrize("when", [HARD, SOFT])
@pytest.mark.parametrize("wanted", [3_000, None])
def test_spread_examines_topology_again_only_after_a_change(
    when: str, wanted: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a topology per cluster, examining all for every selection would be 16 million steps."""
    looks = 0
    broken = Tally.broken

    def counting(self: Tally, topology: tuple[int, ...]) -> tuple[bool, ...]:
        nonlocal looks
        looks += 1
        return broken(self, topology)

    monkeypatch.setattr(Tally, "broken", counting)
    fleet = [cluster(f"c{at:04d}", labels={"id": str(at)}) for at in range(4_000)]
    assert len(selected(*fleet, spec=spread(over("id", when), wanted=wanted))) == (wanted or 4_000)
    assert looks < 40_000
