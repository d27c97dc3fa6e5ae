"""Recovery policies and health sources."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairway.api.clusterset import ManagedClusterSelector, ManagedClusterSet, ManagedClusterSetSpec
from fairway.api.score import (
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScore,
    ManagedClusterScoreCondition,
    ManagedClusterScoreStatus,
)
from fairway.controllers.recovery import Budget, HealthSource, RecoveryPolicy, RecoveryPolicyError
from fairway.controllers.recovery.cluster_sets import SetsByCluster
from fairway.controllers.recovery.health_source import HealthReading, HealthSourceError, read
from fairway.hosts.clusters.scores import SILENT
from fairway.hosts.steps import STRIDE, finish
from kubewire.api.meta import Condition, ObjectMeta
from kubewire.api.selector import LabelSelector

NOON = datetime(2031, 5, 5, 12, tzinfo=UTC)
OTHER = HealthSource(resource="a", score="b")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"below": 60}, "above must be greater than below; got above 60 and below 60"),
        ({"dwell": 0}, "dwell must be greater than 0; got 0"),
        ({"dwell": float("nan")}, "dwell must be greater than 0; got nan"),
        ({"suspect_window": -1}, "window must be greater than 0; got -1"),
        ({"fresh": 0.0}, "freshness must be greater than 0; got 0"),
        (
            {"recovery_dwell": 300},
            "recoveryDwell must be longer than dwell; got recoveryDwell 300 s and dwell 300 s",
        ),
        ({"fleet": Budget(percent=0)}, "budget of the fleet must be from 1 to 100; got 0"),
        ({"per_set": Budget(percent=101)}, "budget of a set must be from 1 to 100; got 101"),
        ({"per_set": Budget(percent=10, count=0)}, "budget of a set must be greater than 0; got 0"),
        ({"suspect_percent": 0}, "share that is suspect must be from 1 to 100; got 0"),
        ({"effect": "PreferNoSelect"}, "effect must be NoSelect or NoSelectIfNew; got 'PreferNoSelect'"),
        ({"missing": "maybe"}, "missing must be ignore or unhealthy; got 'maybe'"),
        ({"below": 0}, "below must be at least 1: health-score/health ranges from 0 to 100; got 0"),
        ({"below": -20}, "health-score/health ranges from 0 to 100; got -20"),
        (
            {"health": OTHER, "below": -100},
            "below must be at least -99: a/b ranges from -100 to 100; got -100",
        ),
        ({"above": 101}, "above must be at most 100: health-score/health ranges from 0 to 100; got 101"),
    ],
)
def test_contradictory_recovery_policy_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(RecoveryPolicyError, match=message):
        RecoveryPolicy(**given)


def test_thresholds_use_the_unit_of_the_health_source() -> None:
    RecoveryPolicy(below=1, above=100)
    RecoveryPolicy(health=OTHER, below=-99, above=100)
    RecoveryPolicy(health=HealthSource.parse("heartbeats"), below=-100_000, above=100_000)


@pytest.mark.parametrize(
    ("text", "resource", "score"),
    [("health-score/health", "health-score", "health"), ("Health", "", "health"), (" a / b ", "a", "b")],
)
def test_health_source_is_parsed(text: str, resource: str, score: str) -> None:
    assert HealthSource.parse(text) == HealthSource(resource=resource, score=score)


@pytest.mark.parametrize("text", ["", " ", "/", "a/", "/b", "a/b/c"])
def test_invalid_health_source_is_rejected(text: str) -> None:
    with pytest.raises(HealthSourceError, match="does not name a score"):
        HealthSource.parse(text)


def published(*values: int, until: datetime | None = NOON, silent: bool = False) -> AddOnPlacementScore:
    mark = Condition(type=SILENT, status="True", reason="ScoreExpired")
    items = tuple(AddOnPlacementScoreItem(name="health", value=value) for value in values)
    return AddOnPlacementScore(
        metadata=ObjectMeta(name="health-score", namespace="c1"),
        status=AddOnPlacementScoreStatus(
            scores=items, validUntil=until, conditions=(mark,) if silent else ()
        ),
    )


def calculated(score: int, *moments: datetime | None, name: str = "c1-health") -> ManagedClusterScore:
    conditions = tuple(
        ManagedClusterScoreCondition(type=f"T{number}", status="True", reason="R", lastUpdateTime=moment)
        for number, moment in enumerate(moments)
    )
    return ManagedClusterScore(
        metadata=ObjectMeta(name=name, namespace="c1"),
        status=ManagedClusterScoreStatus(conditions=conditions, score=score),
    )


ADD_ON = HealthSource.parse("health-score/health")
CALCULATOR = HealthSource.parse("health")
LATE = NOON + timedelta(seconds=60)
END_OF_TIMES = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    ("published", "at", "fresh", "health"),
    [
        (published(5), ADD_ON, None, HealthReading(score=5, expires=NOON)),
        (published(5, 7, until=None), ADD_ON, None, HealthReading(score=7)),
        (published(), ADD_ON, None, None),
        (published(-100, until=None, silent=True), ADD_ON, None, None),
        (published(5, silent=True), ADD_ON, None, HealthReading(score=5, expires=NOON)),  # published since
        (published(5), HealthSource.parse("other/health"), None, None),
        (calculated(5, NOON), CALCULATOR, None, HealthReading(score=5)),
        (calculated(5, NOON), CALCULATOR, 60.0, HealthReading(score=5, expires=LATE)),
        (calculated(5, None, NOON), CALCULATOR, 60.0, HealthReading(score=5, expires=LATE)),
        (calculated(5, END_OF_TIMES), CALCULATOR, 60.0, HealthReading(score=5)),
        (calculated(5), CALCULATOR, None, HealthReading(score=5)),
        (calculated(5), CALCULATOR, 60.0, None),
        (calculated(0), CALCULATOR, None, None),  # without status yet
        (calculated(0, NOON), CALCULATOR, None, HealthReading(score=0)),
        (calculated(5, NOON, name="c1-other"), CALCULATOR, None, None),
        (calculated(5, NOON, name="health"), CALCULATOR, None, None),
    ],
)
def test_health_is_read_from_the_score(
    published: AddOnPlacementScore | ManagedClusterScore,
    at: HealthSource,
    fresh: float | None,
    health: HealthReading | None,
) -> None:
    assert read(published, at=at, fresh=fresh) == health


def test_expired_health_is_missing() -> None:
    health = HealthReading(score=5, expires=NOON)
    assert health.at(NOON - timedelta(microseconds=1)) == 5
    assert health.at(NOON) is None
    assert HealthReading(score=5).at(END_OF_TIMES) == 5


def chosen(name: str, **labels: str) -> ManagedClusterSet:
    selector = ManagedClusterSelector(
        selectorType="LabelSelector", labelSelector=LabelSelector(matchLabels=labels)
    )
    return ManagedClusterSet(
        metadata=ObjectMeta(name=name), spec=ManagedClusterSetSpec(clusterSelector=selector)
    )


def test_set_members_are_found_in_either_order() -> None:
    groups = SetsByCluster()

    def put(source: ManagedClusterSet) -> list[str]:
        moved: list[str] = []
        finish(groups.put_set(source, moved=moved.append))
        return moved

    def drop(name: str) -> list[str]:
        moved: list[str] = []
        finish(groups.drop_set(name, moved=moved.append))
        return moved

    groups.put_cluster("a", {"zone": "1"})
    assert put(chosen("one", zone="1")) == ["a"]
    assert put(chosen("one", zone="1")) == []
    groups.put_cluster("b", {"zone": "1", "cluster.open-cluster-management.io/clusterset": "own"})
    assert put(ManagedClusterSet(metadata=ObjectMeta(name="own"))) == ["b"]
    assert put(chosen("all")) == ["a", "b"]
    assert groups.of("a") == {"all", "one"}
    assert groups.of("b") == {"all", "one", "own"}
    assert put(chosen("one", zone="2")) == ["a", "b"]
    groups.put_cluster("a", {"zone": "2"})
    assert groups.of("a") == {"all", "one"}
    assert groups.of("b") == {"all", "own"}
    assert drop("one") == ["a"]
    assert drop("one") == []
    groups.put_cluster("c", {"zone": "2"})
    assert groups.of("c") == {"all"}


def test_cluster_that_is_deleted_while_a_set_changes_is_in_no_set() -> None:
    groups = SetsByCluster()
    names = [f"c{number}" for number in range(2 * STRIDE)]
    for name in names:
        groups.put_cluster(name, {"zone": "1"})
    moved: list[str] = []
    steps = groups.put_set(chosen("one", zone="1"), moved=moved.append)
    next(steps)
    groups.drop_cluster(names[-1])
    groups.put_cluster("new", {"zone": "1"})
    finish(steps)
    assert moved == names[:-1]
    assert groups.of(names[-1]) == frozenset()
    assert groups.of("new") == {"one"}


def test_deleted_cluster_is_in_no_set() -> None:
    groups = SetsByCluster()
    finish(groups.put_set(chosen("one"), moved=lambda _: None))
    groups.put_cluster("b", {})
    assert groups.of("b") == {"one"}
    groups.drop_cluster("b")
    assert groups.of("b") == frozenset()
