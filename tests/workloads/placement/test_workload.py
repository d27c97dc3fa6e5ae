from datetime import datetime

import pytest
from msgspec import structs

from fairway.api.placement import (
    AddOnScore,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
    SpreadConstraint,
    SpreadPolicy,
)
from fairway.engine.forms import ScoreCalls
from fairway.engine.points import Context
from fairway.engine.status import Code, Status
from fairway.testing.builders import addon, binding, builtin, cluster, cluster_set, placement, policy, score
from fairway.whatif.world import World
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.plugins.prioritizer_policy import ADDON_NEEDED, COORDINATE_NEEDED
from kubewire.api.meta import UnreadableField
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, look, selected

CPU = "ResourceAllocatableCPU"
DEFAULTS = [("Balance", 1), ("Steady", 1)]


def weights(given: PrioritizerPolicy | None) -> list[tuple[str, int]]:
    scores, refusal = prioritize(given)
    assert refusal is None
    return [(scorer.plugin.name, scorer.weight) for scorer in scores]


def prioritize(given: PrioritizerPolicy | None) -> tuple[tuple[ScoreCalls, ...], Status | None]:
    workload = PlacementWorkload(placement(spec=PlacementSpec(prioritizerPolicy=given)))
    return default_profile().prioritize(Context(World().fleet.snapshot(), workload, NOW_MICROS))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, DEFAULTS, id="without a policy"),
        pytest.param(policy(), DEFAULTS, id="an empty policy"),
        pytest.param(policy(mode="Additive"), DEFAULTS, id="Additive with nothing to add"),
        pytest.param(policy(mode="Exact"), [], id="Exact with nothing listed"),
        pytest.param(policy(builtin(CPU, 3)), [*DEFAULTS, (CPU, 3)], id="no mode means Additive"),
        pytest.param(
            policy(builtin("Balance", 3), builtin(CPU)),
            [("Balance", 3), ("Steady", 1), (CPU, 1)],
            id="a default reweighted",
        ),
        pytest.param(policy(builtin("Steady", 0)), [("Balance", 1)], id="a default switched off"),
        pytest.param(policy(builtin("Steady", -2)), [("Balance", 1), ("Steady", -2)], id="a negative weight"),
        pytest.param(policy(builtin(CPU, 2), mode="Exact"), [(CPU, 2)], id="Exact is only what is listed"),
        pytest.param(
            policy(builtin(CPU, 2), builtin(CPU, 5), mode="Exact"),
            [(CPU, 5)],
            id="a built-in twice: the last weight",
        ),
        pytest.param(
            policy(builtin(CPU, 2), builtin(CPU, 0), mode="Exact"),
            [],
            id="a built-in twice: the last may switch off",
        ),
        pytest.param(
            policy(addon("free", 2), addon("free", 5), mode="Exact"),
            [("AddOn/default/free", 2), ("AddOn/default/free", 5)],
            id="an add-on score twice: both count",
        ),
        pytest.param(
            policy(addon("free", resource="r"), addon("busy", -1), mode="Exact"),
            [("AddOn/r/free", 1), ("AddOn/default/busy", -1)],
            id="add-on scores are named by object and score",
        ),
        pytest.param(
            policy(
                PrioritizerConfig(scoreCoordinate=ScoreCoordinate(type="BuiltIn", builtIn="Steady")),
                mode="Exact",
            ),
            [],
            id="no weight given is weight 0",
        ),
        pytest.param(
            policy(
                PrioritizerConfig(
                    scoreCoordinate=ScoreCoordinate(addOn=AddOnScore(resourceName="r", scoreName="s")),
                    weight=1,
                ),
                mode="Exact",
            ),
            [("AddOn/r/s", 1)],
            id="a coordinate without a type is an add-on",
        ),
        pytest.param(
            policy(
                PrioritizerConfig(
                    scoreCoordinate=ScoreCoordinate(type="BuiltIn", builtIn="Steady", addOn=AddOnScore()),
                    weight=2,
                )
            ),
            [*DEFAULTS, ("Steady", 2)],
            id="a built-in that also carries an add-on runs beside the default",
        ),
    ],
)
def test_profile_has_prioritizers_with_weights_of_policy(
    given: PrioritizerPolicy | None, expected: list[tuple[str, int]]
) -> None:
    assert weights(given) == expected


NO_COORDINATE = PrioritizerConfig(weight=1)
NO_ADDON = PrioritizerConfig(scoreCoordinate=ScoreCoordinate(type="AddOn"), weight=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(policy(mode="exact"), "incorrect prioritizer policy mode: exact", id="an unknown mode"),
        pytest.param(policy(NO_COORDINATE), COORDINATE_NEEDED, id="no coordinate"),
        pytest.param(policy(NO_ADDON), ADDON_NEEDED, id="an add-on coordinate without an add-on"),
        pytest.param(
            policy(builtin("Spread")), "incorrect builtin prioritizer: Spread", id="a built-in that is none"
        ),
    ],
)
@pytest.mark.parametrize("clusters", [(), (cluster("c1"),)], ids=["no clusters", "a cluster"])
def test_invalid_prioritizer_policy_is_misconfigured(
    given: PrioritizerPolicy, message: str, clusters: tuple[object, ...]
) -> None:
    verdict = look(*clusters, spec=PlacementSpec(prioritizerPolicy=given))
    assert verdict.status.code is Code.MISCONFIGURED
    assert verdict.conditions[0].message == f":{message}"
    assert [stage.plugin for stage in verdict.outcome.details.stages] == ["Predicate", "TaintToleration"]
    assert verdict.outcome.details.scored == ()
    assert verdict.outcome.selected == []


