from datetime import datetime, timedelta

import numpy as np
import pytest

from fairway.api.placement import PlacementSpec
from fairway.api.score import AddOnPlacementScore, AddOnPlacementScoreItem, AddOnPlacementScoreStatus
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.status import Code
from fairway.hosts.instant import SECOND, to_micros
from fairway.testing.builders import addon, cluster, policy, score
from fairway.workloads.placement.plugins.addon_score import AddOnScore
from fairway.workloads.placement.verdict import Verdict
from kubewire.api.meta import ObjectMeta
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look, scores_of

NAME = "AddOn/default/free"
SPEC = PlacementSpec(prioritizerPolicy=policy(addon("free"), mode="Exact"))
THREE = (cluster("c1"), cluster("c2"), cluster("c3"))


def seen(*objects: object) -> Verdict:
    return look(*THREE, *objects, spec=SPEC)


def late(name: str, value: int = 30, *, until: datetime = NOW - timedelta(seconds=1)) -> AddOnPlacementScore:
    return score(name, {"free": value}, valid_until=until)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param((), (0, 0, 0), id="no scores published"),
        pytest.param((score("c1", {"free": 30}),), (30, 0, 0), id="one published"),
        pytest.param(
            (score("c1", {"free": 30}), score("c2", {"free": 40}), score("c3", {"free": -50})),
            (30, 40, -50),
            id="all published",
        ),
        pytest.param((score("c1", {"other": 30}),), (0, 0, 0), id="the object lacks this score"),
        pytest.param((score("c1", {"free": 30}, name="other"),), (0, 0, 0), id="an object of another name"),
        pytest.param((score("gone", {"free": 30}),), (0, 0, 0), id="a cluster that is not there"),
        pytest.param(
            (score("c1", {"free": 5000}), score("c2", {"free": -(2**31)})),
            (5000, -(2**31), 0),
            id="scores are taken as they are, however large",
        ),
    ],
)
def test_addon_score_is_that_of_the_cluster(scores: tuple[object, ...], expected: tuple[int, ...]) -> None:
    verdict = seen(*scores)
    assert tuple(scores_of(verdict, NAME).values()) == expected
    assert verdict.status.code is Code.SUCCESS


def test_last_of_addon_scores_with_same_name_is_used() -> None:
    items = tuple(AddOnPlacementScoreItem(name="free", value=value) for value in (10, 20))
    twice = AddOnPlacementScore(
        metadata=ObjectMeta(name="default", namespace="c1"), status=AddOnPlacementScoreStatus(scores=items)
    )
    assert scores_of(seen(twice), NAME)["c1"] == 20


def test_addon_score_is_valid_up_to_and_including_valid_until() -> None:
    assert scores_of(seen(late("c1", until=NOW)), NAME)["c1"] == 30
    past = seen(late("c1", until=NOW - timedelta(microseconds=1)))
    assert scores_of(past, NAME)["c1"] == 0
    assert past.status.code is Code.WARNING


def test_expired_addon_scores_count_zero_and_are_named_in_warning() -> None:
    verdict = seen(late("c1"), score("c2", {"free": 40}), late("c3"))
    assert scores_of(verdict, NAME) == {"c1": 0, "c2": 40, "c3": 0}
    assert (verdict.status.code, verdict.status.plugin) == (Code.WARNING, NAME)
    assert verdict.error == "AddOnPlacementScores c1/default c3/default expired"
    assert verdict.outcome.selected == ["c2", "c1", "c3"]


def test_expired_score_object_without_the_score_is_named() -> None:
    verdict = seen(score("c1", {"other": 1}, valid_until=NOW - timedelta(seconds=1)))
    assert verdict.error == "AddOnPlacementScores c1/default expired"


def test_expired_scores_of_rejected_clusters_cause_no_warning() -> None:
    verdict = look(cluster("c1"), cluster("out", member_of="elsewhere"), late("out"), late("gone"), spec=SPEC)
    assert verdict.status.code is Code.SUCCESS


def test_last_prioritizer_warning_is_kept() -> None:
    both = PlacementSpec(
        prioritizerPolicy=policy(addon("free"), addon("free", resource="other"), mode="Exact")
    )
    until = NOW - timedelta(seconds=1)
    scores = [score("c1", {"free": 1}, name=name, valid_until=until) for name in ("default", "other")]
    assert look(cluster("c1"), *scores, spec=both).error == "AddOnPlacementScores c1/other expired"


def test_renewed_score_ends_the_warning() -> None:
    world = hub(*THREE, late("c1"), spec=SPEC)
    assert world.decide(KEY, now=NOW_MICROS).error is not None
    world.put(score("c1", {"free": 30}, valid_until=NOW + timedelta(seconds=5)))
    assert world.decide(KEY, now=NOW_MICROS).error is None
    world.fleet.delete_score("c1", "default")
    assert scores_of(world.decide(KEY, now=NOW_MICROS), NAME)["c1"] == 0


def test_until_is_the_first_instant_after_valid_until() -> None:
    later, latest = NOW + timedelta(seconds=5), NOW + timedelta(seconds=9)
    context = seen(late("c1"), late("c2", until=later), late("c3", until=latest)).outcome.context
    plugin = AddOnScore(resource="default", score="free")
    rows = np.array([0, 1, 2], dtype=np.int64)
    assert plugin.until(context, rows) == to_micros(later) + 1 == NOW_MICROS + 5 * SECOND + 1
    assert plugin.until(context, rows[:1]) == NEVER_CHANGES
    last_moment = seen(late("c1", until=NOW)).outcome.context
    assert plugin.until(last_moment, rows[:1]) == NOW_MICROS + 1
