"""QuietHours: keeps requests waiting during the quiet hours of their policy."""

from fairway.engine.points import Context, Reads, Timeless
from fairway.engine.status import OK, Status, unschedulable
from fairway.hosts.bitmap import Bits
from fairway.hosts.instant import from_micros
from fairway.workloads.hosting.fleet.columns import QUIET_HOURS
from fairway.workloads.hosting.plugins.row import spec_in
from kubewire.api.meta import format_time

NAME = "QuietHours"
QUIET = "quiet hours of policy {policy} until {end}"


class QuietHours(Timeless):
    name = NAME

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        policy = spec_in(context, NAME).policy
        end = policy.quiet_until(context.now)
        if end is None:
            return OK, None
        words = QUIET.format(policy=policy.name, end=format_time(from_micros(end)))
        return unschedulable(words, plugin=NAME), None

    def admits(self, context: Context, _row: int, /) -> Status:
        return self.pre_filter(context)[0]

    def reads(self, context: Context, /) -> Reads:
        return Reads(shared=frozenset({(QUIET_HOURS, spec_in(context, NAME).policy.name)}))
