"""Annotation ``fairway.dev/score-debits``: decisions count before the next publication of a score measures them."""

import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from fairway.api.hosted_request import HostedClusterRequest
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE
from fairway.api.placement import Placement, PlacementSpec
from fairway.engine.errors import PluginArgsError
from fairway.engine.trace import Trace
from fairway.hosts.clusters.debits import FOREIGN_BOUND, NAMESPACE_BOUND, DebitRules
from fairway.testing.builders import (
    addon,
    binding,
    cluster,
    cluster_set,
    placement,
    policy,
    predicate,
    score,
    selector,
)
from fairway.whatif.number_edits import score_edit
from fairway.whatif.world import World
from fairway.workloads.hosting.fleet.telemetry import FULL_CLAIM
from fairway.workloads.placement import PlacementWorkload, placement_registry
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from fairway.workloads.placement.plugins.trust import MISSING_SCORE, trust_of
from strategies import NOW_MICROS

ROOT = Path(__file__).parents[4]
CPU = ("default", "cpu")


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("usage/cpu=-5", {("usage", "cpu"): -5}),
        (" hosted/count = +1 , usage/cpu=0", {("hosted", "count"): 1, ("usage", "cpu"): 0}),
    ],
)
def test_score_debits_annotation_lists_signed_changes(text: str, changes: dict[tuple[str, str], int]) -> None:
    trust = trust_of({SCORE_DEBITS: text})
    assert trust.debits == changes
    assert not trust.faults


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, {("default", "cpu"): -5}),
        ({SCORE_DEBITS: "default/cpu=-7"}, {("default", "cpu"): -7}),
        ({SCORE_DEBITS: "other/cpu=-1"}, {("default", "cpu"): -5, ("other", "cpu"): -1}),
        ({SCORE_DEBITS: "none"}, {}),
    ],
)
def test_annotation_beats_the_debits_of_the_profile(
    annotations: dict[str, str], expected: dict[tuple[str, str], int]
) -> None:
    defaults = DebitRules(defaults={("default", "cpu"): -5, ("default", "memory"): -3})
    ranks = PlacementSpec(prioritizerPolicy=policy(addon("cpu")))
    workload = PlacementWorkload(placement(spec=ranks, annotations=annotations), debits=defaults)
    assert (workload.trust.debits, workload.trust.faults) == (expected, ())
    assert workload.with_spec(workload.spec).trust.debits == expected
    if not annotations:
        assert not PlacementWorkload(placement(), debits=defaults).trust.debits


@pytest.mark.parametrize(
    "given",
    [{"cpu": -5}, {"default/cpu": "-5"}, {"default/cpu": -101}, {"default/cpu": True}, ["default/cpu"]],
)
def test_invalid_debits_of_a_profile_are_refused(given: Any) -> None:
    with pytest.raises(PluginArgsError, match="debits must map scores to changes between -100 and"):
        placement_registry().build("PrioritizerPolicy", {"debits": given})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "usage/cpu=5",
            "'usage/cpu=5' is not a score and a signed change: write resource/score=-5 if a decision",
        ),
        ("usage=-5", "'usage=-5' is not a score and a signed change"),
        ("", "'' is not a score and a signed change"),
        ("usage/cpu=-101", "'usage/cpu=-101' is out of range: a change must be between -100 and +100"),
        ("usage/cpu=-5,usage/cpu=-6", "'usage/cpu=-6' repeats a score"),
    ],
)
def test_invalid_score_debit_is_reported_and_has_no_effect(text: str, words: str) -> None:
    trust = trust_of({SCORE_DEBITS: f"other/valid=-1,{text}"})
    assert len(trust.faults) == 1
    assert str(trust.faults[0]).startswith(f"annotation {SCORE_DEBITS}: {words}")
    assert ("other", "valid") in trust.debits
    assert trust.debits.get(("usage", "cpu"), -5) == -5


