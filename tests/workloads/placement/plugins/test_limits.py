"""Limits on the work of one placement."""

import pytest

from fairway.api.placement import DecisionGroup, GroupStrategy, PlacementSpec
from fairway.engine import cycle
from fairway.engine.outcome import REASON_LENGTH, Outcome
from fairway.engine.status import Code
from fairway.hosts.clusters import Fleet
from fairway.testing import builders as make
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.groups import divide
from fairway.workloads.placement.plugins.expressions import (
    ExpressionError,
    Expressions,
    _Programs,
    compiled,
)
from fairway.workloads.placement.plugins.prioritizer_policy import MOST_PRIORITIZERS
from fairway.workloads.placement.plugins.work_budget import (
    CLUSTER_WORK,
    COMPILE_WORK,
    EXPRESSION_WORK,
    FLEET_WORK,
    PLACEMENT_COMPILE_WORK,
    PREDICATE_WORK,
    Pace,
    Paused,
    TooCostly,
    WorkBudget,
    shortened,
)

_TEN = "[1,2,3,4,5,6,7,8,9,10]"
COSTLY = f'{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, managedCluster.metadata.name != "x")))'
"""About 8,000 units per cluster, as every name differs: below the limit of one cluster."""
TOO_COSTLY = f'{_TEN}.all(z, {COSTLY}) && managedCluster.metadata.name != ""'


def fleet(clusters: int) -> Fleet:
    made = Fleet()
    made.load(make.cluster(f"c{at}") for at in range(clusters))
    made.upsert_set(make.cluster_set("default"))
    made.upsert_binding(make.binding("default"))
    return made


def place(made: Fleet, workload: PlacementWorkload) -> Outcome:
    return cycle.run(made.snapshot(), workload, default_profile(), now=0)


def with_cel(*expressions: str) -> PlacementWorkload:
    return PlacementWorkload(
        make.placement(spec=PlacementSpec(predicates=(make.predicate(cel=list(expressions)),)))
    )


def cel_of(workload: PlacementWorkload) -> list[str]:
    (predicate,) = workload.placement.spec.predicates
    return list(predicate.requiredClusterSelector.celSelector.celExpressions)


