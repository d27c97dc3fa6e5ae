"""The events of a plan's steps, with OCM's reasons and messages."""

from dataclasses import dataclass

from fairway.engine.status import Code
from fairway.workloads.placement import commits
from fairway.workloads.placement.commits import Failed, Rejected, Waiting
from fairway.workloads.placement.plugins.stability import Stay, waits
from fairway.workloads.placement.reconcile_plan import ReconcilePlan
from fairway.workloads.placement.steps import Create, Delete, Fill, Relabel, Step
from fairway.workloads.placement.unscored import UNSCORED
from kubewire.api.meta import find_condition

NORMAL = "Normal"
WARNING = "Warning"
PLUGIN_FAULT = "PluginFault"
KEPT = "{fault}; the last decision is kept"
SKIPPED = "{fault}; the decision was made without the plugin"
WRITTEN = "{fault}; the decision is written"
WAITING_FOR_PERMIT = "WaitingForPermit"
COMMIT_REJECTED = "CommitRejected"
COMMIT_FAILED = "CommitFailed"
MOVE_SUPPRESSED = "MoveSuppressed"
_AFTERWARDS = ("PostBind", "Unreserve")
"""Points after which the decision is written already."""


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    reason: str
    action: str
    message: str
    in_place: bool = False
    """Whether it replaces the last event with this reason instead of adding one."""


def events_of(step: Step, plan: ReconcilePlan) -> tuple[Event, ...]:
    """Return the events to record once the step is done."""
    match step:
        case Create():
            return (_decision_event("Create", plan, step.page.name),)
        case Delete():
            return (_decision_event("Delete", plan, step.page),)
        case Fill(temporary=False, changed=True):
            scores = (_score_event(plan.scores),) if plan.scores else ()
            return (_update_event(plan, step.page), *scores)
        case Fill(temporary=False, rescored=True) if plan.scores:
            return (_score_event(plan.scores, in_place=True),)
        case Fill() | Relabel():
            return ()


def fault_events(plan: ReconcilePlan) -> tuple[Event, ...]:
    """Return the events about faults of third-party plugins."""
    effect = KEPT if plan.pages is None else SKIPPED
    return tuple(
        Event(
            WARNING,
            PLUGIN_FAULT,
            "Schedule",
            (WRITTEN if fault.point in _AFTERWARDS else effect).format(fault=fault),
        )
        for fault in plan.faults
    )


def status_event(plan: ReconcilePlan) -> Event | None:
    """Return the event about scores that no candidate has, once the status names them for the first time."""
    if plan.status is None:
        return None
    condition = find_condition(plan.status.conditions, UNSCORED)
    before = find_condition(plan.placement.status.conditions, UNSCORED)
    if condition is None or (before is not None and before.message == condition.message):
        return None
    return Event(WARNING, condition.reason, "Schedule", condition.message)


def suppressed_event(stay: Stay) -> Event:
    """Return the event about better clusters that wait."""
    clusters = sorted(stay.suppressed)
    more = f" and {len(clusters) - 1} more" if len(clusters) > 1 else ""
    return Event(NORMAL, MOVE_SUPPRESSED, "Schedule", f"{clusters[0]}{more}: {waits(stay)}")


def commit_event(step: commits.Step | None) -> Event | None:
    """Return the event about a commit that does not proceed."""
    match step:
        case Waiting(new=True):
            return Event(NORMAL, WAITING_FOR_PERMIT, "Commit", step.message)
        case Rejected():
            return Event(WARNING, COMMIT_REJECTED, "Commit", step.message)
        case Failed():
            return Event(WARNING, COMMIT_FAILED, "Commit", step.message)
        case _:
            return None


def _update_event(plan: ReconcilePlan, page: str) -> Event:
    """Include the warning of the cycle, if any."""
    status = plan.outcome
    if status.code is not Code.WARNING:
        return _decision_event("Update", plan, page)
    more = f": {status.message} in plugin {status.plugin}"
    return _decision_event("Update", plan, page, kind=WARNING, more=more)


def _score_event(text: str, *, in_place: bool = False) -> Event:
    return Event(NORMAL, "ScoreUpdate", "ScoreUpdated", text, in_place)


def _decision_event(
    verb: str, plan: ReconcilePlan, page: str, *, kind: str = NORMAL, more: str = ""
) -> Event:
    meta = plan.placement.metadata
    text = (
        f"Decision {page} is {verb.lower()}d with placement {meta.name} in namespace {meta.namespace}{more}"
    )
    return Event(kind, f"Decision{verb}", f"Decision{verb}d", text)
