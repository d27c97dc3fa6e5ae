"""Which plugins turned a workload away in a scheduling cycle, for the queue."""

from collections.abc import Iterator
from typing import cast

from fairway.engine.outcome import Outcome
from fairway.engine.points import Context, Plugin, Reader, Reads, points_of
from fairway.engine.queue.entry import Rejection
from fairway.engine.queue.plugins import EVERYTHING
from fairway.engine.status import Code
from fairway.fleet.bitmap import count

HOSTS_REJECTED = "rejects {count} of {candidates} hosts"
NO_HOSTS = "there are no hosts"


def rejections_of(outcome: Outcome) -> tuple[Rejection, ...]:
    """Return the plugins that rejected hosts, in the order of the profile; none if the cycle ended with an error.

    A plugin counts as rejecting only the hosts that earlier plugins passed: for others, those must pass them first.
    """
    status = outcome.status
    if status.code is Code.MISCONFIGURED:
        # Only its author can fix it.
        return (
            Rejection(plugin=status.plugin or outcome.profile.name, reads=Reads(), reasons=status.reasons),
        )
    if status.aborts:
        return ()
    empty = Rejection(plugin=outcome.profile.name, reads=EVERYTHING, reasons=(NO_HOSTS,))
    return tuple(_rejections(outcome)) or (empty,)


def _rejections(outcome: Outcome) -> Iterator[Rejection]:
    details, context, profile = outcome.details, outcome.context, outcome.profile
    live, eligible = count(outcome.snapshot.live), count(details.eligible)
    if eligible < live:
        # PreFilter plugins return sets that are intersected, so each of them may have removed a host.
        for plugin in profile.pre_filters:
            yield Rejection(
                plugin=plugin.name, reads=_reads(plugin, context), reasons=_reason(live, eligible)
            )
    before = eligible
    for stage, each in zip(details.stages, profile.filters, strict=True):
        after = count(stage.survivors)
        if after < before:
            yield Rejection(plugin=each.name, reads=_reads(each, context), reasons=_reason(before, after))
        before = after


def _reason(before: int, after: int) -> tuple[str, ...]:
    return (HOSTS_REJECTED.format(count=before - after, candidates=before),)


def _reads(plugin: Plugin, context: Context) -> Reads:
    """Return what a plugin reads; everything if it does not declare that, or fails to: it must not sleep forever."""
    if "Reader" not in points_of(type(plugin)):
        return EVERYTHING
    try:
        reads: object = cast("Reader", plugin).reads(context)
    except Exception:
        return EVERYTHING
    return reads if isinstance(reads, Reads) else EVERYTHING
