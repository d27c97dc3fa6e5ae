"""One provider and all its clusters, without a hub."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from fairway.providers import Direct, Inverted, ProviderError, Quantile, Reading, Score
from fairway.providers.publisher import Publisher

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RANK = Score(name="cheap", scale=Inverted(Quantile()))
FREE = Score(name="free", scale=Direct())


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def scores(publisher: Publisher) -> dict[str, dict[str, int]]:
    return {
        cluster: dict(state.reading.scores)
        for cluster, state in publisher.clusters.items()
        if state.reading is not None
    }


def test_quantile_ranks_use_values_of_the_round() -> None:
    publisher = Publisher((RANK,), horizon=180, interval=60)
    prices = {"c1": 1.0, "c2": 2.0, "c3": 3.0}
    publisher.read(
        {name: Reading(values={"cheap": price}) for name, price in prices.items()}, at=NOW, now=NOW
    )
    assert scores(publisher) == {"c1": {"cheap": 100}, "c2": {"cheap": 50}, "c3": {"cheap": 0}}
    del prices["c1"]
    publisher.read(
        {name: Reading(values={"cheap": price}) for name, price in prices.items()}, at=at(60), now=at(60)
    )
    # Who was not read has no say, and keeps what it has.
    assert scores(publisher) == {"c1": {"cheap": 100}, "c2": {"cheap": 100}, "c3": {"cheap": 0}}


def test_quantile_ranks_use_smoothed_values() -> None:
    smooth = Score(name="cheap", scale=Quantile(), half_life=60)
    publisher = Publisher((smooth,), horizon=180, interval=60)
    publisher.read(
        {"c1": Reading(values={"cheap": 0.0}), "c2": Reading(values={"cheap": 10.0})}, at=NOW, now=NOW
    )
    publisher.read(
        {"c1": Reading(values={"cheap": 12.0}), "c2": Reading(values={"cheap": 10.0})}, at=at(60), now=at(60)
    )
    assert scores(publisher) == {"c1": {"cheap": 0}, "c2": {"cheap": 100}}


def test_bad_cluster_affects_only_itself() -> None:
    publisher = Publisher((FREE,), horizon=180, interval=60)
    round_ = publisher.read(
        {
            "good": Reading(values={"free": 3}),
            "partly": Reading(values={"free": 4, "fre": 1}),
            "nan": Reading(values={"free": math.nan}),
            "error": ProviderError("no route", reason="NoRoute"),
            "many": Reading(values={f"n{number}": 1.0 for number in range(101)}),
        },
        at=NOW,
        now=NOW,
    )
    assert {problem.cluster: (problem.reason, problem.whole) for problem in round_.problems} == {
        "partly": ("UnknownScore", False),
        "nan": ("InvalidValue", False),
        "error": ("NoRoute", True),
        "many": ("TooManyScores", True),
    }
    assert set(round_.next_checks) == {"good", "partly", "nan", "error", "many"}
    assert scores(publisher) == {"good": {"free": 3}, "partly": {"free": 4}, "nan": {}}


def test_failed_round_fails_every_cluster() -> None:
    publisher = Publisher((FREE,), horizon=180, interval=60)
    error = ProviderError("line\nbreak", reason="odd one")
    round_ = publisher.record_failure(error, clusters=["c1", "c2"], now=NOW)
    assert round_.next_checks == {"c1": NOW, "c2": NOW}
    assert {(problem.reason, problem.message) for problem in round_.problems} == {
        ("CollectionFailed", "line break")
    }


def test_forgotten_cluster_has_no_state() -> None:
    publisher = Publisher((FREE,), horizon=180, interval=60)
    publisher.read({"c1": Reading(values={"free": 3})}, at=NOW, now=NOW)
    publisher.forget("c1")
    publisher.forget("c1")
    assert publisher.clusters == {}


def test_expiry_is_that_of_first_expiring_score() -> None:
    publisher = Publisher((FREE,), horizon=180, interval=60)
    assert math.isnan(publisher.expiry(NOW))
    for cluster, moment in (("c1", at(0)), ("c2", at(60))):
        publisher.read({cluster: Reading(values={"free": 3})}, at=moment, now=moment)
        publishing = publisher.state_of(cluster)
        assert publishing.take_due(now=moment) is not None
        publishing.record_write(version=0, now=moment)
    assert publisher.expiry(at(60)) == 120
    assert publisher.expiry(at(200)) == -20


@pytest.mark.parametrize("lost", [("free",), ()])
def test_lost_score_stays_while_valid(lost: tuple[str, ...]) -> None:
    publisher = Publisher((FREE, Score(name="busy", scale=Direct())), horizon=180, interval=60)
    publisher.read({"c1": Reading(values={"free": 3, "busy": 4})}, at=NOW, now=NOW)
    publisher.read({"c1": Reading(values={"busy": 5}, lost=lost)}, at=at(60), now=at(60))
    truth = publisher.state_of("c1").reading
    assert truth is not None
    if lost:
        assert (dict(truth.scores), truth.at) == ({"free": 3, "busy": 5}, NOW)
    else:
        assert (dict(truth.scores), truth.at) == ({"busy": 5}, at(60))
    publisher.read({"c1": Reading(values={"busy": 6}, lost=lost)}, at=at(180), now=at(180))
    assert scores(publisher) == {"c1": {"busy": 6}}


def test_clock_step_keeps_age_of_lost_score() -> None:
    publisher = Publisher((FREE, Score(name="busy", scale=Direct())), horizon=180, interval=60)
    publisher.read({"c1": Reading(values={"free": 3, "busy": 4})}, at=at(3600), now=at(3600))
    publisher.assessor.shift_back(timedelta(seconds=3600))
    publisher.read({"c1": Reading(values={"busy": 5}, lost=("free",))}, at=at(60), now=at(60))
    truth = publisher.state_of("c1").reading
    assert truth is not None
    assert (dict(truth.scores), truth.at) == ({"free": 3, "busy": 5}, NOW)
