"""Run the plugins that commit decisions: permits and reservations at once, PreBind, Bind and PostBind as coroutines.

Only profiles with plugins from Reserve on have a committer; other decisions are written at once. Our own Bind is the
write session of the decision. A Bind plugin that takes it over must have written the PlacementDecisions when it
returns: they are read from the hub.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.controllers.leadership import Leadership
from fairway.controllers.placement.queue import Owner, PlacementQueue
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.placement.writer import DecisionWriter
from fairway.controllers.scheduling_loop import READ_BACK_BACKOFF, call_plugin
from fairway.engine.commit.instructions import ReadBack, RunBind, RunPostBind, RunPreBind
from fairway.engine.fault import Fault, FaultError
from fairway.engine.points import CommitContext
from fairway.engine.profile import Profile
from fairway.engine.status import OK, Code, Status
from fairway.fleet.instant import SECOND, to_micros
from fairway.kube import PLACEMENT_DECISIONS, Client, Clock, KubeError
from fairway.kube.fence import Lost, Unconfirmed
from fairway.observe.meters import Meters
from fairway.placement.commits import Failed, PlacementCommits, Rejected, Run, Step, Waiting
from fairway.placement.events import commit_event
from fairway.placement.reconcile_plan import ReconcilePlan, withhold

log: Final = logging.getLogger(__name__)

REFUSED: Final = (
    "a plugin refuses to reserve clusters that the hub shows as decided  placement=%s/%s plugin=%s %s"
)
NOT_READ_BACK: Final = "cannot read the decisions after Bind, retrying  placement=%s error=%s"
NOT_REPORTED: Final = "cannot report a failed commit; the next attempt does  placement=%s error=%s"
NOT_WRITTEN: Final = "returned Success, but the PlacementDecisions on the hub {difference}"
LACK: Final = "lack {clusters}"
STILL_HAVE: Final = "still have {clusters}"
WAITS: Final = "waiting for permits"

CarryOut = Callable[[WriteSession, Leadership], Awaitable[None]]


class CommitFailed(Exception):
    """A plugin from PreBind on failed: the plan was not written."""

    def __init__(self, step: Failed, faults: tuple[Fault, ...]) -> None:
        super().__init__(step.message)
        self.step, self.faults = step, faults


class DecisionBind:
    """The default Bind: the write session of the decision."""

    name = "DecisionBind"

    def __init__(self, carry_out: CarryOut) -> None:
        self._carry_out = carry_out
        self.sessions: dict[Owner, tuple[WriteSession, Leadership]] = {}

    async def bind(self, context: CommitContext, /) -> Status:
        await self._carry_out(*self.sessions[context.workload.namespace, context.workload.name])
        return OK


class Committer:
    """``carry_out`` writes the plan of a session. ``sleep`` waits between two attempts to read the hub."""

    sleep: Callable[[float], Awaitable[None]] = staticmethod(asyncio.sleep)

    def __init__(
        self,
        client: Client,
        *,
        profile: Profile,
        state: PlacementState,
        queue: PlacementQueue,
        writer: DecisionWriter,
        carry_out: CarryOut,
        meters: Meters,
        clock: Clock,
    ) -> None:
        self._client, self._state, self._queue = client, state, queue
        self._writer, self._meters, self._clock = writer, meters, clock
        self._binder = DecisionBind(carry_out)
        self._commits = PlacementCommits(
            profile,
            binder=self._binder,
            broadcast=queue.change,
            wake=lambda owners, trigger: queue.wake(owners, trigger=trigger),
        )

    # Terms

    def begin(self) -> None:
        """Reserve what the hub shows, before anything is decided."""
        refusals = self._commits.begin(self._state.placed(), now=to_micros(self._clock.wall()))
        for owner, found in refusals.items():
            for status in found:
                log.warning(REFUSED, *owner, status.plugin, status.message)

    def end(self) -> None:
        self._binder.sessions.clear()
        self._commits.end()

    # Decisions

    def review(self, plan: ReconcilePlan, *, now: datetime) -> tuple[ReconcilePlan, Step | None]:
        """Return the plan to write now, and the next step of its commit; None if it is written at once."""
        if plan.selection is None:
            return plan, None
        owner = plan.selection.workload.owner
        step = self._commits.review(plan.selection, shown=self._state.shown(owner), now=to_micros(now))
        faults = (*plan.faults, *self._commits.take_faults())
        if isinstance(step, Waiting | Rejected | Failed):
            plan = withhold(plan, step.message, now=now)
            if not (faults and isinstance(step, Failed)):
                self._report(plan, step)
        return replace(plan, faults=faults), step

    def forget(self, owner: Owner) -> None:
        """The placement is deleted."""
        self._commits.delete(owner)

    def suspend(self, owner: Owner) -> None:
        """The placement is not decided any more, and keeps its decision."""
        self._commits.abandon(owner)

    def settle(self, session: WriteSession, *, after: float | None) -> None:
        """Return a placement to the queue. Decide it again after so many seconds even if nothing changes."""
        match session.commit:
            case Rejected(rejections=rejections):
                self._queue.reject(session.owner, rejections, session.dependencies)
            case Failed(message=message):
                self._queue.fail(session.owner, message)
            case Waiting(deadline=deadline, depends=depends):
                left = max(0.0, (deadline - to_micros(self._clock.wall())) / SECOND)
                after = left if after is None else min(left, after)
                self._queue.settle(session.owner, session.dependencies.joined(depends), after=after)
            case _:
                self._queue.settle(session.owner, session.dependencies, after=after)

    def describe(self, owner: Owner) -> dict[str, Any]:
        """Return what a placement waits for, as part of the explanation of the queue."""
        waits = self._commits.waiting(owner)
        return {"state": WAITS, "trigger": "", "reasons": list(waits)} if waits else {}

    # Coroutines

    async def run(self, session: WriteSession, leadership: Leadership) -> tuple[Fault, ...]:
        """Run the commit of a session. Return faults of plugins. Raises what writing raises, and CommitFailed."""
        step = session.commit
        if not isinstance(step, Run):
            session.wrote_pages()
            return ()
        self._binder.sessions[session.owner] = (session, leadership)
        key, failure = step.key, None
        try:
            while isinstance(step, Run):
                match step:
                    case ReadBack():
                        decisions = await self._read(session)
                        step = self._commits.read_back(step, _names(decisions), now=self._now())
                    case RunBind() if step.plugin is self._binder:
                        try:
                            await step.plugin.bind(step.context)
                        except Lost:
                            raise
                        except Exception as error:
                            failure = error
                            step = self._commits.failed(step, error)
                        else:
                            step = self._commits.finished(step, OK, now=self._now())
                    case _:
                        step = await self._call(step, session, leadership)
        finally:
            self._commits.give_up(key)
            self._binder.sessions.pop(session.owner, None)
        faults = self._commits.take_faults()
        if failure is not None:
            raise failure
        if isinstance(step, Failed):
            raise CommitFailed(step, faults)
        return faults

    async def _call(
        self, run: RunPreBind | RunBind | RunPostBind, session: WriteSession, leadership: Leadership
    ) -> Step | None:
        """Call a plugin of the profile. If its Bind succeeded, the hub must show the decision."""
        try:
            result = await call_plugin(run, leadership)
            if isinstance(run, RunBind) and isinstance(result, Status) and result.code is Code.SUCCESS:
                await self._verify(run, session)
        except Lost:
            raise
        except Exception as error:
            return self._commits.failed(run, error)
        return self._commits.finished(run, result, now=self._now())

    async def _verify(self, run: RunBind, session: WriteSession) -> None:
        """Raises FaultError."""
        decisions = await self._read(session)
        shown, wanted = _names(decisions), session.plan.selected
        parts = ((wanted - shown, LACK), (shown - wanted, STILL_HAVE))
        found = [words.format(clusters=", ".join(sorted(names))) for names, words in parts if names]
        if found:
            self._meters.plugin_fault(plugin=run.plugin.name, point="Bind")
            words = NOT_WRITTEN.format(difference=" and ".join(found))
            raise FaultError(Fault(run.plugin.name, "Bind", words))
        session.adopt(decisions)

    async def _read(self, session: WriteSession) -> list[PlacementDecision]:
        """Read the decisions of a placement from the hub."""
        namespace, name = session.owner
        failures = 0
        while True:
            try:
                found = await self._client.list(
                    PLACEMENT_DECISIONS, namespace=namespace, labels=f"{PLACEMENT_LABEL}={name}"
                )
            except Lost:
                raise
            except Exception as error:  # as long as this is unknown, nothing can be undone
                log.warning(NOT_READ_BACK, f"{namespace}/{name}", error)
                await self.sleep(READ_BACK_BACKOFF.delay(failures))
                failures += 1
            else:
                return list(found.items)

    async def report_failure(
        self, session: WriteSession, error: CommitFailed, leadership: Leadership
    ) -> None:
        """Report why a decision was not written, and retry it after its back-off."""
        plan = replace(withhold(session.plan, str(error), now=self._clock.wall()), faults=error.faults)
        if error.faults:
            self._writer.report_faults(plan)
        else:
            self._report(plan, error.step)
        try:
            if plan.status is not None and session.owner in self._state.records:
                with self._state.session(plan) as report:
                    await self._writer.report(report, leadership, droppable=False)
        except (KubeError, Unconfirmed) as reason:
            log.debug(NOT_REPORTED, "/".join(session.owner), reason)
        finally:
            self._queue.fail(session.owner, str(error))

    def _report(self, plan: ReconcilePlan, step: Step) -> None:
        event = commit_event(step)
        if event is not None:
            self._writer.report_event(plan.placement, event)

    def _now(self) -> int:
        return to_micros(self._clock.wall())


def _names(decisions: list[PlacementDecision]) -> set[str]:
    return {each.clusterName for page in decisions for each in page.status.decisions}
