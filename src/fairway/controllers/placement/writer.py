"""Carry out a plan: one request after the other, each for the version it was planned for.

Every write contains the uid and the resource version it is based on. So the hub refuses a write from an old view, and
one that is sent twice.
"""

from typing import Any, Final

import msgspec
from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement, PlacementStatus
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.runtime.reconciler import Outdated
from fairway.controllers.runtime.write_limiter import Lane, WriteLimiter
from fairway.controllers.runtime.writer import Writer
from fairway.observe.meters import Meters
from fairway.workloads.placement.events import Event, events_of, fault_events, status_event
from fairway.workloads.placement.reconcile_plan import DECISION_RECORD, ReconcilePlan, decision_of, owner_of
from fairway.workloads.placement.steps import (
    Create,
    Delete,
    Fill,
    Relabel,
    Step,
    labelled,
    owned,
    owners_of,
)
from kubewire.api.event import ObjectReference
from kubewire.api.meta import format_time
from kubewire.client import Client, NotFound, Recorder
from kubewire.client.events import reference_to

NAME: Final = "placement"


class PlacementDeleted(Outdated):
    """A decision was deleted meanwhile."""

    def __init__(self, name: str) -> None:
        super().__init__(f"decision {name} was deleted")


class PlacementTerminating(Outdated):
    """The placement was deleted, or is being deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"placement {name} is being deleted")


def lane_of(step: Step) -> Lane:
    """Pages that only get other scores can wait."""
    return Lane.REFRESH if isinstance(step, Fill) and not step.changed else Lane.DECISION


class DecisionWriter:
    def __init__(
        self, client: Client, *, recorder: Recorder, meters: Meters, limiter: WriteLimiter | None = None
    ) -> None:
        self._client, self._recorder, self._meters = client, recorder, meters
        self._hub = Writer(client, meters=meters, controller=NAME, field_manager=None, limiter=limiter)

    def move_to_front(self, owner: Owner) -> None:
        """The placement is to be decided again: drop its status, or write it at once."""
        self._hub.move_to_front(owner)

    async def carry_out(self, session: WriteSession) -> None:
        """Raises KubeErrors and Lost; writes until then are recorded in the session."""
        async with self._hub.batch():
            for step in session.plan.steps:
                async with self._hub.turn(lane_of(step), owner=session.owner):
                    await self._take(step, session)
        session.wrote_pages()

    async def report(self, session: WriteSession, *, droppable: bool) -> None:
        """Write the status, after the decisions of all placements. If it is ``droppable``, raises Superseded when the
        placement is to be decided again before its turn."""
        status = session.plan.status
        if status is None:
            return
        turn = self._hub.turn(Lane.REFRESH, owner=session.owner, droppable=droppable)
        async with turn, self._hub.batch():
            await self._report(status, session)

    async def _take(self, step: Step, session: WriteSession) -> None:
        match step:
            case Create():
                await self._create(step, session)
            case Fill():
                await self._fill(step, session)
            case Relabel():
                await self._relabel(step, session)
            case Delete():
                await self._delete(step, session)

    async def _create(self, step: Create, session: WriteSession) -> None:
        plan, placement = session.plan, session.plan.placement.metadata
        body = decision_of(step.page, plan.placement, record_id=plan.record_id)
        made = await self._hub.create(PLACEMENT_DECISIONS, body, namespace=placement.namespace)
        session.wrote(made)
        self._meters.decision("created")
        self._record(step, plan, made)

    async def _fill(self, step: Fill, session: WriteSession) -> None:
        plan = session.plan
        old = _known(session, step.page)
        body = {"status": {"decisions": msgspec.to_builtins(step.decisions)}}
        new = await self._hub.patch(PLACEMENT_DECISIONS, old.metadata, body, subresource="status")
        session.wrote(new)
        if not step.temporary:
            self._meters.decision("updated" if step.changed else "refreshed")
        self._record(step, plan, new)

    async def _relabel(self, step: Relabel, session: WriteSession) -> None:
        plan = session.plan
        old = _known(session, step.page.name)
        if not owned(old, owner_of(plan.placement)):
            await self._ensure_staying(plan.placement)
        labels: dict[str, str | None] = dict.fromkeys(old.metadata.labels)
        labels.update(step.page.labels)
        owners = msgspec.to_builtins(owners_of(old, owner_of(plan.placement)))
        body: dict[str, Any] = {"metadata": {"labels": labels, "ownerReferences": owners}}
        if plan.record_id:
            body["metadata"]["annotations"] = {DECISION_RECORD: plan.record_id}
        new = await self._hub.patch(PLACEMENT_DECISIONS, old.metadata, body)
        session.wrote(new)
        self._meters.decision("relabelled")

    async def _delete(self, step: Delete, session: WriteSession) -> None:
        plan, placement = session.plan, session.plan.placement.metadata
        old = _known(session, step.page)
        if labelled(old) != placement.name:
            return  # the real owner has taken it back meanwhile
        try:
            await self._hub.delete(PLACEMENT_DECISIONS, old.metadata)
        except NotFound:
            return
        session.removed(old)
        self._meters.decision("deleted")
        self._record(step, plan, old)

    async def _report(self, status: PlacementStatus, session: WriteSession) -> None:
        seen, body = session.plan.placement.metadata, {"status": _status(status)}
        try:
            new = await self._hub.patch(PLACEMENTS, seen, body, subresource="status")
        except NotFound:
            return  # deleted meanwhile; its decisions are deleted with it
        session.wrote_placement(new)
        if (event := status_event(session.plan)) is not None:
            self.report_event(session.plan.placement, event)

    async def _ensure_staying(self, placement: Placement) -> None:
        """Get the placement from the hub before a decision gets an owner.

        A user who deletes a placement with orphaned decisions wants to keep them. The watch of decisions may deliver
        the missing owner before the watch of placements delivers the deletion; with a new owner the decisions would be
        deleted.
        """
        meta = placement.metadata
        try:
            current = await self._client.get(PLACEMENTS, meta.name, namespace=meta.namespace)
        except NotFound:
            raise PlacementTerminating(meta.name) from None
        if current.metadata.uid != meta.uid or current.metadata.deletionTimestamp is not None:
            raise PlacementTerminating(meta.name)

    def _record(self, step: Step, plan: ReconcilePlan, decision: PlacementDecision) -> None:
        for event in events_of(step, plan):
            self._recorder.event(
                _reference(plan.placement),
                reason=event.reason,
                message=event.message,
                type_=event.type,
                action=event.action,
                related=_reference(decision),
                in_place=event.in_place,
            )

    def report_faults(self, plan: ReconcilePlan) -> None:
        """Record events about faults of plugins."""
        for event in fault_events(plan):
            self.report_event(plan.placement, event)

    def report_event(self, placement: Placement, event: Event) -> None:
        self._recorder.event(
            _reference(placement),
            reason=event.reason,
            message=event.message,
            type_=event.type,
            action=event.action,
        )


def _known(session: WriteSession, name: str) -> PlacementDecision:
    decision = session.decision(name)
    if decision is None:
        raise PlacementDeleted(name)
    return decision


def _reference(thing: Placement | PlacementDecision) -> ObjectReference:
    """Without the resource version: the same message about another version is the same event."""
    return structs.replace(reference_to(thing), resourceVersion="")


def _status(status: PlacementStatus) -> dict[str, Any]:
    """Include defaults: a merge patch does not change fields that it does not name."""
    return {
        "numberOfSelectedClusters": status.numberOfSelectedClusters,
        "decisionGroups": [msgspec.to_builtins(group) for group in status.decisionGroups],
        "conditions": [msgspec.to_builtins(condition) for condition in status.conditions],
        "lastScoreUpdateTime": None
        if status.lastScoreUpdateTime is None
        else format_time(status.lastScoreUpdateTime),
    }
