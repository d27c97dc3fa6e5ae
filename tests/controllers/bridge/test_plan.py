"""The plan of the bridge converges: after any change of both kinds of scores, one round of writes leaves nothing to
do and changes no original.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from fairway.api.score import (
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScore,
    ManagedClusterScoreCondition,
    ManagedClusterScoreStatus,
)
from fairway.controllers.bridge import BridgeOptions, BridgeOptionsError, Range
from fairway.controllers.bridge.origin import (
    FROM_ADD_ON,
    FROM_MANAGED,
    SOURCE,
    is_made_from,
    is_original,
    labels,
)
from fairway.controllers.bridge.plan import (
    FAILING,
    INCOMPLETE,
    Draft,
    Plan,
    plan_add_on,
    plan_managed,
    stretched,
    updated,
)
from fairway.controllers.bridge.value_ranges import ValueRanges
from fairway.hosts.clusters.scores import SILENT, calculator_of, is_stand_in
from kubewire.api.meta import Condition, ObjectMeta, UnreadableField

NOON = datetime(2031, 5, 5, 12, tzinfo=UTC)
BOTH = BridgeOptions(to_managed=True)
SILENCED = Condition(type=SILENT, status="True", reason="ScoreExpired", message="ran out")
UNABLE = Condition(
    type="AddOnPlacementScoreUpdated",
    status="False",
    reason="NotListed",
    message="no nodes",
    lastTransitionTime=NOON,
)


def calculated(
    name: str,
    score: int,
    *,
    at: datetime | None = NOON,
    cluster: str = "c1",
    labelled: Mapping[str, str] = {},
    trouble: str = "",
) -> ManagedClusterScore:
    condition = ManagedClusterScoreCondition(
        type="ManagedClusterScoreUpdated",
        status="False" if trouble else "True",
        reason="Broken" if trouble else "ManagedClusterScoreUpdated",
        message=trouble,
        lastTransitionTime=NOON,
        lastUpdateTime=at,
    )
    return ManagedClusterScore(
        metadata=ObjectMeta(name=f"{cluster}-{name}", namespace=cluster, labels=dict(labelled)),
        status=ManagedClusterScoreStatus(conditions=(condition,), score=score),
    )


def published(
    name: str,
    scores: Mapping[str, int],
    *,
    until: datetime | None = None,
    cluster: str = "c1",
    condition: Condition | None = None,
) -> AddOnPlacementScore:
    items = tuple(AddOnPlacementScoreItem(name=key, value=value) for key, value in scores.items())
    return AddOnPlacementScore(
        metadata=ObjectMeta(name=name, namespace=cluster),
        status=AddOnPlacementScoreStatus(
            scores=items, validUntil=until, conditions=() if condition is None else (condition,)
        ),
    )


def to_add_on(*managed: ManagedClusterScore, now: datetime = NOON, **options: Any) -> dict[str, Any] | None:
    extents = ValueRanges()
    for score in managed:
        extents.put(calculator_of(score) or "", score.metadata.namespace, score.status.score)
    mine = [score for score in managed if score.metadata.namespace == "c1"]
    plan = plan_add_on(mine, None, observed_at={}, options=BridgeOptions(**options), extents=extents, now=now)
    return dict(plan.put[0].status) if plan.put else None


def values(status: Mapping[str, Any] | None) -> dict[str, int]:
    return {} if status is None else {item["name"]: item["value"] for item in status["scores"]}


def test_calculators_become_scores_while_fresh() -> None:
    status = to_add_on(
        calculated("resourceratiocpu", 74),
        calculated("health", -20, at=NOON - timedelta(seconds=100)),
        names={"resourceratiocpu": "ResourceRatioCPU"},
    )
    assert status is not None
    assert status["scores"] == [{"name": "ResourceRatioCPU", "value": 74}, {"name": "health", "value": -20}]
    assert status["validUntil"] == "2031-05-05T12:03:20Z"
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
        "AddOnPlacementScoreUpdated",
        "True",
        "AddOnPlacementScoreUpdated",
        "ResourceRatioCPU 74, health -20",
    )


def test_calculator_without_time_or_too_old_is_not_bridged() -> None:
    assert to_add_on(calculated("a", 1, at=None)) is None
    assert to_add_on(calculated("a", 1, at=NOON - timedelta(seconds=300))) is None
    assert to_add_on(calculated("a", 1, at=NOON - timedelta(seconds=299))) is not None
    status = to_add_on(calculated("a", 1), calculated("b", 2, at=None))
    assert status is not None
    assert values(status) == {"a": 1}
    assert status["conditions"][0]["reason"] == INCOMPLETE
    assert status["conditions"][0]["message"] == "c1-b has no lastUpdateTime; a 1"


def test_score_that_cannot_be_read_is_not_bridged() -> None:
    bad = calculated("health", 0)
    bad = structs.replace(bad, metadata=bad.metadata.partial((UnreadableField("status.score", "bad"),)))
    status = to_add_on(calculated("resourceratiocpu", 74), bad)
    assert values(status) == {"resourceratiocpu": 74}
    assert status is not None
    assert "c1-health: status.score cannot be read" in status["conditions"][0]["message"]


@pytest.mark.parametrize("until", [datetime(1, 1, 1, tzinfo=UTC), NOON - timedelta(seconds=1)])
def test_bridged_score_whose_end_was_moved_into_the_past_is_written_again(until: datetime) -> None:
    source = calculated("health", 10)
    (draft,) = plan_add_on([source], None, observed_at={}, options=BridgeOptions(), extents={}, now=NOON).put
    written = msgspec.convert(draft.status, AddOnPlacementScoreStatus)
    existing = AddOnPlacementScore(
        metadata=ObjectMeta(name=draft.name, namespace="c1", labels=dict(draft.labels)),
        status=structs.replace(written, validUntil=until),
    )
    plan = plan_add_on([source], existing, observed_at={}, options=BridgeOptions(), extents={}, now=NOON)
    assert [draft.status["validUntil"] for draft in plan.put] == [draft.status["validUntil"]]


def test_failing_calculator_is_reported_until_its_value_is_too_old() -> None:
    earlier = NOON - timedelta(seconds=100)
    status = to_add_on(calculated("a", 1, at=earlier, trouble="disk\nbroken"), calculated("b", 2))
    assert status is not None
    assert values(status) == {"a": 1, "b": 2}
    assert status["validUntil"] == "2031-05-05T12:03:20Z"
    (condition,) = status["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", FAILING)
    assert condition["message"] == "c1-a reports: disk broken; a 1, b 2"


def test_future_update_time_counts_as_now() -> None:
    ahead = calculated("a", 1, at=datetime(9999, 12, 31, tzinfo=UTC))
    status = to_add_on(ahead)
    assert status is not None
    assert status["validUntil"] == "2031-05-05T12:05:00Z"
    later = NOON + timedelta(seconds=300)
    plan = plan_add_on([ahead], None, observed_at={"c1-a": NOON}, options=BOTH, extents={}, now=later)
    assert plan.put == ()  # the writer has not updated it since


def test_only_selected_calculators_are_bridged() -> None:
    bridged = to_add_on(calculated("a", 1), calculated("b", 2), calculators=frozenset({"b"}))
    assert values(bridged) == {"b": 2}


@pytest.mark.parametrize(
    ("value", "symmetric"), [(0, -100), (1, -98), (4, -92), (24, -52), (40, -20), (100, 100), (10**18, 100)]
)
def test_calculator_range_uses_the_scale_of_providers(value: int, symmetric: int) -> None:
    ranges = {"a": Range(low=0, high=100), "b": Range(low=0, high=100, floor=-100)}
    bridged = values(to_add_on(calculated("a", value), calculated("b", value), ranges=ranges))
    assert bridged == {"a": min(value, 100), "b": symmetric}


def test_just_created_score_is_not_reported_missing() -> None:
    made = ManagedClusterScore(metadata=ObjectMeta(name="c1-new", namespace="c1"))
    plan = plan_add_on([made], None, observed_at={}, options=BOTH, extents={}, now=NOON)
    assert plan == Plan()


def test_calculator_range_is_exact_for_all_integers() -> None:
    wide = Range(low=-(2**63), high=2**63 - 1)
    assert [wide.score(value) for value in (-(2**63), 0, 2**63 - 1)] == [0, 50, 100]
    assert Range(low=0, high=3, floor=-100).score(1) == -33  # toward zero


@pytest.mark.parametrize(
    ("mine", "others", "score"),
    [
        (50, (-100, 100), 50),
        (50, (0, 200), 25),
        (1000, (0, 4000), 25),
        (4000, (0, 3000), 100),
        (5000, (), 100),
    ],
)
def test_calculator_without_range_is_scaled_as_by_placements(
    mine: int, others: Iterable[int], score: int
) -> None:
    rest = [calculated("a", other, cluster=f"o{number}") for number, other in enumerate(others)]
    assert values(to_add_on(calculated("a", mine), *rest)) == {"a": score}


def to_managed(*add_ons: AddOnPlacementScore, now: datetime = NOON, **options: Any) -> Plan:
    return plan_managed(
        add_ons, {}, cluster="c1", confirmed={}, options=BridgeOptions(to_managed=True, **options), now=now
    )


def test_each_score_becomes_a_managed_cluster_score() -> None:
    plan = to_managed(published("health-score", {"health": -5, "healthNodes": 100}))
    assert [(draft.name, draft.status["score"], dict(draft.annotations)) for draft in plan.put] == [
        ("c1-health", -5, {"fairway.dev/source-score": "health-score/health"}),
        ("c1-healthnodes", 100, {"fairway.dev/source-score": "health-score/healthNodes"}),
    ]
    assert plan.put[0].status["conditions"] == [
        {
            "type": "ManagedClusterScoreUpdated",
            "status": "True",
            "reason": "ManagedClusterScoreUpdated",
            "message": "ManagedClusterScore updated successfully",
            "lastTransitionTime": "2031-05-05T12:00:00Z",
            "lastUpdateTime": "2031-05-05T12:00:00Z",
        }
    ]


def test_copy_of_an_expired_score_is_deleted() -> None:
    made = calculated("health", -5, labelled=labels(FROM_ADD_ON))
    plan = plan_managed(
        [published("health-score", {"health": -5}, until=NOON)],
        {"c1-health": made},
        cluster="c1",
        confirmed={},
        options=BOTH,
        now=NOON,
    )
    assert plan.drop == (made.metadata,)


def test_silenced_score_is_not_bridged() -> None:
    made = calculated("health", 90, labelled=labels(FROM_ADD_ON))
    silent = published("health-score", {"health": -100}, condition=SILENCED)
    plan = plan_managed([silent], {"c1-health": made}, cluster="c1", confirmed={}, options=BOTH, now=NOON)
    assert (plan.put, plan.drop) == ((), (made.metadata,))


def test_failed_score_is_copied_with_its_condition_and_age() -> None:
    earlier, later = NOON - timedelta(seconds=60), NOON + timedelta(seconds=60)
    made = structs.replace(
        calculated("health", 90, at=earlier, labelled=labels(FROM_ADD_ON)),
        metadata=ObjectMeta(
            name="c1-health",
            namespace="c1",
            labels=labels(FROM_ADD_ON),
            annotations={"fairway.dev/source-score": "health-score/health"},
        ),
    )
    failing = published("health-score", {"health": 90}, until=later, condition=UNABLE)
    plan = plan_managed([failing], {"c1-health": made}, cluster="c1", confirmed={}, options=BOTH, now=NOON)
    (draft,) = plan.put
    assert draft.status == {
        "score": 90,
        "conditions": [
            {
                "type": "ManagedClusterScoreUpdated",
                "status": "False",
                "reason": "NotListed",
                "message": "no nodes",
                "lastTransitionTime": "2031-05-05T12:00:00Z",
                "lastUpdateTime": "2031-05-05T11:59:00Z",
            }
        ],
    }


@pytest.mark.parametrize("score", ["", "a b", "ä", "_x", "a..b", "a.-b", "x" * 251])
def test_score_name_invalid_for_an_object_is_reported(score: str) -> None:
    plan = to_managed(published("r", {score: 1, "fine": 2}))
    assert [draft.name for draft in plan.put] == ["c1-fine"]
    assert len(plan.problems) == 1


def test_name_conflict_of_two_scores_copies_one() -> None:
    plan = to_managed(published("b", {"cpu": 2}), published("a", {"CPU": 1}))
    assert [(draft.name, draft.status["score"]) for draft in plan.put] == [("c1-cpu", 1)]
    assert plan.problems == ("score cpu of b and of a would both be copied to c1-cpu; only a's is",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"to_add_on": False}, "has no direction: choose toAddOn, toManaged or both"),
        ({"ttl": 0}, "ttl must be greater than 0 seconds; got 0"),
        ({"ttl": float("nan")}, "ttl must be greater than 0 seconds; got nan"),
        ({"ranges": {"a": Range(low=1, high=1)}}, "range of a: low must be less than high; got 1 and 1"),
        ({"calculators": frozenset({"CPU"})}, "got 'CPU'"),
        ({"names": {"a": "x", "b": "x"}}, "calculators a and b would get the same score name 'x'"),
        ({"names": {"a": ""}}, "calculator a would get an empty score name"),
        ({"resource": "Scores"}, "'Scores' is not a valid AddOnPlacementScore name"),
        ({"resource": ""}, "'' is not a valid AddOnPlacementScore name"),
        ({"resource": "a..b"}, "'a..b' is not a valid AddOnPlacementScore name"),
        ({"resource": "x" * 254}, "is not a valid AddOnPlacementScore name"),
    ],
)
def test_invalid_bridge_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BridgeOptionsError, match=message):
        BridgeOptions(**options)


@pytest.mark.parametrize("extent", [(-5, 5), (-1000, 5), (7, 7), (700, 700)])
def test_scaling_to_a_range_is_monotone(extent: tuple[int, int]) -> None:
    low, high = extent
    scores = [stretched(value, extent) for value in range(low, high + 1)]
    assert scores == sorted(scores)
    assert all(-100 <= item <= 100 for item in scores)


# People, clocks and the bridge

CLUSTERS = ["c1", "c2"]
NAMES = ["cpu", "health", "x"]
RESOURCES = ["managed-cluster-scores", "health-score", "a"]
Key = tuple[str, str]

clusters = st.sampled_from(CLUSTERS)
names = st.sampled_from(NAMES)
resources = st.sampled_from(RESOURCES)
numbers = st.sampled_from([-(2**63), -100, 0, 7, 100, 101, 2**63 - 1])
ages = st.sampled_from([None, -1000, 0, 10, 299, 300, 4000])
scores = st.dictionaries(st.sampled_from(["cpu", "CPU", "health", "bad name"]), st.integers(-100, 100))
forged = st.sampled_from(
    [{}, {SOURCE: FROM_MANAGED}, labels(FROM_MANAGED), labels(FROM_ADD_ON), {SOURCE: "?"}]
)


troubles = st.sampled_from(["", "no disk"])
reported = st.sampled_from([None, SILENCED, UNABLE])


class BridgeSimulation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.managed: dict[Key, ManagedClusterScore] = {}
        self.add_ons: dict[Key, AddOnPlacementScore] = {}
        self.confirmed: dict[Key, datetime] = {}
        self.observed_at: dict[Key, datetime] = {}

    @initialize(
        options=st.builds(
            BridgeOptions,
            to_managed=st.booleans(),
            ranges=st.sampled_from([{}, {"cpu": Range(low=0, high=50)}]),
            names=st.sampled_from([{}, {"x": "health"}]),
            resource=st.sampled_from(["managed-cluster-scores", "health-score"]),
        )
    )
    def begin(self, options: BridgeOptions) -> None:
        self.options = options

    @rule(cluster=clusters, name=names, score=numbers, age=ages, labelled=forged, trouble=troubles)
    def calculate(
        self, cluster: str, name: str, score: int, age: int | None, labelled: dict[str, str], trouble: str
    ) -> None:
        at = None if age is None else self.now - timedelta(seconds=age)
        made = calculated(name, score, at=at, cluster=cluster, labelled=labelled, trouble=trouble)
        self.managed[cluster, made.metadata.name] = made
        self.observed_at[cluster, made.metadata.name] = self.now

    @rule(cluster=clusters, name=resources, given=scores, left=ages, labelled=forged, condition=reported)
    def publish(
        self,
        cluster: str,
        name: str,
        given: dict[str, int],
        left: int | None,
        labelled: dict[str, str],
        condition: Condition | None,
    ) -> None:
        until = None if left is None else self.now + timedelta(seconds=left)
        made = published(name, given, until=until, cluster=cluster, condition=condition)
        self.add_ons[cluster, name] = structs.replace(
            made, metadata=structs.replace(made.metadata, labels=labelled)
        )
        self.confirmed[cluster, name] = self.now

    @precondition(lambda self: self.add_ons)
    @rule(data=st.data(), condition=reported)
    def say(self, data: st.DataObject, condition: Condition | None) -> None:
        """Set a failed or silent condition on current scores."""
        key = data.draw(st.sampled_from(sorted(self.add_ons)))
        old = self.add_ons[key]
        conditions = () if condition is None else (condition,)
        self.add_ons[key] = structs.replace(old, status=structs.replace(old.status, conditions=conditions))

    @rule(seconds=st.sampled_from([1, 149, 150, 301]))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(seconds=st.sampled_from([60, 100_000]))
    def set_the_clock_back(self, seconds: int) -> None:
        self.now -= timedelta(seconds=seconds)

    @precondition(lambda self: self.managed)
    @rule(data=st.data(), labelled=forged)
    def relabel_calculated(self, data: st.DataObject, labelled: dict[str, str]) -> None:
        key = data.draw(st.sampled_from(sorted(self.managed)))
        old = self.managed[key]
        self.managed[key] = structs.replace(old, metadata=structs.replace(old.metadata, labels=labelled))

    @precondition(lambda self: self.add_ons)
    @rule(data=st.data(), labelled=forged)
    def relabel_published(self, data: st.DataObject, labelled: dict[str, str]) -> None:
        key = data.draw(st.sampled_from(sorted(self.add_ons)))
        old = self.add_ons[key]
        self.add_ons[key] = structs.replace(old, metadata=structs.replace(old.metadata, labels=labelled))

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        existing = sorted({*self.managed, *self.add_ons})
        if existing:
            key = data.draw(st.sampled_from(existing))
            self.managed.pop(key, None)
            self.add_ons.pop(key, None)
            self.confirmed.pop(key, None)

    @rule(first=st.permutations([(cluster, kind) for cluster in CLUSTERS for kind in ("add-on", "managed")]))
    def settle(self, first: list[tuple[str, str]]) -> None:
        """In any order: every key once, and again nothing is to be written."""
        originals = self._originals()
        for cluster, kind in first:
            self._round(cluster, kind)
        for cluster, kind in first:
            plan = self._plan(cluster, kind)
            assert (plan.put, plan.drop) == ((), ())
        assert self._originals() == originals
        for made in self.add_ons.values():
            if is_made_from(FROM_MANAGED, made.metadata) and made.metadata.name == self.options.resource:
                self._check(made)
        for calculator in self.managed.values():
            if is_made_from(FROM_ADD_ON, calculator.metadata):
                self._check_source(calculator)

    def _check_source(self, made: ManagedClusterScore) -> None:
        """The valid copy has this value and condition."""
        resource, _, score = made.metadata.annotations["fairway.dev/source-score"].partition("/")
        source = self.add_ons[made.metadata.namespace, resource]
        assert not is_stand_in(source)
        assert source.status.validUntil is None or source.status.validUntil > self.now
        assert made.status.score in [item.value for item in source.status.scores if item.name == score]
        assert [condition.status for condition in made.status.conditions] == (
            ["False"] if UNABLE in source.status.conditions else ["True"]
        )

    def _check(self, made: AddOnPlacementScore) -> None:
        assert made.status.validUntil is not None
        assert made.status.validUntil > self.now
        newest = max(
            min(moment, self.observed_at[key])
            for key, score in self.managed.items()
            if score.metadata.namespace == made.metadata.namespace
            and is_original(score.metadata)
            and (moment := updated(score)) is not None
        )
        assert made.status.validUntil <= min(newest, self.now) + timedelta(seconds=self.options.ttl)
        assert all(-100 <= item.value <= 100 for item in made.status.scores)

    def _originals(self) -> tuple[Any, ...]:
        return tuple(
            [(key, score) for key, score in existing.items() if not self._is_ours(score)]
            for existing in (self.managed, self.add_ons)
        )

    @staticmethod
    def _is_ours(score: ManagedClusterScore | AddOnPlacementScore) -> bool:
        source = FROM_ADD_ON if isinstance(score, ManagedClusterScore) else FROM_MANAGED
        return is_made_from(source, score.metadata)

    def _plan(self, cluster: str, kind: str) -> Plan:
        managed = {name: score for (where, name), score in self.managed.items() if where == cluster}
        add_ons = {name: add_on for (where, name), add_on in self.add_ons.items() if where == cluster}
        if kind == "add-on":
            extents = ValueRanges()
            for (where, _), score in self.managed.items():
                calculator = calculator_of(score)
                if calculator and is_original(score.metadata) and updated(score) is not None:
                    extents.put(calculator, where, score.status.score)
            current = add_ons.get(self.options.resource)
            observed_at = {
                name: moment for (where, name), moment in self.observed_at.items() if where == cluster
            }
            return plan_add_on(
                managed.values(),
                current,
                observed_at=observed_at,
                options=self.options,
                extents=extents,
                now=self.now,
            )
        confirmed = {name: moment for (where, name), moment in self.confirmed.items() if where == cluster}
        return plan_managed(
            add_ons.values(),
            managed,
            cluster=cluster,
            confirmed=confirmed,
            options=self.options,
            now=self.now,
        )

    def _round(self, cluster: str, kind: str) -> None:
        plan = self._plan(cluster, kind)
        existing: dict[Key, Any] = self.add_ons if kind == "add-on" else self.managed
        for meta in plan.drop:
            del existing[cluster, meta.name]
        for draft in plan.put:
            existing[cluster, draft.name] = self._made(cluster, draft, kind)

    @staticmethod
    def _made(cluster: str, draft: Draft, kind: str) -> Any:
        body = {
            "metadata": {
                "name": draft.name,
                "namespace": cluster,
                "labels": dict(draft.labels),
                "annotations": dict(draft.annotations),
            },
            "status": dict(draft.status),
        }
        return msgspec.convert(body, AddOnPlacementScore if kind == "add-on" else ManagedClusterScore)

    @invariant()
    def no_check_is_due_in_the_past(self) -> None:
        if not hasattr(self, "options"):
            return
        for cluster in CLUSTERS:
            for kind in ("add-on", "managed"):
                recheck_at = self._plan(cluster, kind).recheck_at
                assert recheck_at is None or recheck_at > self.now


BridgeSimulation.TestCase.settings = settings(max_examples=35, stateful_step_count=30)
TestPeople = BridgeSimulation.TestCase
