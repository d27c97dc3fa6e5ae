"""The writes of one plan, from the first request to the last response.

    with state.session(plan) as session:
        ...                          # requests; each response goes to the session

Within the block the plan counts as written, so that placements decided meanwhile take it into account. At its end the
hub's state counts again, whatever became of the writes. Only a block that ends without an exception settles the
placement: the hub has all of the plan.
"""

from types import TracebackType
from typing import TYPE_CHECKING

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement
from fairway.clusters.decisions import Holding
from fairway.controllers.placement.record import InflightWrite, PlacementRecord
from fairway.placement.reconcile_plan import ReconcilePlan

if TYPE_CHECKING:
    from fairway.controllers.placement.state import PlacementState


class WriteSession:
    """Made by ``PlacementState.session``."""

    def __init__(self, state: "PlacementState", record: PlacementRecord, plan: ReconcilePlan) -> None:
        self.plan = plan
        self._state, self._record = state, record
        meta = plan.placement.metadata
        self._owner = (meta.namespace, meta.name)
        self._writing = InflightWrite()

    def __enter__(self) -> "WriteSession":
        if not self.plan.empty:
            self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.plan.empty:
            self._end()
        if error is None:
            self._settle()

    def decision(self, name: str) -> PlacementDecision | None:
        """Return a page as of the last response, which may be of an earlier step."""
        return self._state.decision(self._owner[0], name)

    def wrote(self, decision: PlacementDecision) -> None:
        """The hub's response to our write."""
        self._state.wrote(decision)

    def removed(self, decision: PlacementDecision) -> None:
        """The hub has deleted it on our request."""
        self._state.removed(decision)

    def wrote_placement(self, placement: Placement) -> None:
        self._state.wrote_placement(placement)

    def _begin(self) -> None:
        record, plan, namespace = self._record, self.plan, self._owner[0]
        record.writing = self._writing
        if plan.pages is None:
            return
        # Until the end, pages may have reasons of different cycles.
        record.settled = None
        record.repairing = True
        fleet, names = self._state.fleet, self._writing.pages
        for page in plan.pages:
            names.add(page.name)
            holding = Holding(owner=self._owner, clusters=page.clusters)
            fleet.hold(namespace=namespace, name=page.name, holding=holding)
        for name in self._state.own(self._owner):
            if name not in names:
                names.add(name)
                fleet.hold(namespace=namespace, name=name, holding=None)

    def _end(self) -> None:
        fleet, namespace = self._state.fleet, self._owner[0]
        self._record.writing = None
        for name in self._writing.pages:
            actual = self.decision(name)
            if actual is None:
                fleet.delete_decision(namespace, name)
            else:
                fleet.upsert_decision(actual)
        if self._writing.externally_modified:
            self._state.disturb(self._owner, externally_modified=True)

    def _settle(self) -> None:
        """The hub has all of the plan."""
        if self.plan.pages is None:
            return
        self._record.repairing = False
        if not self._record.externally_modified:
            self._record.settled = self.plan.selected
