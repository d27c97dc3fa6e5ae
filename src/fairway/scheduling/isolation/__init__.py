"""Third-party plugins in processes of their own, for what no guard can interrupt: native code, leaks, crashes.

Data flow: ``plugins`` are what the engine calls. Their answers belong to one (snapshot, workload, time): a cycle reads
those that are there, and raises ``PendingAnswer`` for the first that is not; once it is fetched, the cycle runs again.
``worker`` (the parent's half, one per plugin) starts and kills the process, and exchanges messages of ``wire`` with
``serving``, its main program. ``shipping`` sends the process the columns that the plugin reads, once, and then only the
cells that changed; ``remote`` is the snapshot that the plugin sees there. ``discovery`` finds out what a file has
without importing it here.

- A *worker* is a process with one plugin. An *exchange* is one question to it, and its answer.
- Inside of the worker the usual guard surrounds the plugin, so that ordinary faults are the same as without isolation.
"""

from fairway.scheduling.isolation.discovery import Isolation, describe, file_source, package_source
from fairway.scheduling.isolation.plugins import ISOLATED_POINTS, isolated_class, isolated_factory
from fairway.scheduling.isolation.worker import StartError

__all__ = [
    "ISOLATED_POINTS",
    "Isolation",
    "StartError",
    "describe",
    "file_source",
    "isolated_class",
    "isolated_factory",
    "package_source",
]