@pytest.mark.parametrize(
    "idle",
    [
        pytest.param(builtin("Spread", 0), id="an unknown built-in"),
        pytest.param(PrioritizerConfig(scoreCoordinate=ScoreCoordinate(type="AddOn")), id="an empty add-on"),
    ],
)
def test_prioritizer_with_weight_zero_is_not_checked(idle: PrioritizerConfig) -> None:
    assert weights(policy(idle)) == DEFAULTS


def test_a_missing_coordinate_is_a_mistake_even_with_weight_zero() -> None:
    _, refusal = prioritize(policy(PrioritizerConfig()))
    assert refusal is not None
    assert refusal.message == COORDINATE_NEEDED


def test_duplicate_addon_weights_add_up() -> None:
    spec = PlacementSpec(prioritizerPolicy=policy(addon("free", 2), addon("free", 5), mode="Exact"))
    assert look(cluster("c1"), score("c1", {"free": 10}), spec=spec).outcome.totals_by_name() == {"c1": 70}


THREE = (cluster("c1"), cluster("c2"), cluster("c3"))


@pytest.mark.parametrize(
    ("wanted", "expected", "unscheduled"),
    [
        pytest.param(None, ["c1", "c2", "c3"], 0, id="all that fit"),
        pytest.param(2, ["c1", "c2"], 0, id="ties go by name"),
        pytest.param(3, ["c1", "c2", "c3"], 0, id="as many as there are"),
        pytest.param(5, ["c1", "c2", "c3"], 2, id="more than there are"),
        pytest.param(0, [], 0, id="none"),
        pytest.param(-1, [], 0, id="a negative number is none"),
        pytest.param(-(2**31), [], 0, id="a very negative number too"),
    ],
)
def test_number_of_clusters_limits_the_selection(
    wanted: int | None, expected: list[str], unscheduled: int
) -> None:
    verdict = look(*THREE, spec=PlacementSpec(numberOfClusters=wanted))
    assert verdict.outcome.selected == expected
    assert verdict.outcome.unscheduled == unscheduled


def test_equal_totals_are_ordered_by_bytes_of_name() -> None:
    assert selected(cluster("c10"), cluster("c2"), cluster("c-1")) == ["c-1", "c10", "c2"]


def test_placement_ranks_by_weighted_sum() -> None:
    spec = PlacementSpec(
        numberOfClusters=2, prioritizerPolicy=policy(builtin("Balance", 3), builtin(CPU), addon("demo"))
    )
    clusters = [cluster(f"c{at}", allocatable={"cpu": cpu}) for at, cpu in ((1, "100"), (2, "60"), (3, "20"))]
    scores = [score(f"c{at}", {"demo": value}) for at, value in ((1, 30), (2, 40), (3, 50))]
    verdict = look(*clusters, *scores, spec=spec)
    assert verdict.outcome.totals_by_name() == {"c1": 430, "c2": 340, "c3": 250}
    assert verdict.outcome.selected == ["c1", "c2"]


def test_filters_are_ordered_and_spread_filters_only_with_a_hard_constraint() -> None:
    plain = look(cluster("c1")).outcome.plugins
    assert [calls.plugin.name for calls in plain.pre_filters] == ["ClusterSets"]
    assert [calls.plugin.name for calls in plain.filters] == ["Predicate", "TaintToleration"]
    for when, hard in (("ScheduleAnyway", []), ("DoNotSchedule", ["Spread"])):
        constraint = SpreadConstraint(topologyKey="region", topologyKeyType="Label", whenUnsatisfiable=when)
        spec = PlacementSpec(spreadPolicy=SpreadPolicy(spreadConstraints=(constraint,)))
        filters = look(cluster("c1"), spec=spec).outcome.plugins.filters
        assert [calls.plugin.name for calls in filters] == ["Predicate", "TaintToleration", *hard]


DISABLE = "cluster.open-cluster-management.io/experimental-scheduling-disable"


@pytest.mark.parametrize(
    ("annotations", "idle"),
    [
        pytest.param({}, False, id="no annotation"),
        pytest.param({DISABLE: "true"}, True, id="true"),
        pytest.param({DISABLE: "True"}, False, id="any other value has no effect"),
        pytest.param({DISABLE: ""}, False, id="not even none"),
    ],
)
def test_annotation_disables_placement(annotations: dict[str, str], idle: bool) -> None:
    assert PlacementWorkload(placement(annotations=annotations)).idle is idle


@pytest.mark.parametrize(("deleting", "idle"), [(None, False), (NOW, True)], ids=["there", "being deleted"])
def test_deleted_placement_is_not_scheduled(deleting: datetime | None, idle: bool) -> None:
    source = placement()
    source = structs.replace(source, metadata=structs.replace(source.metadata, deletionTimestamp=deleting))
    assert PlacementWorkload(source).idle is idle


def test_placement_whose_spec_cannot_be_read_is_misconfigured_and_selects_nothing() -> None:
    given = placement(spec=PlacementSpec(numberOfClusters=0))
    fields = (UnreadableField("spec.predicates[0]", "Expected `object`, got `int`"),)
    given = structs.replace(given, metadata=given.metadata.partial(fields))
    verdict = World([cluster_set("default"), binding("default"), cluster("c1"), given]).decide(
        KEY, now=NOW_MICROS
    )
    assert (verdict.status.code, verdict.outcome.selected) == (Code.MISCONFIGURED, [])
    assert verdict.conditions[0].message == (
        ":spec.predicates[0] cannot be read: Expected `object`, got `int`"
    )
