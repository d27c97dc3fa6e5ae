"""Platform, Region and Architecture: reject clusters whose claim has none of the values that the request lists."""

from collections.abc import Callable, Hashable
from typing import Final

from fairway.api.hosted_request import HostingConstraints
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.workloads.hosting.plugins.row import rows_with, spec_in, value_at

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
        value = value_at(context, cells.claim(self._claim), row)
        if _is_one_of(value, wanted):
            return OK
        words = NO_VALUE if value is None else OTHER_VALUE
        return unschedulable(
            words.format(noun=self.name.lower(), claim=self._claim, value=value, wanted=" or ".join(wanted)),
            plugin=self.name,
        )

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        wanted = self._wanted(spec_in(context, self.name).request.spec.constraints)
        if not wanted:
            return OK, candidates
        return OK, rows_with(
            context, cells.claim(self._claim), candidates, lambda value: _is_one_of(value, wanted)
        )

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({cells.claim(self._claim)}))


def _is_one_of(value: Hashable | None, wanted: tuple[str, ...]) -> bool:
    return value is not None and str(value).lower() in {text.lower() for text in wanted}


def platform() -> ClaimValues:
    return ClaimValues(
        PLATFORM,
        claim="platform.open-cluster-management.io",
        wanted=lambda constraints: constraints.platforms,
    )


def region() -> ClaimValues:
    return ClaimValues(
        REGION, claim="region.open-cluster-management.io", wanted=lambda constraints: constraints.regions
    )


def architecture() -> ClaimValues:
    return ClaimValues(
        ARCHITECTURE,
        claim="architecture.open-cluster-management.io",
        wanted=lambda constraints: constraints.architectures,
    )
