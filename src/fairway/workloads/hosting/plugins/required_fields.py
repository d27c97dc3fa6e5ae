"""RequiredFields: rejects clusters whose HyperShift requires fields that the request and its template lack."""

from collections.abc import Hashable
from typing import Final

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.workloads.hosting.plugins.row import rows_with, spec_in, value_at
from fairway.workloads.hosting.rules.schema import SCHEMA_CLAIM, missing_fields

NAME: Final = "RequiredFields"
MISSING: Final = (
    "it requires {fields}; write {them} into the request, or into the template of policy {policy}"
)
MOST_NAMED: Final = 8
AND_MORE: Final = " and {count} more"
_CLAIM: Final = cells.claim(SCHEMA_CLAIM)


class RequiredFields(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        spec = spec_in(context, NAME)
        missing = _missing(value_at(context, _CLAIM, row), spec.request)
        if not missing:
            return OK
        more = AND_MORE.format(count=len(missing) - MOST_NAMED) if len(missing) > MOST_NAMED else ""
        words = MISSING.format(
            fields=", ".join(missing[:MOST_NAMED]) + more,
            them="it" if len(missing) == 1 else "them",
            policy=spec.policy.name,
        )
        return unschedulable(words, plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        request = spec_in(context, NAME).request
        return OK, rows_with(context, _CLAIM, candidates, lambda claim: not _missing(claim, request))

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({_CLAIM}))


def _missing(claim: Hashable | None, request: HostedClusterRequest) -> list[str]:
    return list(missing_fields(str(claim), request)) if claim else []