def identical(
    name: str, debits: str | None = "default/cpu=-5", weight: int = 1, *, missing: str = "zero"
) -> Placement:
    """A placement that ranks by one score only."""
    spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=policy(addon("cpu", weight), mode="Exact"))
    own = {} if debits is None else {SCORE_DEBITS: debits}
    return placement(name, spec=spec, annotations={**own, MISSING_SCORE: missing})


def world_objects() -> list[object]:
    """Two clusters with scores 80 and 70."""
    scores = {"a": 80, "b": 70}
    return [
        cluster_set("default"),
        binding("default"),
        *(cluster(name, labels={"name": name}) for name in scores),
        *(score(name, {"cpu": value}) for name, value in scores.items()),
    ]


def world_of(scores: dict[str, int], *placements: Placement) -> World:
    clusters = [cluster(name) for name in ("a", "b", "c")]
    published = [score(name, {"cpu": value}) for name, value in scores.items()]
    return World([cluster_set("default"), binding("default"), *clusters, *published, *placements])


def place(world: World, name: str, *, namespace: str = "ns1") -> str:
    (selected,) = world.place((namespace, name), now=NOW_MICROS).outcome.selected
    return selected


def totals(world: World, name: str, *, namespace: str = "ns1") -> dict[str, int]:
    return world.decide((namespace, name), now=NOW_MICROS).outcome.totals_by_name()


def test_decision_lowers_the_score_for_later_placements() -> None:
    world = world_of({"a": 80, "b": 77, "c": 10}, *(identical(f"p{at}") for at in range(5)))
    assert [place(world, f"p{at}") for at in range(4)] == ["a", "b", "a", "b"]
    assert totals(world, "p4") == {"a": 70, "b": 67, "c": 10}


def test_debit_of_a_count_with_negative_weight_raises_it() -> None:
    world = world_of(
        {"a": 3, "b": 4, "c": 4}, *(identical(f"p{at}", "default/cpu=+1", -1) for at in range(6))
    )
    assert [place(world, f"p{at}") for at in range(5)] == ["a", "a", "b", "c", "a"]
    assert totals(world, "p5") == {"a": -6, "b": -5, "c": -5}


def test_debits_below_the_scale_still_order_clusters() -> None:
    world = world_of({"a": -90, "b": -95}, *(identical(f"p{at}", "default/cpu=-50") for at in range(4)))
    assert [place(world, f"p{at}") for at in range(4)] == ["c", "c", "c", "c"], "a missing score has no debit"
    world = world_of({"a": 0, "b": 0, "c": 0}, *(identical(f"p{at}", "default/cpu=-100") for at in range(6)))
    assert Counter(place(world, f"p{at}") for at in range(6)) == {"a": 2, "b": 2, "c": 2}


def test_placement_without_the_annotation_sees_and_makes_no_debits() -> None:
    world = world_of({"a": 80, "b": 78}, identical("p0"), identical("p1", None), identical("p2"))
    assert place(world, "p0") == "a"
    assert place(world, "p1") == "a", "as OCM decides"
    assert totals(world, "p2")["a"] == 75


def test_zero_debit_sees_those_of_others_only() -> None:
    watching = identical("p1", "default/cpu=0")
    world = world_of({"a": 80, "b": 78}, identical("p0"), watching, identical("p2"))
    assert [place(world, name) for name in ("p0", "p1")] == ["a", "b"]
    assert totals(world, "p2") == {"a": 75, "b": 78, "c": 0}


def test_debits_do_not_move_a_placement_from_its_cluster() -> None:
    world = world_of({"a": 80, "b": 10}, *(identical(f"p{at}", "default/cpu=-60") for at in range(3)))
    for at in range(2):
        place(world, f"p{at}")
    assert totals(world, "p0") == {"a": 80, "b": 10, "c": 0}
    assert totals(world, "p2") == {"a": -40, "b": 10, "c": 0}


