"""Schedule placements for the loop of a term: decide the next one, and bind its decision.

A placement is a workload whose Bind repeats. It never leaves the queue: it is settled, until something changes that its
decision depends on. The loop (``runtime.scheduling_loop``) carries out the instructions of an attempt one by one:

    pop ──▶ decide ──▶ settled: the hub has the decision already
              │  ▲
              │  └── Fetch: the answer of a plugin in a process of its own
              ▼
            PreBind ──▶ Bind: the pages ──▶ PostBind ──▶ the status ──▶ settled, rejected, or failed
                         └── ReadBack: what a failed or foreign Bind has written

Profiles without plugins from Reserve on have only the pages and the status. The status is a step of its own, because it
waits for the pages of all placements, and is dropped if the placement is decided again before its turn.
"""

import logging
import random
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Any, Final

from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import PLACEMENT_DECISIONS
from fairway.controllers.placement.binding import ATTEMPT, Attempt, DecisionBind, StatusReport
from fairway.controllers.placement.questions import Questions
from fairway.controllers.placement.queue import Owner, PlacementQueue
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.placement.settled import delay_until
from fairway.controllers.placement.slow_lane import Allowance, Budget, Slice, SlowLane
from fairway.controllers.placement.state import PlacementState
from fairway.controllers.placement.writer import NAME, DecisionWriter
from fairway.controllers.runtime.reconciler import log_failure
from fairway.controllers.runtime.scheduling_loop import RunPlugin
from fairway.controllers.runtime.write_limiter import Superseded
from fairway.engine.commit.instructions import ForCaller, ReadBack, RunBind, RunPostBind
from fairway.engine.dependencies import Dependencies
from fairway.engine.fault import Fault, FaultError
from fairway.engine.pending import PendingAnswer
from fairway.engine.points import NEVER_CHANGES, CommitContext
from fairway.engine.profile import Profile
from fairway.engine.status import Code, Status
from fairway.engine.workload import WorkloadKey
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.observe.meters import Meters
from fairway.observe.traces import Span, span
from fairway.workloads.placement.commits import (
    Failed,
    PlacementCommits,
    Rejected,
    Run,
    Step,
    Waiting,
    is_committed,
)
from fairway.workloads.placement.events import commit_event, suppressed_event
from fairway.workloads.placement.plugins.work_budget import Paused
from fairway.workloads.placement.reconcile_plan import ReconcilePlan, withhold
from kubewire.client import Client, Clock

log: Final = logging.getLogger(__name__)

STATUS_SECONDS: Final = 2.0
"""A status that was superseded for this time is written before the placement is decided again."""
PLUGIN_FAULTS: Final = "fairway.plugin_faults"
"""Attribute of spans."""
REFUSED: Final = (
    "a plugin refuses to reserve clusters that the hub shows as decided  placement=%s/%s plugin=%s %s"
)
NOT_REPORTED: Final = "cannot report a failed commit; the next attempt does  placement=%s error=%s"
NOT_WRITTEN: Final = "returned Success, but the PlacementDecisions on the hub {difference}"
LACK: Final = "lack {clusters}"
STILL_HAVE: Final = "still have {clusters}"
WAITS_FOR_PERMITS: Final = "waiting for permits"


