"""Which plugins turned a workload away in a scheduling cycle, for the queue."""

from collections.abc import Iterator

from fairway.engine.forms import FilterCalls
from fairway.engine.outcome import Outcome
from fairway.engine.points import Context, Reader, Reads
from fairway.engine.queue.entry import Rejection
from fairway.engine.queue.plugins import EVERYTHING
from fairway.engine.status import Code
from fairway.hosts.bitmap import Bits, count, rows_of

HOSTS_REJECTED = "rejects {count} of {candidates} hosts"
NO_HOSTS = "there are no hosts"
TOO_FEW = "{count} hosts are feasible, {wanted} are wanted"
NOT_CHOSEN = "chose {count} of {feasible} feasible hosts, {wanted} are wanted"


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
    if status.rejects:
        blamed = next(
            (calls for calls in outcome.profile.pre_filters if calls.plugin.name == status.plugin), None
        )
        reads = EVERYTHING if blamed is None else _reads(blamed.reader, outcome.context)
        return (Rejection(plugin=status.plugin, reads=reads, reasons=status.reasons),)
    rejections = tuple(_rejections(outcome))
    if rejections:
        return rejections
    feasible = len(outcome.details.rows)
    reason = TOO_FEW.format(count=feasible, wanted=outcome.context.workload.wanted) if feasible else NO_HOSTS
    return (Rejection(plugin=outcome.profile.name, reads=EVERYTHING, reasons=(reason,)),)


def _rejections(outcome: Outcome) -> Iterator[Rejection]:
    details, context, plugins = outcome.details, outcome.context, outcome.plugins
    live, eligible = count(outcome.snapshot.live), count(details.eligible)
    if eligible < live:
        # PreFilter plugins return sets that are intersected, so each of them may have removed a host.
        for calls in plugins.pre_filters:
            yield Rejection(
                plugin=calls.plugin.name, reads=_reads(calls.reader, context), reasons=_reason(live, eligible)
            )
    # A filter sees only what earlier ones passed. To blame it for other hosts would wake the workload for changes
    # after which an earlier filter still rejects them.
    before = details.eligible
    for stage, filtering in zip(details.stages, plugins.filters, strict=True):
        left, passed = count(before), count(stage.survivors)
        if passed < left:
            yield Rejection(
                plugin=filtering.plugin.name,
                reads=_reads(filtering.reader, context),
                reasons=_reason(left, passed),
                pending=_is_pending(filtering, context, before & ~stage.survivors),
            )
        before = stage.survivors
    chooser, feasible = outcome.chooser, len(details.rows)
    if chooser is not None and not chooser.by_rank and feasible and outcome.unscheduled:
        # A choice that is not by rank may depend on any column of the feasible hosts.
        reason = NOT_CHOSEN.format(
            count=len(outcome.selected_rows), feasible=feasible, wanted=context.workload.wanted
        )
        yield Rejection(plugin=chooser.plugin.name, reads=EVERYTHING, reasons=(reason,))


def _is_pending(calls: FilterCalls, context: Context, rejected: Bits) -> bool:
    """Return whether an external action must complete for one of the hosts; the whole-fleet form cannot say so."""
    return calls.fleet is None and any(
        calls.plugin.filter(context, row).code is Code.PENDING for row in rows_of(rejected).tolist()
    )


def _reason(before: int, after: int) -> tuple[str, ...]:
    return (HOSTS_REJECTED.format(count=before - after, candidates=before),)


def _reads(reader: Reader | None, context: Context) -> Reads:
    """Return what a plugin reads; everything if it does not declare that, or fails to: it must not sleep forever."""
    if reader is None:
        return EVERYTHING
    try:
        reads: object = reader.reads(context)
    except Exception:
        return EVERYTHING
    return reads if isinstance(reads, Reads) else EVERYTHING