def test_publication_ends_the_debits_of_its_cluster() -> None:
    world = world_of({"a": 80, "b": 79}, *(identical(f"p{at}") for at in range(3)))
    for at in range(2):
        place(world, f"p{at}")
    world.put(score("a", {"cpu": 60}))
    assert totals(world, "p2") == {"a": 60, "b": 74, "c": 0}


@pytest.mark.parametrize("missing", ["zero", "worst"])
def test_explanation_names_published_score_and_debits(missing: str) -> None:
    spread = [identical(f"p{at}", missing=missing) for at in range(4)]
    world = world_of({"a": 80, "b": -10, "c": -20}, *spread)
    for at in range(3):
        place(world, f"p{at}")
    trace = Trace(world.decide(("ns1", "p3"), now=NOW_MICROS).outcome)
    (part,) = trace.host("a").contributions
    assert (part.score, part.note) == (
        65,
        "published 80; 3 decisions since then, expected to change it by -15",
    )
    assert trace.host("b").contributions[0].note == ""


def burst(debits: str | None, *, placements: int = 500, clusters: int = 20) -> Counter[str]:
    """Decide a burst of identical placements between two publications of the scores."""
    names = [f"c{at:02d}" for at in range(clusters)]
    world = World(
        [
            cluster_set("default"),
            binding("default"),
            *(cluster(name) for name in names),
            *(score(name, {"cpu": 70}) for name in names),
            *(identical(f"p{at:03d}", debits) for at in range(placements)),
        ]
    )
    return Counter(place(world, f"p{at:03d}") for at in range(placements))


def test_burst_of_500_placements_herds_without_debits_and_is_shared_with_them() -> None:
    share = 500 // 20
    assert burst(None) == {"c00": 500}
    assert max(burst("default/cpu=-2").values()) <= share + 1


def recipe() -> dict[str, Any]:
    """The Placement by count of docs/how-to/hosted-clusters.md."""
    page = (ROOT / "docs/how-to/hosted-clusters.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(apiVersion.*?)```", page, re.DOTALL)
    (placements,) = [
        document
        for document in map(yaml.safe_load, blocks)
        if SCORE_DEBITS in document["metadata"]["annotations"]
    ]
    return cast("dict[str, Any]", placements)


def hosted(loads: dict[str, int], document: dict[str, Any], *, placements: int) -> dict[str, int]:
    """Return the hosted clusters of each host after a burst of Placements like the document."""
    burst = [
        msgspec.convert({**document, "metadata": {**document["metadata"], "name": f"p{at:03d}"}}, Placement)
        for at in range(placements)
    ]
    namespace = burst[0].metadata.namespace
    world = World(
        [
            cluster_set("default"),
            binding("default", namespace=namespace),
            *(cluster(name, claims={FULL_CLAIM: "false"}) for name in loads),
            *(score(name, {COUNT_SCORE: value}, name=SCORE_RESOURCE) for name, value in loads.items()),
            *burst,
        ]
    )
    count_by_cluster = Counter(loads)
    for source in burst:
        count_by_cluster.update(
            world.place((namespace, source.metadata.name), now=NOW_MICROS).outcome.selected
        )
    return dict(count_by_cluster)


def test_documented_recipe_by_count_evens_out_hosts_and_herds_without_debits() -> None:
    loads = {f"host-{count}": count for count in range(5)}
    document = recipe()
    assert hosted(loads, document, placements=100) == dict.fromkeys(loads, 22)
    del document["metadata"]["annotations"][SCORE_DEBITS]
    assert hosted(loads, document, placements=100) == {**loads, "host-0": 100}


def reserved(name: str, on: str) -> HostedClusterRequest:
    """A HostedClusterRequest with a place that the published load does not include."""
    body = {
        "metadata": {"name": name, "namespace": "team-a"},
        "status": {"phase": "Reserved", "hostingCluster": {"name": on, "uid": ""}},
    }
    return msgspec.convert(body, HostedClusterRequest)


