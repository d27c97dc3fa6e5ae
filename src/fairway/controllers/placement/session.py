"""The writes of one plan, from the first request to the last response.

    session = state.session(plan)
    ...                              # requests; each response goes to the session
    session.complete()               # or close(), after an error

From the first line on the plan counts as written, so that placements decided meanwhile take it into account. At the end
the hub's state counts again, whatever became of the writes. Only ``complete`` settles the placement: the hub has all of
the plan.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement
from fairway.controllers.placement.record import InflightWrite, PlacementRecord
from fairway.controllers.runtime.decision_history import DecidedRecord
from fairway.engine.dependencies import Dependencies
from fairway.hosts.clusters.decisions import Holding
from fairway.workloads.placement.commits import Step as CommitStep
from fairway.workloads.placement.reconcile_plan import ReconcilePlan
from fairway.workloads.placement.workload import PlacementWorkload

if TYPE_CHECKING:
    from fairway.controllers.placement.state import PlacementState

NOT_WRITTEN: Final = "the write failed or was superseded; the hub may have a part of the decision"


class WriteSession:
    """Made by ``PlacementState.session``."""

    def __init__(self, state: "PlacementState", record: PlacementRecord, plan: ReconcilePlan) -> None:
        self.plan = plan
        self.commit: CommitStep | None = None
        """The next step of the plugins that commit the plan; None if none does."""
        self._state, self._record = state, record
        meta = plan.placement.metadata
        self.owner = (meta.namespace, meta.name)
        self._writing = InflightWrite()
        self._decided: DecidedRecord | None = None
        if plan.record_id:
            self._decided, record.decided = record.decided, None
        self._open = True
        if not plan.empty:
            self._begin()

    def complete(self) -> None:
        """End the session: the hub has all of the plan."""
        self.close()
        self._settle()

    def close(self) -> None:
        """End the session, whatever became of the writes: the hub's state counts again."""
        if self._open:
            self._open = False
            if self._decided is not None:
                self._decided.abandoned(NOT_WRITTEN)
            if not self.plan.empty:
                self._end()

    @property
    def workload(self) -> PlacementWorkload:
        return self._record.workload

    @property
    def dependencies(self) -> Dependencies:
        return self._record.dependencies

    def status_waits(self, now: float) -> float:
        """Return for how many seconds the placement has had no complete status, by the monotonic clock."""
        if self._record.waits_for_status is None:
            self._record.waits_for_status = now
        return now - self._record.waits_for_status

    def decision(self, name: str) -> PlacementDecision | None:
        """Return a page as of the last response, which may be of an earlier step."""
        return self._state.decision(self.owner[0], name)

    def wrote(self, decision: PlacementDecision) -> None:
        """The hub's response to our write."""
        self._state.wrote(decision)

    def removed(self, decision: PlacementDecision) -> None:
        """The hub has deleted it on our request."""
        self._state.removed(decision)

    def adopt(self, decisions: Iterable[PlacementDecision]) -> None:
        """A plugin wrote these pages on our behalf, perhaps in several steps."""
        for decision in decisions:
            self.wrote(decision)
        self._writing.answered |= self._writing.observed
        self.wrote_pages()

    def wrote_pages(self) -> None:
        """The hub has all pages of the plan; only the status is left."""
        record = self._record
        if self._decided is not None:
            self._decided.written()
            self._decided = None
        if self.plan.pages is not None:
            record.repairing = False
        if self.plan.recorded is not None:
            record.recorded = self.plan.recorded

    def wrote_placement(self, placement: Placement) -> None:
        self._state.wrote_placement(placement)

    def _begin(self) -> None:
        record, plan, namespace = self._record, self.plan, self.owner[0]
        record.writing = self._writing
        if plan.pages is None:
            return
        # Until the end, pages may have reasons of different cycles.
        record.settled = None
        record.repairing = True
        fleet, names = self._state.fleet, self._writing.pages
        with fleet.selecting(self.owner, record.workload.trust.debits):
            for page in plan.pages:
                names.add(page.name)
                holding = Holding.of(self.owner, page.decisions)
                fleet.hold(namespace=namespace, name=page.name, holding=holding)
            for name in self._state.decisions_of(self.owner):
                if name not in names:
                    names.add(name)
                    fleet.hold(namespace=namespace, name=name, holding=None)

    def _end(self) -> None:
        fleet, namespace = self._state.fleet, self.owner[0]
        self._record.writing = None
        for name in self._writing.pages:
            actual = self.decision(name)
            if actual is None:
                fleet.delete_decision(namespace, name)
            else:
                fleet.upsert_decision(actual)
        if self._writing.externally_modified:
            self._state.mark_dirty(self.owner, externally_modified=True)

    def _settle(self) -> None:
        """The hub has all of the plan."""
        self._record.waits_for_status = None
        self._record.until = self.plan.until
        if self.plan.pages is None:
            return
        if not self._record.externally_modified:
            self._record.settled = self.plan.selected
