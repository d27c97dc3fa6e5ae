"""What one placement may cost the others."""

from fairway.api.placement import DecisionGroup, GroupStrategy, PlacementSpec
from fairway.engine import cycle
from fairway.engine.outcome import REASON_LENGTH, Outcome
from fairway.engine.status import Code
from fairway.fleet import Fleet
from fairway.plugins.expressions import FLEET_BUDGET
from fairway.plugins.groups import divide
from fairway.plugins.placement import MOST_PRIORITIZERS, PlacementWorkload
from fairway.testing import builders as make

_TEN = "[1,2,3,4,5,6,7,8,9,10]"
COSTLY = (
    f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, {_TEN}.all(d, {_TEN}.all(e, "
    'managedCluster.metadata.name != "x")))))'
)
"""About 850,000 for every cluster, as each has another name: below what one cluster may cost."""


def fleet(clusters: int) -> Fleet:
    made = Fleet()
    made.load(make.cluster(f"c{at}") for at in range(clusters))
    made.upsert_set(make.cluster_set("default"))
    made.upsert_binding(make.binding("default"))
    return made


def place(made: Fleet, workload: PlacementWorkload) -> Outcome:
    return cycle.run(made.snapshot(), workload, workload.profile, now=0)


class TestExpressions:
    def test_an_expression_too_costly_for_the_fleet_is_the_placements_mistake(self) -> None:
        made = fleet(2 * FLEET_BUDGET // 850_000)
        workload = PlacementWorkload(
            make.placement(spec=PlacementSpec(predicates=(make.predicate(cel=[COSTLY]),)))
        )
        outcome = place(made, workload)
        assert outcome.status.code is Code.MISCONFIGURED
        assert outcome.status.plugin == "Predicate"
        assert "cost more than" in outcome.status.message
        assert "labels first" in outcome.status.message
        assert not outcome.selected

    def test_it_is_not_tried_again_and_again(self) -> None:
        made = fleet(2 * FLEET_BUDGET // 850_000)
        workload = PlacementWorkload(
            make.placement(spec=PlacementSpec(predicates=(make.predicate(cel=[COSTLY]),)))
        )
        first = place(made, workload).status
        made.upsert_cluster(make.cluster("c0", labels={"new": "yes"}))
        assert place(made, workload).status == first

    def test_a_few_clusters_may_be_asked_the_same(self) -> None:
        workload = PlacementWorkload(
            make.placement(spec=PlacementSpec(predicates=(make.predicate(cel=[COSTLY]),)))
        )
        assert place(fleet(3), workload).selected == ["c0", "c1", "c2"]


class TestCounts:
    def test_many_cheap_expressions_are_dear_together(self) -> None:
        few = [f'managedCluster.metadata.name != "x{at}"' for at in range(1000)]
        spec = PlacementSpec(predicates=(make.predicate(cel=few),))
        outcome = place(fleet(600), PlacementWorkload(make.placement(spec=spec)))
        assert outcome.status.code is Code.MISCONFIGURED
        assert (
            "write fewer or cheaper ones than 'managedCluster.metadata.name != \"x0\"'"
            in outcome.status.message
        )

    def test_so_many_predicates_or_expressions_are_refused_with_the_number(self) -> None:
        predicates = tuple(make.predicate(cel=["true"]) for _ in range(1001))
        expressions = (make.predicate(cel=["true"] * 600), make.predicate(cel=["true"] * 401))
        for given, field in ((predicates, "predicates "), (expressions, "celExpressions ")):
            workload = PlacementWorkload(make.placement(spec=PlacementSpec(predicates=given)))
            status = place(fleet(1), workload).status
            assert status.code is Code.MISCONFIGURED
            assert f"{field}has 1001 entries" in status.message

    def test_so_many_groups_are_refused_with_the_number(self) -> None:
        group = DecisionGroup(groupName="canary")
        strategy = GroupStrategy(decisionGroups=(group,) * 1001)
        found = divide(fleet(1).snapshot(), ["c0"], strategy)
        assert found.groups == ()
        assert "decisionGroups has 1001 entries" in found.status.message


class TestPrioritizers:
    def test_so_many_are_refused_with_the_number(self) -> None:
        many = [make.addon(f"s{at}") for at in range(MOST_PRIORITIZERS + 1)]
        workload = PlacementWorkload(make.placement(spec=PlacementSpec(prioritizerPolicy=make.policy(*many))))
        status = place(fleet(3), workload).status
        assert status.code is Code.MISCONFIGURED
        assert f"has {MOST_PRIORITIZERS + 1} entries" in status.message
        assert f"at most {MOST_PRIORITIZERS}" in status.message

    def test_the_most_that_are_allowed_are_all_counted(self) -> None:
        made = fleet(2)
        made.upsert_score(make.score("c1", {f"s{MOST_PRIORITIZERS - 1}": 7}))
        many = [make.addon(f"s{at}") for at in range(MOST_PRIORITIZERS)]
        spec = PlacementSpec(prioritizerPolicy=make.policy(*many, mode="Exact"), numberOfClusters=1)
        outcome = place(made, PlacementWorkload(make.placement(spec=spec)))
        assert outcome.totals_by_name() == {"c0": 0, "c1": 7}
        assert outcome.selected == ["c1"]

    def test_a_reason_names_as_many_as_fit(self) -> None:
        many = [make.addon(f"s{at}") for at in range(200)]
        spec = PlacementSpec(prioritizerPolicy=make.policy(*many, mode="Exact"))
        ((_, reason, _),) = place(fleet(1), PlacementWorkload(make.placement(spec=spec))).reasons()
        assert reason.startswith("Rank 1 of 1 with 0 points: AddOn/default/s0 missing, counts 0, ")
        assert reason.endswith(", …")
        assert len(reason) < REASON_LENGTH + 60
