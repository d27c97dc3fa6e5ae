"""DynamicResources: rejects pods that need ResourceClaims, which are not allocated here."""

from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import SKIPPED, Code, Status
from fairway.hosts.bitmap import Bits
from fairway.workloads.pods.workload import PodPlugin, template_of

NAME: Final = "DynamicResources"
REASON: Final = (
    "the pod has resourceClaims, which are not allocated here; name another scheduler in schedulerName"
)


class DynamicResources(PodPlugin, Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        if not template_of(context).needs_resource_claims:
            return SKIPPED, None
        return Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME), None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)

    def reads(self, _context: Context, /) -> Reads:
        return Reads()