def test_requests_and_placements_see_each_others_hosted_clusters() -> None:
    document = recipe()
    burst = [
        msgspec.convert({**document, "metadata": {**document["metadata"], "name": f"p{at}"}}, Placement)
        for at in range(4)
    ]
    namespace = burst[0].metadata.namespace
    hosts = ("a", "b", "c")
    world = World(
        [
            cluster_set("default"),
            binding("default", namespace=namespace),
            *(cluster(name, claims={FULL_CLAIM: "false"}) for name in hosts),
            *(score(name, {COUNT_SCORE: 3}, name=SCORE_RESOURCE) for name in hosts),
            *(reserved(f"r{at}", "a") for at in range(2)),
            reserved("s", "b"),
            *burst,
        ]
    )
    chosen = [world.place((namespace, f"p{at}"), now=NOW_MICROS).outcome.selected for at in range(4)]
    assert chosen == [["c"], ["b"], ["c"], ["a"]]
    seen = Trace(world.decide((namespace, "p0"), now=NOW_MICROS).outcome)
    assert seen.host("a").contributions[0].note == (
        "published 3; 1 decision and HostedClusterRequests team-a/r0, team-a/r1 since then, expected to change it by +3"
    )
    assert seen.host("b").contributions[0].note == (
        "published 3; 1 decision and HostedClusterRequest team-a/s since then, expected to change it by +2"
    )


def test_request_changes_another_hosting_score_like_a_decision_of_the_placement() -> None:
    spec = PlacementSpec(
        numberOfClusters=1,
        prioritizerPolicy=policy(addon("hcpHeadroom", resource=SCORE_RESOURCE), mode="Exact"),
    )
    debits = {SCORE_DEBITS: f"{SCORE_RESOURCE}/hcpHeadroom=-4"}
    world = World(
        [
            cluster_set("default"),
            binding("default"),
            cluster("a"),
            score("a", {"hcpHeadroom": 50}, name=SCORE_RESOURCE),
            *(reserved(f"r{at}", "a") for at in range(5)),
            placement("p", spec=spec, annotations=debits),
            placement("as-ocm", spec=spec),
        ]
    )
    assert totals(world, "p") == {"a": 30}
    assert totals(world, "as-ocm") == {"a": 50}
    outcome = world.decide(("ns1", "p"), now=NOW_MICROS).outcome
    (scorer,) = outcome.plugins.scores
    assert scorer.plugin.score(outcome.context, 0) == 30, "the form for one host is that for the fleet"
    note = Trace(outcome).host("a").contributions[0].note
    assert "HostedClusterRequests team-a/r0, team-a/r1, team-a/r2 and 2 more since then" in note


def test_score_edit_of_a_counterfactual_keeps_debits() -> None:
    world = world_of({"a": 80, "b": -10}, identical("p0"), identical("p1"))
    place(world, "p0")
    before = totals(world, "p1")
    edit, _ = score_edit(world, "a", "default", "cpu", up=True, now=NOW_MICROS, weighed=())
    undo = edit.apply(world)
    assert totals(world, "p1")["a"] == 95
    undo()
    assert totals(world, "p1") == before


def foreign(name: str, debits: str, *, namespace: str, weight: int | None = None) -> Placement:
    """A placement of another namespace that selects cluster b, whatever the scores are."""
    ranking = None if weight is None else policy(addon("cpu", weight), mode="Exact")
    spec = PlacementSpec(
        predicates=(predicate(labels=selector(labels={"name": "b"})),), prioritizerPolicy=ranking
    )
    return placement(name, namespace=namespace, spec=spec, annotations={SCORE_DEBITS: debits})


