import pytest

from fairway.controllers.scores import Orphans, Policy, PolicyError, Silence, policy_of
from fairway.controllers.scores.policy import (
    NO_NUMBER,
    NO_RESOURCE,
    NO_SCORE,
    SAID_TWICE,
    UNKNOWN_POLICY,
)


def test_nothing_said_is_leave() -> None:
    policy = policy_of()
    assert policy == Policy()
    assert policy.of("usage") is Silence.LEAVE
    assert policy.worst_of("usage", "cpu") == -100


def test_a_default_and_exceptions() -> None:
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
def test_what_makes_no_sense_is_refused(silent: list[str], worst: list[str], words: str) -> None:
    with pytest.raises(PolicyError) as refused:
        policy_of(silent, worst=worst)
    assert str(refused.value) == words
