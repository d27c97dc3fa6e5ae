"""Scheduler configuration, third-party plugins and their containment.

Data flow: ``loading`` reads a SchedulerConfiguration; ``configuration`` decodes it, ``discovery`` imports third-party
plugins, ``resolution`` finds the plugins of each extension point, and the engine builds the profiles.

- A *guard* surrounds each third-party plugin (``guard``): it protects the input (``inputs``), checks the result
  (``checks``) and charges *faults* to the plugin. The *watchdog* interrupts a call that stalls. A plugin with repeated
  faults is in *quarantine* for a growing time.
- Built-in plugins have no guard.
"""

from fairway.scheduling.defaults import PLACEMENT_DEFAULTS
from fairway.scheduling.guard import FaultReport, Supervisor
from fairway.scheduling.loading import ConfigurationError, Scheduling, load
from fairway.scheduling.watchdog import Watchdog

__all__ = [
    "PLACEMENT_DEFAULTS",
    "ConfigurationError",
    "FaultReport",
    "Scheduling",
    "Supervisor",
    "Watchdog",
    "load",
]
