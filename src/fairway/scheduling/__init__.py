"""Scheduler configuration, third-party plugins and their containment.

Data flow: ``loading`` reads a file; ``configuration`` decodes a SchedulerConfiguration, ``kube_configuration`` a
KubeSchedulerConfiguration, and ``pod_args`` the arguments of plugins for pods. ``discovery`` imports third-party
plugins, ``resolution`` finds the plugins of each extension point, starting from the default profile of the kind of work
(``kinds``), and the engine builds the profiles.

- A *guard* surrounds each third-party plugin (``guard``): it protects the input (``inputs``), checks the result of each
  of its ``methods`` (``checks``) and charges *faults* to the plugin. The *watchdog* interrupts a call that stalls. A
  plugin with repeated faults is in *quarantine* for a growing time.
- A plugin with ``isolation: process`` has its guard in a process of its own (``isolation``).
- Built-in plugins have no guard.
"""

from fairway.scheduling.guard import FaultReport, Supervisor
from fairway.scheduling.kinds import KINDS
from fairway.scheduling.loading import ConfigurationError, Scheduling, load
from fairway.scheduling.watchdog import Watchdog

__all__ = [
    "KINDS",
    "ConfigurationError",
    "FaultReport",
    "Scheduling",
    "Supervisor",
    "Watchdog",
    "load",
]
