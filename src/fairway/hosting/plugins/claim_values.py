"""Platform, Region and Architecture: reject clusters whose claim has none of the values that the request lists."""

from collections.abc import Callable
from typing import Final

from fairway.api.hosted_request import HostingConstraints
from fairway.clusters import cells
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosting.plugins.row import cluster_at, spec_in

PLATFORM: Final = "Platform"
REGION: Final = "Region"
ARCHITECTURE: Final = "Architecture"
OTHER_VALUE: Final = "its {noun} is {value}, and the request wants {wanted}"
NO_VALUE: Final = "has no claim {claim}, and the request wants {noun} {wanted}"


class ClaimValues(Timeless):
    def __init__(
        self, name: str, *, claim: str, wanted: Callable[[HostingConstraints], tuple[str, ...]]
    ) -> None:
        self.name = name
        self._claim, self._wanted = claim, wanted

    def filter(self, context: Context, row: int, /) -> Status:
        wanted = self._wanted(spec_in(context, self.name).request.spec.constraints)
        if not wanted:
            return OK
        value = cells.claims_of(cluster_at(context, row)).get(self._claim)
        if value is not None and value.lower() in {each.lower() for each in wanted}:
            return OK
        words = NO_VALUE if value is None else OTHER_VALUE
        return unschedulable(
            words.format(noun=self.name.lower(), claim=self._claim, value=value, wanted=" or ".join(wanted)),
            plugin=self.name,
        )

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.claim(self._claim)}))


def platform() -> ClaimValues:
    return ClaimValues(
        PLATFORM, claim="platform.open-cluster-management.io", wanted=lambda each: each.platforms
    )


def region() -> ClaimValues:
    return ClaimValues(REGION, claim="region.open-cluster-management.io", wanted=lambda each: each.regions)


def architecture() -> ClaimValues:
    return ClaimValues(
        ARCHITECTURE,
        claim="architecture.open-cluster-management.io",
        wanted=lambda each: each.architectures,
    )
