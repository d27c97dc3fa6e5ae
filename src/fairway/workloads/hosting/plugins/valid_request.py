"""ValidRequest: refuses requests whose size, policy or Placement does not exist."""

from fairway.engine.points import Context, Timeless
from fairway.engine.status import OK, Status, misconfigured
from fairway.hosts.bitmap import Bits
from fairway.workloads.hosting.plugins.row import spec_in

NAME = "ValidRequest"


class ValidRequest(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        problem = spec_in(context, NAME).problem
        return (misconfigured(problem, plugin=NAME) if problem else OK), None

    def admits(self, context: Context, _row: int, /) -> Status:
        return self.pre_filter(context)[0]