class PlacementScheduler:
    """``resync``: seconds after which a placement is decided again even without changes; 0 for never."""

    def __init__(
        self,
        client: Client,
        *,
        profile: Profile,
        state: PlacementState,
        queue: PlacementQueue,
        writer: DecisionWriter,
        meters: Meters,
        resync: float,
        clock: Clock,
    ) -> None:
        self._client, self._state, self._queue = client, state, queue
        self._writer, self._meters, self._clock, self._resync = writer, meters, clock, resync
        self._attempts: dict[Owner, Attempt] = {}
        self._tokens = count(1)
        self._term: Micros | None = None
        """Start of this process's term."""
        self._binder = DecisionBind(writer)
        self._status = StatusReport(writer)
        self._commits: PlacementCommits | None = None
        if is_committed(profile):
            self._commits = PlacementCommits(
                profile,
                binder=self._binder,
                broadcast=queue.change,
                wake=lambda owners, trigger: queue.wake(owners, trigger=trigger),
            )
        self._allowance = Allowance(clock)
        self.budget = Budget(clock, clusters=lambda: len(state.fleet))
        self.slow = SlowLane(
            advance=self._compute_slice,
            done=queue.release,
            clock=clock,
            budget=self.budget,
            is_idle=lambda: not queue.active and not self._attempts,
            waits=meters.expressions_waiting,
        )
        self._questions = Questions(
            snapshot=state.fleet.snapshot, decide=self._try, tokens=self._tokens, clock=clock
        )

    # Terms

    def begin(self) -> None:
        """Begin a term. Clusters that the hub shows are reserved before anything is decided."""
        self._term = self._queue.now()
        if self._commits is None:
            return
        refusals = self._commits.begin(self._state.placed(), now=self._now())
        for owner, statuses in refusals.items():
            for status in statuses:
                log.warning(REFUSED, *owner, status.plugin, status.message)

    def end(self) -> None:
        """End the term, in which nothing runs any more: give up what it began."""
        self._term = None
        if self._commits is not None:
            self._commits.end()
        for owner, attempt in self._attempts.items():
            attempt.session.close()
            self._queue.release(owner)
        self._attempts.clear()
        for owner in (*self._questions.drain(), *self.slow.drain()):
            self._queue.release(owner)

    @property
    def leads(self) -> bool:
        return self._term is not None

    def forget(self, owner: Owner) -> None:
        """The placement is deleted. A write that runs already ends by itself."""
        if self._commits is not None:
            self._commits.delete(owner)
        if self.slow.discard(owner) or self._questions.discard(owner):
            self._queue.release(owner)

    def describe(self, owner: Owner) -> dict[str, Any]:
        """Return what a placement waits for, as part of the explanation of the queue."""
        if reason := self._questions.describe(owner) or self.slow.describe(owner):
            return {"reasons": [reason]}
        permits = () if self._commits is None else self._commits.waiting(owner)
        return {"state": WAITS_FOR_PERMITS, "trigger": "", "reasons": list(permits)} if permits else {}

    # For the loop

    def advance(self, *, now: Micros) -> list[ForCaller]:
        """The queue ends its waits when it is asked for the next placement."""
        del now
        return []

    def next_deadline(self) -> Micros | None:
        return self._queue.next_deadline()

    def schedule_one(self, _snapshot: None, /, *, now: Micros) -> tuple[None, list[ForCaller]] | None:
        owner = self._queue.pop(now=now)
        return None if owner is None else (None, self.attempt(owner))

    def attempt(self, owner: Owner) -> list[ForCaller]:
        """Decide a placement that was taken from the queue. Return how to bind the decision; nothing if the placement
        is in the queue again, or in the slow lane."""
        try:
            return self._try(owner, None, self._clock.wall())
        except PendingAnswer as pending:
            return self._questions.ask(owner, pending.plugin)

    def finished(self, key: WorkloadKey, token: int, result: object, *, now: Micros) -> list[ForCaller]:
        del now
        attempt = self._running(key, token)
        if attempt is None:
            return []
        if attempt.run is None:
            return self._end(attempt) if attempt.is_written else self._written(attempt)
        foreign = isinstance(attempt.run, RunBind) and attempt.run.plugin is not self._binder
        if foreign and isinstance(result, Status) and result.code is Code.SUCCESS:
            attempt.bound = result
            return [ReadBack(key, self._next_token(attempt))]
        return self._after(attempt, self._committed.finished(attempt.run, result, now=self._now()))

    def failed(self, key: WorkloadKey, token: int, error: Exception, *, now: Micros) -> list[ForCaller]:
        del now
        attempt = self._running(key, token)
        if attempt is None:
            return []
        if attempt.run is None:
            return self._give_up(attempt, error)
        if isinstance(attempt.run, RunBind) and attempt.run.plugin is self._binder:
            attempt.failure = error
        return self._after(attempt, self._committed.failed(attempt.run, error))

    async def read_decisions(self, key: WorkloadKey) -> tuple[PlacementDecision, ...]:
        """Read the decisions of a placement from the hub."""
        labels = f"{PLACEMENT_LABEL}={key.name}"
        return tuple(
            (await self._client.list(PLACEMENT_DECISIONS, namespace=key.namespace, labels=labels)).items
        )

    def read_back(
        self, key: WorkloadKey, token: int, decisions: tuple[PlacementDecision, ...], /, *, now: Micros
    ) -> list[ForCaller]:
        del now
        attempt = self._running(key, token)
        if attempt is None or attempt.run is None:
            return []
        commits, run = self._committed, attempt.run
        if isinstance(run, ReadBack):
            return self._after(attempt, commits.read_back(run, _names(decisions), now=self._now()))
        if (fault := self._fault_of_bind(attempt, run, decisions)) is not None:
            return self._after(attempt, commits.failed(run, FaultError(fault)))
        attempt.session.adopt(decisions)
        return self._after(attempt, commits.finished(run, attempt.bound, now=self._now()))

    # Decisions

    def _try(self, owner: Owner, snapshot: ClusterSnapshot | None, now: datetime) -> list[ForCaller]:
        session = self._decide(owner, snapshot, now)
        return [] if session is None else self._begin(session)

    def _decide(self, owner: Owner, snapshot: ClusterSnapshot | None, now: datetime) -> WriteSession | None:
        """Return what to write; None if that is nothing, and the placement is in the queue again or in the slow lane.

        Raises PendingAnswer, for another call with the same ``snapshot`` and ``now``.
        """
        try:
            with span("placement", namespace=owner[0], name=owner[1]) as trace:
                plan = self._plan(owner, snapshot, now)
                if plan is None:
                    if self._commits is not None:
                        self._commits.abandon(owner)
                    self._queue.settle(owner, Dependencies(), after=None)
                    return None
                plan, step = self._review(plan, now)
                if plan.faults:
                    self._report_faults(plan, trace)
                if plan.waiting is not None:
                    self._writer.report_event(plan.placement, suppressed_event(plan.waiting))
                session = self._state.session(plan)
                session.commit = step
        except Paused:
            self.slow.add(owner)
            return None
        except PendingAnswer:
            raise
        except Exception as error:
            self._retry(owner, error)
            return None
        if plan.empty and not isinstance(step, Run):
            session.wrote_pages()
            session.complete()
            self._settle(session, now)
            return None
        self._queue.bind(owner, session.dependencies)
        return session

    def _plan(self, owner: Owner, snapshot: ClusterSnapshot | None, now: datetime) -> ReconcilePlan | None:
        """Raises Paused and PendingAnswer."""
        allowed = self._allowance.left(owner[0])
        try:
            return self._state.decide(owner, now=now, work=allowed, snapshot=snapshot)
        finally:
            self._allowance.spend(owner[0], self._state.work_of(owner))

    def _compute_slice(self, owner: Owner, work: int) -> Slice:
        finished = self._state.advance(owner, now=self._clock.wall(), work=work)
        return Slice(finished, self._state.work_of(owner))

    def _review(self, plan: ReconcilePlan, now: datetime) -> tuple[ReconcilePlan, Step | None]:
        """Return the plan to write now, and the next step of its commit; None if it is written at once."""
        if self._commits is None or plan.selection is None:
            return plan, None
        on_hub = self._state.clusters_on_hub(plan.selection.workload.owner)
        step = self._commits.review(plan.selection, clusters_on_hub=on_hub, now=to_micros(now))
        faults = (*plan.faults, *self._commits.take_faults())
        if isinstance(step, Waiting | Rejected | Failed):
            plan = withhold(plan, step.message, now=now)
            if not (faults and isinstance(step, Failed)):
                self._report_step(plan, step)
        return replace(plan, faults=faults), step

    # Writes

    def _begin(self, session: WriteSession) -> list[ForCaller]:
        attempt = self._attempts[session.owner] = Attempt(session, woken=self._queue.woken(session.owner))
        step = session.commit
        if isinstance(step, RunPlugin):
            step.context.state.write(ATTEMPT, attempt)
            return self._run(attempt, step)
        if step is None and session.plan.steps:
            token = self._next_token(attempt)
            return [RunBind(_key(session.owner), token, self._binder, self._own_context(attempt))]
        session.wrote_pages()
        return self._written(attempt)

    def _run(self, attempt: Attempt, step: Run) -> list[ForCaller]:
        attempt.run = step
        return [replace(step, token=self._next_token(attempt))]

    def _after(self, attempt: Attempt, step: Step | None) -> list[ForCaller]:
        """Continue a commit after one of its steps."""
        if isinstance(step, Run):
            return self._run(attempt, step)
        faults = self._committed.take_faults()
        self._committed.give_up(_key(attempt.owner))
        attempt.run = None
        if attempt.failure is not None:
            return self._give_up(attempt, attempt.failure)
        if isinstance(step, Failed):
            return self._report_failure(attempt, step, faults)
        if faults:
            with span("placement write", namespace=attempt.owner[0], name=attempt.owner[1]) as trace:
                self._report_faults(replace(attempt.session.plan, faults=faults), trace)
        return self._written(attempt)

    def _fault_of_bind(
        self, attempt: Attempt, run: Run, decisions: tuple[PlacementDecision, ...]
    ) -> Fault | None:
        """Return the fault of a Bind plugin that returned Success, but has not written what was decided."""
        shown, wanted = _names(decisions), attempt.session.plan.selected
        parts = ((wanted - shown, LACK), (shown - wanted, STILL_HAVE))
        lines = [words.format(clusters=", ".join(sorted(names))) for names, words in parts if names]
        if not lines or not isinstance(run, RunBind):
            return None
        self._meters.plugin_fault(plugin=run.plugin.name, point="Bind")
        return Fault(run.plugin.name, "Bind", NOT_WRITTEN.format(difference=" and ".join(lines)))

    def _written(self, attempt: Attempt) -> list[ForCaller]:
        """The hub has the pages: write the status, unless the placement is to be decided again. Then the next plan has
        it."""
        session, plan = attempt.session, attempt.session.plan
        attempt.is_written = True
        if (
            # A placement that was woken before the term waited for the leadership, which is no reaction time.
            attempt.woken is not None
            and self._term is not None
            and attempt.woken >= self._term
            and plan.steps
        ):
            self._meters.reaction((self._queue.now() - attempt.woken) / SECOND)
        attempt.droppable = session.status_waits(self._clock.monotonic()) < STATUS_SECONDS
        if plan.status is None:
            return self._end(attempt)
        if attempt.droppable and self._queue.is_changed(attempt.owner):
            return self._give_up(attempt, Superseded())
        return self._report(attempt)

    def _report(self, attempt: Attempt) -> list[ForCaller]:
        token = self._next_token(attempt)
        return [RunPostBind(_key(attempt.owner), token, self._status, self._own_context(attempt))]

    def _own_context(self, attempt: Attempt) -> CommitContext:
        """Return the context of our own plugins. The attempt does not have it: a plan of thousands of clusters would
        be garbage in a cycle, which waits for the collector."""
        context = CommitContext(workload=attempt.session.workload, hosts=(), started=self._now())
        context.state.write(ATTEMPT, attempt)
        return context

    def _report_failure(self, attempt: Attempt, step: Failed, faults: tuple[Fault, ...]) -> list[ForCaller]:
        """Report why a decision was not written, and retry it after its back-off."""
        owner = attempt.owner
        attempt.session.close()
        plan = replace(withhold(attempt.session.plan, step.message, now=self._clock.wall()), faults=faults)
        if faults:
            self._writer.report_faults(plan)
        else:
            self._report_step(plan, step)
        if plan.status is None or owner not in self._state.records:
            del self._attempts[owner]
            self._queue.fail(owner, step.message)
            return []
        attempt.session, attempt.is_written, attempt.droppable = self._state.session(plan), True, False
        attempt.session.commit = step
        return self._report(attempt)

    def _end(self, attempt: Attempt) -> list[ForCaller]:
        """Everything is written."""
        del self._attempts[attempt.owner]
        attempt.session.complete()
        self._settle(attempt.session, self._clock.wall())
        return []

    def _give_up(self, attempt: Attempt, error: Exception) -> list[ForCaller]:
        del self._attempts[attempt.owner]
        attempt.session.close()
        owner = attempt.owner
        # No error, and no back-off: the placement changed, and is decided again at once.
        if isinstance(error, Superseded):
            self._queue.settle(owner, attempt.session.dependencies, after=0.0)
        elif isinstance(attempt.session.commit, Failed):
            log.debug(NOT_REPORTED, "/".join(owner), error)
            self._queue.fail(owner, attempt.session.commit.message)
        else:
            self._retry(owner, error)
        return []

    def _retry(self, owner: Owner, error: Exception) -> None:
        """Put a placement back into the queue after an error."""
        log_failure(error, controller=NAME, key="/".join(owner), retries=self._queue.errors(owner))
        self._queue.fail(owner, str(error) or type(error).__name__)

    def _settle(self, session: WriteSession, now: datetime) -> None:
        """Put a placement back into the queue, as its commit ended."""
        owner, after = session.owner, self._delay(session.plan, now)
        match session.commit:
            case Rejected(rejections=rejections):
                self._queue.reject(owner, rejections, session.dependencies)
            case Failed(message=message):
                self._queue.fail(owner, message)
            case Waiting(deadline=deadline, depends=depends):
                left = max(0.0, (deadline - self._now()) / SECOND)
                after = left if after is None else min(left, after)
                self._queue.settle(owner, session.dependencies.joined(depends), after=after)
            case _:
                self._queue.settle(owner, session.dependencies, after=after)

    def _delay(self, plan: ReconcilePlan, now: datetime) -> float | None:
        """Return in how many seconds to decide again, even if nothing changes."""
        delays = []
        if plan.until is not None and plan.until != NEVER_CHANGES:
            delays.append(delay_until(plan.until, now))
        if self._resync:
            # Spread them over time.
            delays.append(self._resync * random.uniform(0.9, 1.1))
        return min(delays, default=None)

    def _report_faults(self, plan: ReconcilePlan, trace: Span) -> None:
        trace.set_attribute(PLUGIN_FAULTS, [str(fault) for fault in plan.faults])
        self._writer.report_faults(plan)

    def _report_step(self, plan: ReconcilePlan, step: Step) -> None:
        event = commit_event(step)
        if event is not None:
            self._writer.report_event(plan.placement, event)

    @property
    def _committed(self) -> PlacementCommits:
        """The commits of a profile that has plugins from Reserve on."""
        assert self._commits is not None
        return self._commits

    def _running(self, key: WorkloadKey, token: int) -> Attempt | None:
        attempt = self._attempts.get((key.namespace, key.name))
        return None if attempt is None or attempt.token != token else attempt

    def _next_token(self, attempt: Attempt) -> int:
        # Never the token of the step before: the loop may still remember its task.
        attempt.token = next(self._tokens)
        return attempt.token

    def _now(self) -> Micros:
        return to_micros(self._clock.wall())


def _key(owner: Owner) -> WorkloadKey:
    """Placements are queued by name; see ``queue``."""
    return WorkloadKey(*owner)


def _names(decisions: tuple[PlacementDecision, ...]) -> set[str]:
    return {decided.clusterName for page in decisions for decided in page.status.decisions}
