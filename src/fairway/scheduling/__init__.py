"""Scheduler configuration, third-party plugins and their containment.

Data flow: ``loading`` reads a file; ``configuration`` decodes a SchedulerConfiguration, ``kube_configuration`` a
KubeSchedulerConfiguration, and ``pod_args`` the arguments of plugins for pods. ``discovery`` imports third-party
plugins, ``resolution`` finds the plugins of each extension point, starting from ``defaults`` or ``pod_defaults``, and
the engine builds the profiles.

- A *guard* surrounds each third-party plugin (``guard``): it protects the input (``inputs``), checks the result of each
  of its ``methods`` (``checks``) and charges *faults* to the plugin. The *watchdog* interrupts a call that stalls. A
  plugin with repeated faults is in *quarantine* for a growing time.
- Built-in plugins have no guard.
"""

from fairway.scheduling.defaults import PLACEMENT_BESIDE_PODS, PLACEMENT_DEFAULTS
from fairway.scheduling.guard import FaultReport, Supervisor
from fairway.scheduling.loading import Base, ConfigurationError, Scheduling, load
from fairway.scheduling.pod_defaults import POD_DEFAULTS, POD_PROFILE
from fairway.scheduling.watchdog import Watchdog

__all__ = [
    "PLACEMENT_BESIDE_PODS",
    "PLACEMENT_DEFAULTS",
    "POD_DEFAULTS",
    "POD_PROFILE",
    "Base",
    "ConfigurationError",
    "FaultReport",
    "Scheduling",
    "Supervisor",
    "Watchdog",
    "load",
]
