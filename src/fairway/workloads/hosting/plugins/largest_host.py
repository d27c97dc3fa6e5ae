"""LargestHost: refuses demands that are greater than what the largest hosting cluster could ever offer.

In the capacity model Count only the number of hosted clusters is limited, so a demand would be reserved whatever it is.
"""

from typing import Final

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.direction import Direction
from fairway.workloads.hosting.fleet.columns import LARGEST_HOST
from fairway.workloads.hosting.fleet.snapshot import hosting_of
from fairway.workloads.hosting.plugins.row import spec_in
from fairway.workloads.hosting.resources import (
    CPU,
    DIMENSIONS,
    HOSTED,
    IN_WORDS,
    MEMORY,
    PODS,
    as_quantity,
    describe_amount,
)

NAME: Final = "LargestHost"
TOO_LARGE: Final = (
    "{field}: {asked} {resource} is more than the largest hosting cluster, {host}, offers in all, which is {most}; "
    "write at most that, or add a larger hosting cluster"
)
SIZE_TOO_LARGE: Final = (
    "spec.size: size {size} needs {asked}, and the largest hosting cluster, {host}, offers {most} in all; write a "
    "smaller size, or add a larger hosting cluster"
)
_FIELDS: Final = {CPU: "spec.demand.cpu", MEMORY: "spec.demand.memory", PODS: "spec.demand.pods"}


class LargestHost(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        spec = spec_in(context, NAME)
        for resource in DIMENSIONS:
            largest = hosting_of(context.snapshot).largest.get(resource)
            asked = spec.need.amounts.get(resource, 0)
            if resource == HOSTED or largest is None or asked <= largest[0]:
                continue
            if spec.request.spec.demand is None:
                words = SIZE_TOO_LARGE.format(
                    size=spec.need.size,
                    asked=describe_amount(resource, asked),
                    host=largest[1],
                    most=describe_amount(resource, largest[0]),
                )
            else:
                words = TOO_LARGE.format(
                    field=_FIELDS.get(resource, "spec.demand"),
                    asked=as_quantity(resource, asked),
                    resource=IN_WORDS.get(resource, resource),
                    host=largest[1],
                    most=as_quantity(resource, largest[0]),
                )
            return unschedulable(words, plugin=NAME), None
        return OK, None

    def admits(self, context: Context, _row: int, /) -> Status:
        return self.pre_filter(context)[0]

    def reads(self, _context: Context, /) -> Reads:
        return Reads(shared=frozenset({LARGEST_HOST}), helps={LARGEST_HOST: Direction.UP})
