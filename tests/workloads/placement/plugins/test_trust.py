"""Annotations for what a missing score counts, and whether expressions read expired scores."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import pytest
from msgspec import structs

from fairway.api.placement import PlacementSpec, PrioritizerConfig
from fairway.api.score import AddOnPlacementScore
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.status import Code
from fairway.engine.trace import Trace
from fairway.hosts.clusters.scores import SILENT
from fairway.hosts.instant import SECOND, to_micros
from fairway.testing.builders import (
    addon,
    binding,
    builtin,
    cluster,
    cluster_score,
    cluster_set,
    placement,
    policy,
    predicate,
    score,
)
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.plugins import missing_score
from fairway.workloads.placement.plugins.trust import (
    EXPIRED_SCORES,
    MISSING_SCORE,
    PLAIN,
    Missing,
    trust_of,
)
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.meta import Condition
from strategies import NOW, NOW_MICROS

KEY = ("ns1", "p1")
LATE = NOW - timedelta(seconds=1)
SOON = NOW + timedelta(seconds=5)
THREE = (cluster("c1"), cluster("c2"), cluster("c3"))
HAS_FREE = 'managedCluster.scores("default").exists(s, s.name == "free" && s.value > 0)'


def hub(*objects: object, spec: PlacementSpec, annotations: Mapping[str, str]) -> World:
    made = placement(spec=spec, annotations=annotations)
    return World([cluster_set("default"), binding("default"), *objects, made])


def by(*prioritizers: PrioritizerConfig, number: int | None = None) -> PlacementSpec:
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy(*prioritizers, mode="Exact"))


def seen(
    *scores: object, says: str, spec: PlacementSpec | None = None, clusters: tuple[object, ...] = THREE
) -> Verdict:
    world = hub(*clusters, *scores, spec=spec or by(addon("free")), annotations={MISSING_SCORE: says})
    return world.decide(KEY, now=NOW_MICROS)


def late(name: str, value: int = 30, *, until: datetime = LATE) -> AddOnPlacementScore:
    return score(name, {"free": value}, valid_until=until)


def silent(made: AddOnPlacementScore) -> AddOnPlacementScore:
    condition = Condition(type=SILENT, status="True", reason="Expired", message="")
    return structs.replace(made, status=structs.replace(made.status, conditions=(condition,)))


# Parsing of annotations


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zero", Missing.ZERO),
        ("worst", Missing.WORST),
        (" exclude ", Missing.EXCLUDE),
        ("default/free=worst", Missing.WORST),
        ("exclude, default/free = worst", Missing.WORST),
        ("exclude,default/other=worst", Missing.EXCLUDE),
        ("Default/free=worst", Missing.ZERO),
    ],
)
def test_missing_score_policy_of_addon_score(text: str, expected: Missing) -> None:
    trust = trust_of({MISSING_SCORE: text})
    assert trust.addon("default", "free") is expected
    assert trust.faults == ()


def test_missing_score_policy_of_calculator_is_case_insensitive() -> None:
    trust = trust_of({MISSING_SCORE: "worst,resourceRatioCPU=exclude"})
    assert trust.calculator("ResourceRatioCPU") is Missing.EXCLUDE
    assert trust.calculator("Latency") is Missing.WORST


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({MISSING_SCORE: "best"}, ("'best' must be zero, worst or exclude",)),
        ({MISSING_SCORE: ""}, ("'' must be zero, worst or exclude",)),
        ({MISSING_SCORE: "Worst"}, ("'Worst' must be zero, worst or exclude",)),
        (
            {MISSING_SCORE: "default/=worst"},
            ("'default/=worst' names no score: write resource/score=worst, or Calculator=worst",),
        ),
        (
            {MISSING_SCORE: "=worst"},
            ("'=worst' names no score: write resource/score=worst, or Calculator=worst",),
        ),
        ({MISSING_SCORE: "zero,worst"}, ("'worst' is a duplicate setting",)),
        ({EXPIRED_SCORES: "gone"}, ("'gone' is neither absent nor present",)),
    ],
)
def test_invalid_score_annotation_has_no_effect(annotations: dict[str, str], words: tuple[str, ...]) -> None:
    trust = trust_of(annotations)
    assert tuple(fault.words for fault in trust.faults) == words
    assert trust.default is Missing.ZERO
    assert not trust.hides_expired


def test_invalid_part_of_score_annotation_keeps_the_others() -> None:
    trust = trust_of({MISSING_SCORE: "worst,default/free=bad"})
    assert trust.addon("default", "free") is Missing.WORST
    assert len(trust.faults) == 1


def test_placement_without_score_annotations_has_no_notes() -> None:
    assert trust_of({"example.com/other": "worst"}) is PLAIN


# Worst


@pytest.mark.parametrize(("weight", "worst"), [(1, -100), (3, -100), (-1, 100), (-3, 100)])
def test_worst_score_depends_on_sign_of_weight(weight: int, worst: int) -> None:
    verdict = seen(score("c1", {"free": 30}), late("c2"), says="worst", spec=by(addon("free", weight)))
    assert verdict.outcome.totals_by_name() == {"c1": 30 * weight, "c2": worst * weight, "c3": worst * weight}
    assert verdict.outcome.selected[0] == "c1"


def test_silent_or_incomplete_score_object_counts_as_missing() -> None:
    verdict = seen(
        score("c1", {"other": 99}), silent(score("c2", {"free": -3})), score("c3", {"free": -3}), says="worst"
    )
    assert verdict.outcome.totals_by_name() == {"c1": -100, "c2": -100, "c3": -3}


def test_silent_score_counts_as_written_without_annotation() -> None:
    verdict = seen(silent(score("c1", {"free": -3})), says="zero")
    assert verdict.outcome.totals_by_name() == {"c1": -3, "c2": 0, "c3": 0}


@pytest.mark.parametrize(("weight", "worst"), [(2, -100), (-2, 100)])
def test_missing_calculator_score_counts_as_worst(weight: int, worst: int) -> None:
    verdict = seen(
        cluster_score("c1", "Latency", 1000),
        cluster_score("c2", "Latency", 3000),
        says="worst",
        spec=by(builtin("Latency", weight)),
    )
    assert verdict.outcome.totals_by_name() == {"c1": 0, "c2": 100 * weight, "c3": worst * weight}


def test_unpublished_calculator_counts_as_worst() -> None:
    verdict = seen(says="worst", spec=by(builtin("ResourceRatioCPU")))
    assert verdict.outcome.totals_by_name() == {"c1": -100, "c2": -100, "c3": -100}


def test_annotation_applies_worst_to_one_of_several_scores() -> None:
    verdict = seen(
        score("c1", {"free": 1, "mem": 1}), says="default/mem=worst", spec=by(addon("free"), addon("mem"))
    )
    assert verdict.outcome.totals_by_name() == {"c1": 2, "c2": -100, "c3": -100}


def test_warning_names_what_expired_scores_count() -> None:
    verdict = seen(late("c1"), silent(score("c2", {"free": 1})), says="worst")
    assert verdict.status.code is Code.WARNING
    assert verdict.error == (
        "AddOnPlacementScores c1/default c2/default expired and count as the worst, "
        "by annotation fairway.dev/missing-score"
    )


# Exclude


def test_exclude_policy_rejects_clusters_without_score() -> None:
    verdict = seen(score("c1", {"free": -100}), late("c2"), says="exclude", clusters=(*THREE, cluster("c4")))
    assert verdict.outcome.selected == ["c1"]
    trace = Trace(verdict.outcome)
    assert [(trace.host(name).rejected_by, trace.host(name).reason) for name in ("c2", "c3")] == [
        (
            "MissingScore",
            "AddOnPlacementScore default expired at 2026-03-01T11:59:59Z, "
            "and by annotation fairway.dev/missing-score such clusters are excluded",
        ),
        (
            "MissingScore",
            "there is no AddOnPlacementScore default, "
            "and by annotation fairway.dev/missing-score such clusters are excluded",
        ),
    ]
    assert verdict.error == (
        "AddOnPlacementScores c2/default expired, so annotation fairway.dev/missing-score excludes the clusters"
    )
    assert verdict.status.plugin == missing_score.NAME


def test_never_published_score_causes_no_warning() -> None:
    verdict = seen(score("c1", {"free": 5}), score("c2", {"mem": 5}, valid_until=LATE), says="exclude")
    assert verdict.outcome.selected == ["c1"]
    assert verdict.status.code is Code.SUCCESS


def test_exclude_policy_rejects_clusters_with_silent_score() -> None:
    verdict = seen(silent(score("c1", {"free": 99})), score("c2", {"free": 1}), says="exclude")
    assert verdict.outcome.selected == ["c2"]
    assert "was marked silent" in Trace(verdict.outcome).host("c1").reason


def test_exclude_policy_applies_to_calculator() -> None:
    verdict = seen(cluster_score("c2", "Latency", 7), says="exclude", spec=by(builtin("Latency")))
    assert verdict.outcome.selected == ["c2"]
    assert Trace(verdict.outcome).host("c1").reason.startswith("there is no ManagedClusterScore Latency")


def test_exclude_policy_ignores_scores_without_weight() -> None:
    verdict = seen(says="exclude", spec=by(addon("free", 0), builtin("ResourceAllocatableCPU")))
    assert len(verdict.outcome.selected) == 3
    assert [calls.plugin.name for calls in verdict.outcome.plugins.filters] == [
        "Predicate",
        "TaintToleration",
    ]


# Expiry


@pytest.mark.parametrize("says", ["worst", "exclude"])
def test_exclude_policy_wakes_at_score_expiry(says: str) -> None:
    verdict = seen(late("c1", until=SOON), score("c2", {"free": 1}), late("c3"), says=says)
    assert verdict.outcome.until == NOW_MICROS + 5 * SECOND + 1


@pytest.mark.parametrize("says", ["worst", "exclude"])
def test_excluding_placement_is_followed_until_expiry(says: str) -> None:
    spec = by(addon("free"), number=1)
    world = hub(
        *THREE, late("c1", 90), late("c2", 10, until=SOON), spec=spec, annotations={MISSING_SCORE: says}
    )
    workload, memory = world.workload(KEY), Memory()

    def run(now: int) -> list[str]:
        outcome = memory.run(world.fleet.snapshot(), workload, default_profile(), now=now)
        fresh = cycle.run(world.fleet.snapshot(), workload, default_profile(), now=now)
        assert (outcome.selected, outcome.status, outcome.until) == (
            fresh.selected,
            fresh.status,
            fresh.until,
        )
        return outcome.selected

    assert run(NOW_MICROS) == ["c2"]
    world.put(late("c1", 80, until=SOON + timedelta(seconds=5)))
    assert run(NOW_MICROS) == ["c1"]
    assert memory.followed == 1
    world.fleet.delete_score("c1", "default")
    assert run(NOW_MICROS) == ["c2"]
    assert memory.followed == 2
    assert run(to_micros(SOON)) == ["c2"]
    assert memory.followed == 3
    assert run(to_micros(SOON) + 1) == ([] if says == "exclude" else ["c1"])
    assert memory.followed == 3


# Messages


def test_trace_explains_replaced_addon_score() -> None:
    def notes(says: str, *scores: object) -> list[str]:
        trace = Trace(seen(*scores, says=says).outcome)
        return [trace.host(name).contributions[0].note for name in ("c1", "c2", "c3")]

    published = (score("c1", {"free": 1}), late("c2"), score("c3", {"mem": 1}))
    assert notes("worst", *published) == [
        "",
        "AddOnPlacementScore default expired at 2026-03-01T11:59:59Z, "
        "which counts as the worst by annotation fairway.dev/missing-score",
        "AddOnPlacementScore default has no score free, "
        "which counts as the worst by annotation fairway.dev/missing-score",
    ]
    assert notes("zero", *published, silent(score("c1", {"free": -100}))) == [
        "AddOnPlacementScore default was marked silent, so its values are not those of its provider",
        "AddOnPlacementScore default expired at 2026-03-01T11:59:59Z, which counts 0",
        "AddOnPlacementScore default has no score free, which counts 0",
    ]


def test_trace_explains_replaced_calculator_score() -> None:
    for says, counted in (("zero", "0"), ("worst", "as the worst by annotation fairway.dev/missing-score")):
        trace = Trace(seen(says=says, spec=by(builtin("ResourceRatioCPU"))).outcome)
        (part,) = trace.host("c1").contributions
        assert part.note == f"there is no ManagedClusterScore ResourceRatioCPU, which counts {counted}"
        assert not part.known


# Expressions


def chosen(*scores: object, says: str = "absent", cel: str = HAS_FREE, now: datetime = NOW) -> Verdict:
    spec = PlacementSpec(predicates=(predicate(cel=[cel]),))
    world = hub(*THREE, *scores, spec=spec, annotations={EXPIRED_SCORES: says})
    workload, micros = world.workload(KEY), to_micros(now)
    slow = cycle.run(world.fleet.snapshot(), workload, default_profile(), now=micros, whole_fleet=False)
    verdict = world.decide(KEY, now=micros)
    assert slow.selected == verdict.outcome.selected
    return verdict


def test_expired_scores_are_hidden_from_expressions() -> None:
    verdict = chosen(late("c1"), late("c2", until=SOON), silent(score("c3", {"free": 5})))
    assert verdict.outcome.selected == ["c2"]
    assert Trace(verdict.outcome).host("c1").reason == (
        f"CEL expression {HAS_FREE!r} fails: failed to get score: AddOnPlacementScore default expired at "
        "2026-03-01T11:59:59Z, and counts as absent by annotation fairway.dev/expired-scores"
    )
    assert "was marked silent" in Trace(verdict.outcome).host("c3").reason


@pytest.mark.parametrize("says", ["present", "nonsense"])
def test_expired_scores_are_visible_to_expressions_by_default(says: str) -> None:
    assert chosen(late("c1"), says=says).outcome.selected == ["c1"]
    assert chosen(late("c1"), says=says).outcome.until == NEVER_CHANGES


def test_score_is_visible_to_expressions_up_to_valid_until() -> None:
    assert chosen(late("c1", until=NOW)).outcome.selected == ["c1"]
    assert chosen(late("c1", until=NOW), now=NOW + timedelta(microseconds=1)).outcome.selected == []


def test_expression_with_hidden_score_is_still_evaluated() -> None:
    either = f'managedCluster.metadata.name == "c1" || {HAS_FREE}'
    assert chosen(late("c1"), late("c2"), cel=either).outcome.selected == ["c1"]


def test_hidden_score_with_computed_name() -> None:
    cel = 'managedCluster.scores(managedCluster.metadata.name == "c1" ? "default" : "other").size() > 0'
    verdict = chosen(late("c1"), score("c2", {"free": 1}, name="other", valid_until=SOON), cel=cel)
    assert verdict.outcome.selected == ["c2"]
    assert verdict.outcome.until == to_micros(SOON) + 1


def test_expression_wakes_at_expiry_of_visible_score() -> None:
    later = SOON + timedelta(seconds=1)
    verdict = chosen(late("c1", until=later), late("c2", until=SOON), late("c3", -5, until=NOW))
    assert verdict.outcome.until == to_micros(SOON) + 1, "c3 is turned away for good"


def test_expression_results_are_cached_by_hidden_scores() -> None:
    """Time causes an evaluation only if a score expires."""
    spec = PlacementSpec(numberOfClusters=3, predicates=(predicate(cel=[HAS_FREE]),))
    world = hub(
        *THREE,
        late("c1", until=SOON),
        score("c2", {"free": 1}),
        spec=spec,
        annotations={EXPIRED_SCORES: "absent"},
    )
    workload = world.workload(KEY)
    memory = Memory()

    def run(now: datetime) -> list[str]:
        return memory.run(world.fleet.snapshot(), workload, default_profile(), now=to_micros(now)).selected

    assert run(NOW) == ["c1", "c2"]
    assert run(SOON) == ["c1", "c2"]
    assert run(SOON + timedelta(seconds=1)) == ["c2"]
    world.put(late("c1", until=SOON + timedelta(seconds=9)))
    assert run(SOON + timedelta(seconds=1)) == ["c1", "c2"]
    assert run(NOW) == ["c1", "c2"], "time may go back"


def test_expression_with_many_scores_hides_expired_ones() -> None:
    names = [f"score-{at}" for at in range(70)]
    cel = " || ".join(f'managedCluster.scores("{name}").size() > 0' for name in names)
    made = [score("c1", {"free": 1}, name=name, valid_until=LATE) for name in names]
    verdict = chosen(*made, score("c2", {"free": 1}, name="score-69"), cel=cel)
    assert verdict.outcome.selected == ["c2"]


def test_missing_and_expired_score_annotations_combine() -> None:
    spec = PlacementSpec(
        predicates=(predicate(cel=[HAS_FREE]),), prioritizerPolicy=policy(addon("mem"), mode="Exact")
    )
    says = {EXPIRED_SCORES: "absent", MISSING_SCORE: "worst"}
    world = hub(*THREE, score("c1", {"free": 1}), late("c2"), spec=spec, annotations=says)
    assert world.decide(KEY, now=NOW_MICROS).outcome.totals_by_name() == {"c1": -100}
    assert PlacementWorkload(world.placements[KEY]).trust.hides_expired
