from typing import Any

import pytest

from fairway.controllers.scores import Orphans, Silence, SilencePolicy, SilencePolicyError, policy_of
from fairway.controllers.scores.policy import (
    NO_NUMBER,
    NO_RESOURCE,
    NO_SCORE,
    NO_SHARE,
    SAID_TWICE,
    UNKNOWN_POLICY,
)


def test_default_silence_policy_is_leave() -> None:
    policy = policy_of()
    assert policy == SilencePolicy()
    assert policy.of("usage") is Silence.LEAVE
    assert policy.worst_of("usage", "cpu") == -100


def test_silence_policy_has_a_default_and_exceptions() -> None:
    policy = policy_of(
        ["worst", "usage=drop", " health=leave "],
        worst=["hosted/count=100"],
        grace=5,
        share=0.25,
        orphans=Orphans.DROP,
    )
    assert [policy.of(each) for each in ("other", "usage", "health")] == [
        Silence.WORST,
        Silence.DROP,
        Silence.LEAVE,
    ]
    assert (policy.worst_of("hosted", "count"), policy.worst_of("hosted", "other")) == (100, -100)
    assert (policy.grace, policy.share, policy.orphans) == (5, 0.25, Orphans.DROP)


def test_worst_number_of_hosted_clusters_is_the_largest_by_default() -> None:
    count = ("hosted-clusters-score", "hostedClustersCount")
    assert SilencePolicy().worst_of(*count) == 100
    assert SilencePolicy().worst_of("hosted-clusters-score", "hcpHeadroom") == -100
    assert policy_of(worst=["hosted-clusters-score/hostedClustersCount=80"]).worst_of(*count) == 80


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"worst": {"usage": 100}}, NO_SCORE.format(text="usage=100")),
        ({"share": 1.5}, NO_SHARE.format(share=1.5)),
        ({"share": -0.1}, NO_SHARE.format(share=-0.1)),
        ({"share": float("nan")}, NO_SHARE.format(share=float("nan"))),
    ],
)
def test_contradictory_silence_policy_is_rejected(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SilencePolicyError) as refused:
        SilencePolicy(**given)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("silent", "worst", "words"),
    [
        (["bad"], [], UNKNOWN_POLICY.format(text="bad")),
        (["usage=Worst"], [], UNKNOWN_POLICY.format(text="Worst")),
        (["=worst"], [], NO_RESOURCE.format(text="=worst")),
        (["worst", "drop"], [], SAID_TWICE.format(text="drop")),
        (["a=worst", "a=worst"], [], SAID_TWICE.format(text="a=worst")),
        ([], ["usage=100"], NO_SCORE.format(text="usage=100")),
        ([], ["usage/=100"], NO_SCORE.format(text="usage/=100")),
        ([], ["usage/cpu"], NO_SCORE.format(text="usage/cpu")),
        ([], ["usage/cpu=most"], NO_NUMBER.format(text="usage/cpu=most")),
        ([], ["usage/cpu=101"], NO_NUMBER.format(text="usage/cpu=101")),
    ],
)
def test_invalid_silence_policy_is_rejected(silent: list[str], worst: list[str], words: str) -> None:
    with pytest.raises(SilencePolicyError) as refused:
        policy_of(silent, worst=worst)
    assert str(refused.value) == words