def beside(*others: Placement, weight: int = 1) -> tuple[World, dict[str, int]]:
    """Return a world in which others are placed, and the totals of an honest placement."""
    namespaces = {other.metadata.namespace for other in others}
    sign = "-" if weight > 0 else "+"
    world = World(
        [
            *world_objects(),
            *(binding("default", namespace=namespace) for namespace in namespaces),
            *others,
            identical("honest", f"default/cpu={sign}5", weight),
        ]
    )
    for other in others:
        assert place(world, other.metadata.name, namespace=other.metadata.namespace) == "b"
    return world, totals(world, "honest")


def test_rising_debit_without_a_negative_weight_has_no_effect_and_is_reported() -> None:
    world, seen_by_honest = beside(foreign("p", "default/cpu=+100", namespace="evil"))
    assert seen_by_honest == {"a": 80, "b": 70}
    (fault,) = world.workload(("evil", "p")).trust.faults
    assert str(fault) == (
        f"annotation {SCORE_DEBITS}: 'default/cpu=+100' would make clusters more attractive, and a debit only makes "
        "them less attractive: write default/cpu=-100, or rank by the score with a negative weight, so it has no effect"
    )


def test_debit_never_makes_a_cluster_more_attractive_for_placements_with_another_weight() -> None:
    _, seen_by_honest = beside(foreign("p", "default/cpu=+100", namespace="evil", weight=-1))
    assert seen_by_honest == {"a": 80, "b": 70}
    _, seen_by_honest = beside(foreign("p", "default/cpu=-100", namespace="evil", weight=1), weight=-1)
    assert seen_by_honest == {"a": -80, "b": -70}


def test_debits_of_another_namespace_are_bounded() -> None:
    world, seen_by_honest = beside(
        *(foreign(f"p{at}", "default/cpu=-100", namespace="evil") for at in range(55))
    )
    assert seen_by_honest == {"a": 80, "b": 70 - NAMESPACE_BOUND}
    note = Trace(world.decide(("ns1", "honest"), now=NOW_MICROS).outcome).host("b").contributions[0].note
    assert note == (
        "published 70; 55 decisions since then, expected to change it by -50, as others count up to a bound"
    )


def test_debits_of_all_other_namespaces_are_bounded_together() -> None:
    _, seen_by_honest = beside(*(foreign("p", "default/cpu=-100", namespace=f"evil{at}") for at in range(9)))
    assert seen_by_honest == {"a": 80, "b": 70 - FOREIGN_BOUND}


def test_debits_of_the_own_namespace_count_in_full_beside_those_of_others() -> None:
    own = [foreign(f"p{at}", "default/cpu=-100", namespace="ns1") for at in range(3)]
    others = [foreign("p", "default/cpu=-100", namespace=f"evil{at}") for at in range(9)]
    world, seen_by_honest = beside(*own, *others)
    assert seen_by_honest == {"a": 80, "b": 70 - 300 - FOREIGN_BOUND}
    outcome = world.decide(("ns1", "honest"), now=NOW_MICROS).outcome
    (scorer,) = outcome.plugins.scores
    row = outcome.context.snapshot.hosts.row_of["b"]
    assert scorer.plugin.score(outcome.context, row) == seen_by_honest["b"], (
        "the form for one host is that for the fleet"
    )


def test_profile_ignores_debits_of_namespaces() -> None:
    registry = placement_registry()
    rules = registry.build("PrioritizerPolicy", {"debitsIgnored": ["evil", "dev-*"]}).debits  # type: ignore[attr-defined]
    for namespace, ignored in (("evil", True), ("dev-1", True), ("evil-2", False)):
        workload = PlacementWorkload(foreign("p", "default/cpu=-5", namespace=namespace), debits=rules)
        assert (workload.trust.debits == {}) is ignored
        words = (
            [f"the scheduler configuration ignores score debits of namespace {namespace}"] if ignored else []
        )
        assert [fault.words for fault in workload.trust.faults] == words
    for wrong in ("evil", ["Evil"], [1], ["*"]):
        with pytest.raises(PluginArgsError, match="debitsIgnored must list namespaces"):
            registry.build("PrioritizerPolicy", {"debitsIgnored": wrong})
