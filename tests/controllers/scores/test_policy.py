from typing import Any

import pytest

from fairway.controllers.scores import Silence, SilencePolicy, SilencePolicyError
from fairway.controllers.scores.policy import NO_NUMBER, NO_SCORE, NO_SHARE


def test_silence_policy_has_a_default_and_exceptions() -> None:
    policy = SilencePolicy(
        default=Silence.WORST, by_resource={"usage": Silence.DROP}, worst={"hosted/count": 99}
    )
    assert [policy.of(resource) for resource in ("other", "usage")] == [Silence.WORST, Silence.DROP]
    assert (policy.worst_of("hosted", "count"), policy.worst_of("hosted", "other")) == (99, -100)
    assert SilencePolicy().of("usage") is Silence.LEAVE


def test_worst_number_of_hosted_clusters_is_the_largest_by_default() -> None:
    count = ("hosted-clusters-score", "hostedClustersCount")
    assert SilencePolicy().worst_of(*count) == 100
    assert SilencePolicy().worst_of("hosted-clusters-score", "hcpHeadroom") == -100
    assert SilencePolicy(worst={"/".join(count): 80}).worst_of(*count) == 80


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"worst": {"usage": 100}}, NO_SCORE.format(text="usage=100")),
        ({"worst": {"usage/": 100}}, NO_SCORE.format(text="usage/=100")),
        ({"worst": {"usage/cpu": 101}}, NO_NUMBER.format(text="usage/cpu=101")),
        ({"share": 1.5}, NO_SHARE.format(share=1.5)),
        ({"share": -0.1}, NO_SHARE.format(share=-0.1)),
        ({"share": float("nan")}, NO_SHARE.format(share=float("nan"))),
    ],
)
def test_invalid_silence_policy_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SilencePolicyError) as rejected:
        SilencePolicy(**given)
    assert str(rejected.value) == message
