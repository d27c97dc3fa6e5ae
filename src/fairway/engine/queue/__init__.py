"""The scheduling queue: which workload is tried next, and what wakes those that cannot be placed yet.

Data flow: ``put`` adds a workload, ``pop`` hands it out (it is then *in flight*), and exactly one of these returns it:
``done`` (bound, or dropped), ``reject`` (plugins turned it away), ``fail`` (an error that no plugin is blamed for).
``on_event`` wakes rejected workloads, ``advance`` those that are due; ``next_deadline`` is when the next one is, so
that no caller polls. ``settle`` returns a workload that is placed but must be tried again when something changes, or at
a deadline. ``release`` returns one whose attempt was abandoned.

A workload that waits is in one of these places:

- *active*: ready, ordered by the QueueSort plugin
- *backoff*: ready except for its back-off; taken early when no workload is active
- *error backoff*: failed by an error; never taken early
- *unschedulable*: rejected; waits for an event that one of the rejecting plugins may approve of
- *gated*: kept out by a PreEnqueue plugin
- *settled*: decided, and watched

``queue`` has the transitions, ``entry`` the state of one workload, ``backoff`` how long it waits, ``in_flight`` the
events that arrive while workloads are being tried. ``rejections`` finds the rejecting plugins of a cycle's outcome,
``plugins`` calls QueueSort and PreEnqueue. ``heap`` is a priority queue with removal, and ``turns`` one whose owners
take turns.
"""

from fairway.engine.queue.backoff import Backoff, RetryLimit
from fairway.engine.queue.entry import Explanation, Rejection, State
from fairway.engine.queue.plugins import PrioritySort
from fairway.engine.queue.queue import FLUSH_AFTER, SchedulingQueue
from fairway.engine.queue.rejections import rejections_of

__all__ = [
    "FLUSH_AFTER",
    "Backoff",
    "Explanation",
    "PrioritySort",
    "Rejection",
    "RetryLimit",
    "SchedulingQueue",
    "State",
    "rejections_of",
]
