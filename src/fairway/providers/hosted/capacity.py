"""Scores of a hosting cluster, from its count of hosted clusters and the headroom of its nodes.

No I/O: the provider and synthetic fleets both use it.
"""

from collections.abc import Iterable
from typing import Final

from fairway.api.hosting_policy import REQUESTS_SCORE
from fairway.providers.hosted.headroom import Headroom, slots
from fairway.providers.hosted.options import HostedOptions
from fairway.providers.hosted.sizing import Profile
from fairway.providers.provider import Score
from fairway.providers.scales import Direct, Share

RESOURCE: Final = "hosted-clusters-score"
COUNT: Final = "hostedClustersCount"
OF_REQUESTS: Final = REQUESTS_SCORE
HEADROOM: Final = "hcpHeadroom"
API_HEADROOM: Final = "apiQpsHeadroom"
TYPICAL: Final = "small"
"""Size that the headroom counts."""


def capacity_values(
    count: int, headrooms: Iterable[Headroom], options: HostedOptions, *, of_requests: int = 0
) -> dict[str, float]:
    """Raw values by score name, except API headroom. ``of_requests``: how many were created for requests."""
    values: dict[str, float] = {COUNT: count, OF_REQUESTS: of_requests}
    headrooms = list(headrooms)
    left = max(options.limits.maximum - count, 0)
    for profile in options.profiles:
        fit = min(slots(headrooms, profile), left)
        values[profile.score] = fit
        if profile.name == TYPICAL:
            values[HEADROOM] = fit / (fit + count) if fit else 0.0
    return values


def api_headroom(count: int, whole: Headroom, options: HostedOptions, *, rate: float | None = None) -> float:
    """Share of the capacity that is free, at ``rate`` requests per second to each hosted cluster."""
    baseline = options.baseline
    expected = baseline.lowest_rate if rate is None else max(rate, baseline.lowest_rate)
    capacity = baseline.capacity(cpu=whole.cpu, memory=whole.memory, pods=whole.pods, rate=expected)
    capacity = min(capacity, options.limits.maximum)
    return max(capacity - count, 0) / capacity if capacity else 0.0


def scores_of(options: HostedOptions) -> tuple[Score, ...]:
    maximum = options.limits.maximum
    return (
        Score(
            name=COUNT,
            scale=Direct(floor=0),
            unit="hosted clusters",
            meaning="number of hosted clusters, as the hypershift add-on counts them; at most 100, and low is good",
            deadband=1,
        ),
        Score(
            name=OF_REQUESTS,
            scale=Direct(floor=0),
            unit="hosted clusters",
            meaning="number of them that were created for HostedClusterRequests, so that none is counted twice",
            deadband=1,
        ),
        Score(
            name=HEADROOM,
            scale=Share(rounding="nearest"),
            unit="share",
            meaning=f"free share of the capacity for {TYPICAL} hosted clusters",
        ),
        Score(
            name=API_HEADROOM,
            scale=Share(rounding="nearest"),
            unit="share",
            meaning="free share of the capacity by the sizing baseline, at the present request rate",
        ),
        *(_slots_score(profile, maximum) for profile in options.profiles),
    )


def _slots_score(profile: Profile, maximum: int) -> Score:
    return Score(
        name=profile.score,
        scale=Share(maximum),
        unit="hosted clusters",
        meaning=f"number of hosted clusters of size {profile.name} that still fit",
        thresholds=(Share(maximum).score(1),),
        deadband=1,
    )
