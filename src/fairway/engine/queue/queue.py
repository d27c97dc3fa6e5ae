"""The transitions of the scheduling queue."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from fairway.engine.dependencies import Dependencies, DependencyIndex, Event
from fairway.engine.points import PreEnqueue, QueueSort
from fairway.engine.queue.backoff import Backoff, RetryLimit
from fairway.engine.queue.entry import (
    FLUSHED,
    HANDED_OUT,
    WAITS_FOR_EVENT,
    Entry,
    Explanation,
    Rejection,
    State,
    explain,
)
from fairway.engine.queue.heap import Heap
from fairway.engine.queue.in_flight import InFlight
from fairway.engine.queue.plugins import PrioritySort, QueuePlugins
from fairway.engine.queue.turns import TurnHeap
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.column import Key
from fairway.hosts.instant import SECOND, Micros

FLUSH_AFTER: Micros = 300 * SECOND
"""Workloads that no event woke for this long are tried again, in case a plugin reads more than it declares."""

ADDED = "workload added"
UPDATED = "workload updated"
ACTIVATED = "activated by name"
BACKOFF_COMPLETE = "back-off complete"
POPPED_FROM_BACKOFF = "popped from back-off: no workload was active"
REJECTED = "rejected"
SETTLED = "decided"
FAILED = "failed"
ABANDONED = "the attempt was abandoned"
DEADLINE = "its deadline has passed"
UNSCHEDULABLE_TIMEOUT = "waited too long without an event"

Name = tuple[str, str]


class SchedulingQueue:
    """Workloads by name. Keys with a uid name one object; a call with the uid of a replaced object has no effect."""

    def __init__(
        self,
        *,
        sort: QueueSort | None = None,
        gates: Sequence[PreEnqueue] | Callable[[Workload[Any]], Sequence[PreEnqueue]] = (),
        backoff: Backoff | None = None,
        retries: RetryLimit | None = None,
        flush_after: Micros = FLUSH_AFTER,
        skips_faults: bool = False,
        describe: Callable[[Key], str] = " ".join,
        owner_of: Callable[[Workload[Any]], Hashable] | None = None,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        """``gates`` are the PreEnqueue plugins of all workloads, or return those of one. ``retries`` limits the retries
        after errors of all workloads together. ``skips_faults``: whether a faulty PreEnqueue plugin is
        skipped instead of keeping workloads out. ``describe`` names a column in explanations. With ``owner_of``, active
        workloads of different owners take turns, among those with an equal first part of the sort key. ``on_event``
        gets each event."""
        if flush_after <= 0:
            raise ValueError(f"flush_after must be greater than 0; got {flush_after}")
        same = () if callable(gates) else tuple(gates)
        self._has_gates = bool(same) or callable(gates)
        self._plugins = QueuePlugins(
            sort=sort or PrioritySort(),
            gates=gates if callable(gates) else lambda _: same,
            skips_faults=skips_faults,
        )
        self._backoff_policy = backoff or Backoff()
        self._retries = retries
        self._flush_after = flush_after
        self._describe = describe
        self._now: Micros = 0
        self._entries: dict[Name, Entry] = {}
        self._active: Heap[Name] | TurnHeap[Name] = Heap() if owner_of is None else TurnHeap()
        self._owner_of, self._listener = owner_of, on_event
        self._backoff: Heap[Name] = Heap()
        self._error_backoff: Heap[Name] = Heap()
        self._heaps: dict[State, Heap[Name] | TurnHeap[Name]] = {
            State.ACTIVE: self._active,
            State.BACKOFF: self._backoff,
            State.ERROR_BACKOFF: self._error_backoff,
        }
        self._parked: dict[Name, None] = {}
        """Unschedulable and gated ones, longest first."""
        # Apart from the heaps of ``_heaps``: a settled workload waits for events, whether or not it has a deadline.
        self._deadlines: Heap[Name] = Heap()
        """Of settled ones."""
        self._index: DependencyIndex[Name] = DependencyIndex()
        """Of all that were tried. Dependencies rarely change, so they stay here while the workload is in flight."""
        self._handed_out = 0
        self.activations = 0
        """How often a workload became active."""
        self._in_flight = InFlight()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def active(self) -> int:
        """Number of workloads that are ready."""
        return len(self._active)

    @property
    def handed_out(self) -> int:
        """Number of workloads in flight."""
        return self._handed_out

    def counts(self) -> Counter[State]:
        return Counter(entry.state for entry in self._entries.values())

    def put(self, workload: Workload[Any], *, now: Micros) -> None:
        """Add a workload, or replace its spec. A change of its spec may help with every rejection."""
        now = self._tick(now)
        name = (workload.namespace, workload.name)
        entry = self._entries.get(name)
        # Recreated under the same name: rejections and back-off were those of another object.
        if entry is not None and entry.key != workload.key:
            self._remove(entry)
            entry = None
        if entry is None:
            entry = self._entries[name] = Entry(workload, name, added=now, queued=now, since=now)
            self._wake(entry, ADDED, at_once=True)
            return
        # The watch also delivers updates of the status, most of them written by the scheduler itself. If they woke
        # the workload, each decision would cause another attempt.
        if entry.workload == workload and not entry.deleted:
            return
        entry.workload = workload
        entry.deleted = False
        if entry.state in HANDED_OUT:
            self._change(entry, UPDATED)
        else:
            # A spec that its user edits in a loop must not skip the back-off of its rejections. Without a rejection
            # there is nothing to wait for.
            at_once = entry.state in (State.ACTIVE, State.SETTLED) or entry.is_pending
            self._wake(entry, UPDATED, at_once=at_once)

    def delete(self, key: WorkloadKey) -> None:
        """Remove a workload. One in flight is kept until it is returned, and not queued again."""
        entry = self._find(key)
        if entry is None:
            return
        # The attempt will still be returned. Without the entry, keys without a uid would then find that of a workload
        # which was recreated under the same name, and end its attempt.
        if entry.state in HANDED_OUT:
            entry.deleted = True
        else:
            self._remove(entry)

    def find_key(self, namespace: str, name: str) -> WorkloadKey | None:
        """Return the workload that has this name now."""
        entry = self._entries.get((namespace, name))
        return None if entry is None else entry.key

    def pop(self, *, now: Micros, key: WorkloadKey | None = None) -> Workload[Any] | None:
        """Hand out the next workload: the first active one, else the first in back-off, errors excepted.

        With ``key``, hand out that one if it is active.
        """
        self.advance(now=now)
        name: Name | None
        if key is not None:
            entry = self._find(key)
            if entry is None or entry.state is not State.ACTIVE:
                return None
            name = (key.namespace, key.name)
            self._active.discard(name)
        else:
            name = self._active.pop()
        if name is None:
            # As in kube-scheduler, an idle scheduler shortens back-offs of rejections. Those of errors protect the
            # hub and are kept.
            name = self._backoff.pop()
            if name is None:
                return None
            self._entries[name].trigger = POPPED_FROM_BACKOFF
        entry = self._entries[name]
        entry.state, entry.since = State.IN_FLIGHT, self._now
        entry.attempts += 1
        entry.changed = False
        entry.woken_again = None
        self._handed_out += 1
        self._in_flight.begin(entry.key)
        return entry.workload

    def woken(self, key: WorkloadKey) -> Micros | None:
        """Return when a workload in flight was woken for this attempt."""
        entry = self._find(key)
        return None if entry is None else entry.woken

    def errors(self, key: WorkloadKey) -> int:
        """Return how many attempts in a row failed by an error."""
        entry = self._find(key)
        return 0 if entry is None else entry.errors

    def is_changed(self, key: WorkloadKey) -> bool:
        """Return whether a workload in flight will be tried again when it is returned."""
        entry = self._find(key)
        return entry is not None and entry.changed

    def bind(self, key: WorkloadKey, dependencies: Dependencies | None = None) -> None:
        """Stop recording events for a workload in flight, whose cycle is over.

        With the ``dependencies`` of its decision, events that concern it have it tried again after ``settle``. Without,
        it can only fail by an error.
        """
        entry = self._find(key)
        # It may be binding already: a workload that is popped while its commit is under way is held by this call,
        # too.
        if entry is not None and entry.state is State.IN_FLIGHT:
            # Events since the snapshot of its cycle: one of them may have changed what the decision depends on.
            missed = self._in_flight.end(entry.key)
            entry.state, entry.since = State.BINDING, self._now
            entry.watched = dependencies is not None
            if dependencies is not None:
                self._depend(entry, dependencies)
                for event in missed:
                    if entry.is_concerned_by(event):
                        self._change(entry, event.label)

    def done(self, key: WorkloadKey) -> None:
        """Forget a workload that is bound or dropped, wherever it is."""
        entry = self._find(key)
        if entry is not None:
            self._remove(entry)

    def settle(
        self, key: WorkloadKey, dependencies: Dependencies, *, now: Micros, deadline: Micros | None = None
    ) -> None:
        """Put back a workload that is placed. It is tried again when something that its decision depends on changes, at
        the latest at ``deadline``."""
        returned = self._take_back(key, now)
        if returned is None:
            return
        entry, missed = returned
        entry.rejections, entry.error = (), ""
        # A success forgives all failures, so that the next rejection begins with the shortest back-off.
        entry.rejected = entry.errors = entry.backoff_end = 0
        self._depend(entry, dependencies)
        woken_by = [event for event in missed if entry.is_concerned_by(event)]
        if entry.changed or woken_by:
            self._wake(entry, woken_by[0].label if woken_by else entry.trigger, at_once=True)
        else:
            self._park(entry, State.SETTLED, SETTLED)
            entry.deadline = deadline
            if deadline is not None:
                self._deadlines.push(entry.name, (deadline,))

    def lower_deadline(self, key: WorkloadKey, deadline: Micros) -> None:
        """Try a settled workload again at this time, unless it has an earlier deadline."""
        entry = self._find(key)
        if entry is None or entry.state is not State.SETTLED:
            return
        if entry.deadline is None or deadline < entry.deadline:
            entry.deadline = deadline
            self._deadlines.push(entry.name, (deadline,))

    def release(self, key: WorkloadKey, *, now: Micros) -> None:
        """Put back a workload whose attempt was abandoned. It is tried again at once."""
        returned = self._take_back(key, now)
        if returned is not None:
            self._wake(returned[0], ABANDONED, at_once=True)

    def reject(
        self,
        key: WorkloadKey,
        rejections: Iterable[Rejection],
        *,
        now: Micros,
        dependencies: Dependencies | None = None,
    ) -> None:
        """Put back a workload that plugins rejected. It waits for an event that one of them may approve of, or that
        concerns its ``dependencies``: those of a decision which plugins rejected only at the commit."""
        given = tuple(rejections)
        if not given:
            self.fail(key, REJECTED, now=now)  # no plugin can say what to wait for
            return
        returned = self._take_back(key, now)
        if returned is None:
            return
        entry, missed = returned
        entry.rejections, entry.error = given, ""
        blamed = Dependencies.of(rejection.reads for rejection in given)
        self._depend(entry, blamed if dependencies is None else dependencies.joined(blamed))
        entry.rejected += 1
        entry.errors = 0
        entry.backoff_end = self._backoff_policy.end(self._now, entry.rejected)
        if entry.changed:
            self._wake(entry, UPDATED, at_once=entry.is_pending)
            return
        # Only now is it known what the workload waits for, so events that came too early are judged again.
        woken_by = [event for event in missed if entry.is_concerned_by(event)]
        if woken_by:
            self._wake(entry, woken_by[0].label, at_once=any(entry.is_helped_by(event) for event in woken_by))
        else:
            self._park(entry, State.UNSCHEDULABLE, REJECTED)

    def fail(self, key: WorkloadKey, error: str, *, now: Micros) -> None:
        """Put back a workload whose attempt failed by an error. It is retried after its back-off, without an event."""
        returned = self._take_back(key, now)
        if returned is None:
            return
        entry, _ = returned
        entry.rejections, entry.error = (), error
        entry.errors += 1
        entry.backoff_end = self._backoff_policy.end(self._now, entry.errors)
        if self._retries is not None:
            # While the hub is down every workload fails, and their retries together would be a burst.
            entry.backoff_end = max(entry.backoff_end, self._retries.reserve(self._now))
        if self._passes_gates(entry):
            self._back_off(entry, State.ERROR_BACKOFF, FAILED)

    def on_event(
        self, event: Event, *, now: Micros, is_unaffected: Callable[[WorkloadKey], bool] | None = None
    ) -> list[WorkloadKey]:
        """Wake the workloads that the event concerns, and record it for those in flight.

        Return the woken ones, and those that are tried again once they are settled. ``is_unaffected`` is called for
        settled workloads: it returns whether another attempt would settle them in the same way. Then they are not
        woken. If the attempt would have an earlier deadline, it calls ``lower_deadline``.
        """
        self._tick(now)
        self._listener(event)
        self._in_flight.record(event)
        woken: list[WorkloadKey] = []
        for name in self._index.concerned(event):
            entry = self._entries[name]
            if event.excluded is not None and entry.key == event.excluded:
                continue
            if entry.state in WAITS_FOR_EVENT:
                # Thousands of settled placements may read a score that changed on a host that none of
                # them would select.
                if is_unaffected is not None and entry.state is State.SETTLED and is_unaffected(entry.key):
                    continue
                self._wake(entry, event.label, at_once=entry.is_helped_by(event))
                if entry.state not in WAITS_FOR_EVENT:
                    woken.append(entry.key)
            # It waits for a permit or a write. The earlier decision is still good enough to finish, but
            # not to settle with.
            elif entry.state is State.BINDING and entry.watched:
                self._change(entry, event.label)
                woken.append(entry.key)
        return woken

    def activate(self, keys: Iterable[WorkloadKey], *, now: Micros, trigger: str = ACTIVATED) -> None:
        """Move workloads to active, without regard to rejections and back-off. Gates still apply."""
        self._tick(now)
        for key in keys:
            entry = self._find(key)
            if entry is None:
                continue
            if entry.state in HANDED_OUT:
                self._change(entry, trigger)
            elif entry.state is not State.ACTIVE:
                self._wake(entry, trigger, at_once=True)

    def advance(self, *, now: Micros) -> None:
        """Move the workloads whose back-off or deadline is over, and those that no event woke for too long."""
        self._tick(now)
        # Each pass ends: waking detaches the workload from this heap, also if a gate parks it instead.
        while (first := self._deadlines.peek()) is not None and first[0][0] <= self._now:
            self._wake(self._entries[first[1]], DEADLINE, at_once=True)
        for heap in (self._backoff, self._error_backoff):
            while (first := heap.peek()) is not None and first[0][0] <= self._now:
                heap.pop()
                self._activate(self._entries[first[1]], BACKOFF_COMPLETE)
        while (
            # Ends as well: a workload that a gate parks again is parked as of now, behind all others.
            oldest := self._oldest_parked()
        ) is not None and oldest.parked + self._flush_after <= self._now:
            self._wake(oldest, UNSCHEDULABLE_TIMEOUT, at_once=False)

    def next_deadline(self) -> Micros | None:
        """Return when ``advance`` has something to do next; None if only an event can change anything."""
        heaps = (self._backoff, self._error_backoff, self._deadlines)
        deadlines = [first[0][0] for heap in heaps if (first := heap.peek())]
        oldest = self._oldest_parked()
        if oldest is not None:
            deadlines.append(oldest.parked + self._flush_after)
        return min(deadlines, default=None)

    def trigger(self, key: WorkloadKey) -> str:
        """Return what woke a workload last; empty if it is unknown."""
        entry = self._find(key)
        return "" if entry is None else entry.trigger

    def explain(self, key: WorkloadKey) -> Explanation | None:
        entry = self._find(key)
        if entry is None:
            return None
        next_try = None
        if entry.state in FLUSHED:
            next_try = entry.parked + self._flush_after
        elif entry.state in (State.BACKOFF, State.ERROR_BACKOFF):
            next_try = entry.backoff_end
        elif entry.state is State.SETTLED:
            next_try = entry.deadline
        return explain(entry, next_try=next_try, describe=self._describe)

    def _tick(self, now: Micros) -> Micros:
        """Time never goes back here: the order of deadlines depends on it."""
        self._now = max(self._now, now)
        return self._now

    def _find(self, key: WorkloadKey) -> Entry | None:
        entry = self._entries.get((key.namespace, key.name))
        return None if entry is None or (key.uid and entry.key.uid != key.uid) else entry

    def _oldest_parked(self) -> Entry | None:
        # The dictionary is in the order of insertion, and time never goes back, so its first entry waits the longest.
        # A heap would cost a push and a removal for each rejection, to answer only this.
        name = next(iter(self._parked), None)
        return None if name is None else self._entries[name]

    def _take_back(self, key: WorkloadKey, now: Micros) -> tuple[Entry, Sequence[Event]] | None:
        """Return a workload that was handed out, with the events since; None if it is deleted or not in flight."""
        self._tick(now)
        entry = self._find(key)
        if entry is None or entry.state not in HANDED_OUT:
            return None
        if entry.deleted:
            self._remove(entry)
            return None
        # Recorded from the pop on, so that no event is lost between the snapshot of the cycle and the return.
        missed = self._in_flight.end(entry.key)
        if entry.state is State.BINDING and not entry.watched:
            entry.changed = True  # events were not tracked
        entry.queued = self._now
        return entry, missed

    def _change(self, entry: Entry, trigger: str) -> None:
        """Have a workload in flight tried again when it is returned."""
        if entry.woken_again is None:
            entry.woken_again = self._now
        entry.changed, entry.trigger = True, trigger

    def _depend(self, entry: Entry, dependencies: Dependencies) -> None:
        entry.depends = dependencies
        self._index.put(entry.name, dependencies)

    def _remove(self, entry: Entry) -> None:
        name = self._detach(entry)
        # A deleted workload may be in flight. Its marker would keep every later event, until there are more than are
        # kept.
        self._in_flight.end(entry.key)
        self._index.discard(name)
        del self._entries[name]

    def _detach(self, entry: Entry) -> Name:
        name = entry.name
        if entry.state in self._heaps:
            self._heaps[entry.state].discard(name)
        elif entry.state in HANDED_OUT:
            self._handed_out -= 1
        elif entry.state is State.SETTLED:
            self._deadlines.discard(name)
        else:
            self._parked.pop(name, None)
        return name

    def _wake(self, entry: Entry, trigger: str, *, at_once: bool) -> None:
        """Move to active, or to back-off if that is not over, unless a gate keeps it out."""
        if not self._passes_gates(entry):
            return
        if at_once or entry.backoff_end <= self._now:
            self._activate(entry, trigger)
        else:
            self._back_off(entry, State.ERROR_BACKOFF if entry.errors else State.BACKOFF, trigger)

    def _activate(self, entry: Entry, trigger: str) -> None:
        # The time of the first cause: reaction times are measured from it, also if others follow before the attempt.
        if entry.state is not State.ACTIVE or entry.woken is None:
            entry.woken = self._now if entry.woken_again is None else entry.woken_again
            entry.woken_again = None
            self.activations += 1
        name = self._place(entry, State.ACTIVE, trigger)
        key = self._plugins.sort_key(entry.workload, entry.queued)
        if isinstance(self._active, TurnHeap):
            owner = None if self._owner_of is None else self._owner_of(entry.workload)
            self._active.push(name, key, owner=owner)
        else:
            self._active.push(name, key)

    def _back_off(self, entry: Entry, state: State, trigger: str) -> None:
        name = self._place(entry, state, trigger)
        heap = self._backoff if state is State.BACKOFF else self._error_backoff
        heap.push(name, (entry.backoff_end, *self._plugins.sort_key(entry.workload, entry.queued)))

    def _park(self, entry: Entry, state: State, trigger: str) -> None:
        name = self._place(entry, state, trigger)
        if state in FLUSHED:
            entry.parked = self._now
            self._parked[name] = None

    def _place(self, entry: Entry, state: State, trigger: str) -> Name:
        # An active one is only pushed again: removed first, the only workload of an owner would give up its turn, and
        # each update would send it behind all other owners.
        name = entry.name if entry.state is state is State.ACTIVE else self._detach(entry)
        if entry.state is not state:
            entry.since = self._now
        entry.state, entry.trigger = state, trigger
        return name

    def _passes_gates(self, entry: Entry) -> bool:
        """Park the workload if a PreEnqueue plugin objects."""
        # Every transition to active comes by here. Without PreEnqueue plugins it costs no call.
        if not self._has_gates and entry.state is not State.GATED:
            return True
        # The plugin that objected last probably still does, and the others need not be called.
        last = entry.rejections[0].plugin if entry.state is State.GATED else ""
        objection = self._plugins.objection(entry.workload, last=last)
        if objection is not None:
            entry.rejections = (objection,)
            self._depend(entry, Dependencies.of((objection.reads,)))
            self._park(entry, State.GATED, f"gated by {objection.plugin}")
            return False
        if entry.state is State.GATED:
            entry.rejections = ()
        return True