class TestExpressions:
    @pytest.mark.parametrize(
        "text",
        [
            TOO_COSTLY,
            "(managedCluster.metadata.name + '" + "a" * 60_000 + "').findAll('a').size() > 0",
            "".join(f"{_TEN}.all(x{at}, " for at in range(4))
            + 'quantity("1e9").isGreaterThan(quantity("1e-5"))'
            + ")" * 4,
            f"{_TEN}.all(a, {_TEN}.all(b, isURL('https://a/{'%41' * 500}')))",
            f"{_TEN}.all(a, {_TEN}.all(b, {_TEN}.all(c, !'x'.matches('[^x]{{1,50}}' + string(a * b * c)))))",
        ],
        ids=["loops", "findAll", "quantities", "urls", "patterns"],
    )
    def test_expression_that_is_too_much_work_makes_the_placement_misconfigured(self, text: str) -> None:
        status = place(fleet(2), with_cel("true", text)).status
        assert status.code is Code.MISCONFIGURED
        assert status.plugin == "Predicate"
        assert f"CEL expression {shortened(text)} takes more than {EXPRESSION_WORK} units" in status.message

    def test_expression_that_is_too_long_to_compile_makes_the_placement_misconfigured(self) -> None:
        text = "&&".join(["true"] * 16_000)
        status = place(fleet(1), with_cel(text)).status
        assert status.code is Code.MISCONFIGURED
        assert f"CEL expression {shortened(text)} takes more than {COMPILE_WORK} units" in status.message

    @pytest.mark.parametrize("clusters", [1, 2])
    def test_work_of_an_expression_that_exceeds_its_limit_is_charged(self, clusters: int) -> None:
        workload = with_cel(TOO_COSTLY + f" || {clusters} > 5")
        workload.pace.allow(None)
        compiling = compiled(TOO_COSTLY + f" || {clusters} > 5").compile_work
        assert place(fleet(clusters), workload).status.code is Code.MISCONFIGURED
        assert workload.pace.used >= EXPRESSION_WORK > compiling

    def test_work_of_one_row_that_exceeds_its_limit_is_charged(self) -> None:
        pace = Pace()
        budget = WorkBudget(1, pace)
        with pytest.raises(TooCostly):
            Expressions((TOO_COSTLY,)).holds_for(fleet(1).snapshot(), 0, budget)
        assert pace.used >= EXPRESSION_WORK

    def test_work_of_an_expression_that_does_not_compile_is_charged(self) -> None:
        for text, least in (
            ("&&".join(["true"] * 16_000) + " && 2 > 0", COMPILE_WORK),
            ("x" * 5_000 + "(", 50_000),
        ):
            workload = with_cel(text)
            assert place(fleet(1), workload).status.code is Code.MISCONFIGURED
            assert workload.pace.used >= least

    def test_refused_expression_is_kept_without_what_was_parsed_of_it(self) -> None:
        text = "&&".join(["true"] * 16_000) + " && 1 > 0"
        with pytest.raises(ExpressionError):
            compiled(text)
        with pytest.raises(ExpressionError) as caught:
            compiled(text)
        cause = caught.value.__cause__
        assert cause is not None
        assert (cause.__traceback__, cause.__context__) == (None, None)

    def test_expressions_that_are_too_long_together_make_the_placement_misconfigured(self) -> None:
        texts = ["&&".join(["true"] * 1_500 + [f"{at} > 1"]) for at in range(20)]
        message = place(fleet(1), with_cel(*texts)).status.message
        assert f"more than {PLACEMENT_COMPILE_WORK} units of work to compile" in message

    def test_expressions_that_are_too_much_work_for_the_fleet_make_the_placement_misconfigured(self) -> None:
        made = fleet(2 * FLEET_WORK // 8_000)
        workload = with_cel(COSTLY)
        outcome = place(made, workload)
        assert outcome.status.code is Code.MISCONFIGURED
        assert "take more than" in outcome.status.message
        assert "labels first" in outcome.status.message
        assert not outcome.selected

    def test_expressions_that_are_too_much_work_together_for_one_cluster_make_the_placement_misconfigured(
        self,
    ) -> None:
        """A slice of work never ends within a cluster."""
        workload = with_cel(*(f"{COSTLY} && managedCluster.metadata.name != '{at}'" for at in range(100)))
        workload.pace.allow(None)
        status = place(fleet(1), workload).status
        assert status.code is Code.MISCONFIGURED
        assert f"take more than {PREDICATE_WORK} units of work for cluster c0" in status.message
        compiling = sum(compiled(text).compile_work for text in cel_of(workload))
        assert workload.pace.used - compiling <= PREDICATE_WORK + EXPRESSION_WORK

    def test_cycle_per_host_is_misconfigured_by_the_same_expression(self) -> None:
        made, workload = fleet(1), with_cel(TOO_COSTLY)
        single = cycle.run(made.snapshot(), workload, default_profile(), now=0, whole_fleet=False).status
        assert (single.code, single.message) == (Code.MISCONFIGURED, place(made, workload).status.message)

    def test_evaluation_of_one_cluster_is_charged_to_the_budget(self) -> None:
        pace = Pace()
        matcher = Expressions(('managedCluster.metadata.name == "c0"',))
        assert matcher.holds_for(fleet(1).snapshot(), 0, WorkBudget(1, pace))
        assert 0 < pace.used < CLUSTER_WORK

    def test_single_program_larger_than_the_cache_is_kept(self) -> None:
        programs, program = _Programs(1), compiled("true")
        programs.keep("first", program, 5)
        assert programs.find("first") is program
        programs.keep("second", program, 5)
        assert (programs.find("first"), programs.find("second")) == (None, program)

    def test_refused_expression_is_not_evaluated_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = fleet(2)
        workload = with_cel(TOO_COSTLY)
        first = place(made, workload).status
        made.upsert_cluster(make.cluster("c0", labels={"new": "yes"}))
        monkeypatch.setattr(Expressions, "_judge", lambda *_: pytest.fail("evaluated again"))
        assert place(made, workload).status == first

    def test_costly_expression_is_evaluated_for_a_few_clusters(self) -> None:
        assert place(fleet(3), with_cel(COSTLY)).selected == ["c0", "c1", "c2"]

    def test_cluster_that_is_too_large_is_the_only_rejected_one(self) -> None:
        made = fleet(2)
        claims = {f"claim-{at}": "x" for at in range(30_000)}
        made.upsert_cluster(make.cluster("large", claims=claims))
        workload = with_cel(
            "!has(managedCluster.status.clusterClaims) || "
            "managedCluster.status.clusterClaims.all(c, c.name != '' && c.value != '')"
        )
        outcome = place(made, workload)
        assert outcome.status.code is Code.SUCCESS
        assert outcome.selected == ["c0", "c1"]


class TestSlices:
    def test_cycle_in_slices_has_the_outcome_of_a_whole_cycle(self) -> None:
        made, workload = fleet(20), with_cel(f'{COSTLY} && managedCluster.metadata.name != "c7"')
        slices = 0
        while True:
            workload.pace.allow(20_000)
            try:
                outcome = place(made, workload)
                break
            except Paused:
                slices += 1
                assert workload.pace.used <= 20_000 + EXPRESSION_WORK
        assert slices >= 20 * 8_000 // (20_000 + EXPRESSION_WORK)
        assert outcome.selected == sorted(f"c{at}" for at in range(20) if at != 7)

    def test_slice_without_work_pauses_before_compiling(self) -> None:
        workload = with_cel("true")
        workload.pace.allow(0)
        with pytest.raises(Paused):
            place(fleet(1), workload)

    def test_budget_of_a_cycle_spans_its_slices(self) -> None:
        made, workload = fleet(2 * FLEET_WORK // 8_000), with_cel(COSTLY)
        used = 0
        while True:
            workload.pace.allow(100_000)
            try:
                status = place(made, workload).status
                break
            except Paused:
                used += workload.pace.used
        assert status.code is Code.MISCONFIGURED
        assert used <= FLEET_WORK + CLUSTER_WORK * len(made) + EXPRESSION_WORK


class TestCounts:
    def test_work_of_many_cheap_expressions_is_limited_together(self) -> None:
        few = [f'managedCluster.metadata.name != "x{at}"' for at in range(1000)]
        spec = PlacementSpec(predicates=(make.predicate(cel=few),))
        outcome = place(fleet(600), PlacementWorkload(make.placement(spec=spec)))
        assert outcome.status.code is Code.MISCONFIGURED
        assert (
            "write fewer or cheaper ones than 'managedCluster.metadata.name != \"x0\"'"
            in outcome.status.message
        )

    def test_too_many_predicates_or_expressions_are_misconfigured(self) -> None:
        predicates = tuple(make.predicate(cel=["true"]) for _ in range(1001))
        expressions = (make.predicate(cel=["true"] * 600), make.predicate(cel=["true"] * 401))
        for given, field in ((predicates, "predicates "), (expressions, "celExpressions ")):
            workload = PlacementWorkload(make.placement(spec=PlacementSpec(predicates=given)))
            status = place(fleet(1), workload).status
            assert status.code is Code.MISCONFIGURED
            assert f"{field}has 1001 entries" in status.message

    def test_too_many_decision_groups_are_misconfigured(self) -> None:
        group = DecisionGroup(groupName="canary")
        strategy = GroupStrategy(decisionGroups=(group,) * 1001)
        division = divide(fleet(1).snapshot(), ["c0"], strategy)
        assert division.groups == ()
        assert "decisionGroups has 1001 entries" in division.status.message


class TestPrioritizers:
    def test_too_many_prioritizers_are_misconfigured(self) -> None:
        many = [make.addon(f"s{at}") for at in range(MOST_PRIORITIZERS + 1)]
        workload = PlacementWorkload(make.placement(spec=PlacementSpec(prioritizerPolicy=make.policy(*many))))
        status = place(fleet(3), workload).status
        assert status.code is Code.MISCONFIGURED
        assert f"has {MOST_PRIORITIZERS + 1} entries" in status.message
        assert f"at most {MOST_PRIORITIZERS}" in status.message

    def test_maximum_number_of_prioritizers_is_counted(self) -> None:
        made = fleet(2)
        made.upsert_score(make.score("c1", {f"s{MOST_PRIORITIZERS - 1}": 7}))
        many = [make.addon(f"s{at}") for at in range(MOST_PRIORITIZERS)]
        spec = PlacementSpec(prioritizerPolicy=make.policy(*many, mode="Exact"), numberOfClusters=1)
        outcome = place(made, PlacementWorkload(make.placement(spec=spec)))
        assert outcome.totals_by_name() == {"c0": 0, "c1": 7}
        assert outcome.selected == ["c1"]

    def test_reason_lists_as_many_names_as_fit(self) -> None:
        many = [make.addon(f"s{at}") for at in range(200)]
        spec = PlacementSpec(prioritizerPolicy=make.policy(*many, mode="Exact"))
        ((_, reason, _),) = place(fleet(1), PlacementWorkload(make.placement(spec=spec))).reasons()
        assert reason.startswith("Rank 1 of 1 with 0 points: AddOn/default/s0 missing, counts 0, ")
        assert reason.endswith(", …")
        assert len(reason) < REASON_LENGTH + 60
