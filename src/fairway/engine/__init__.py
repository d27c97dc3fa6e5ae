"""The scheduling cycle: filters, scores and the choice, for any workload and any plugins.

Data flow: ``cycle.run(snapshot, workload, profile, now)`` is a pure function that returns an ``Outcome``. ``Memory``
keeps a ``memo`` of a workload's last cycle and, when only a few rows changed, updates it (``following``) instead of
running a full cycle; workloads that differ in their names only can share it. ``alike`` keeps only what such workloads
share, for those that are scheduled once. ``refused_alike`` rejects workloads that differ from a rejected one only in
what no blamed plugin reads.

- A *profile* has the plugins of each extension point in order, with weights. It is built once, from a ``ProfileSpec``
  and the plugins of a ``registry``. A ``kind`` of work has both: its plugins, and its default profile. ``points``
  defines the extension points as protocols, ``forms`` finds which of them a plugin implements, and ``choice`` has the
  default choice among the ranked hosts.
- A *host* is a row of the fleet, a *context* what plugins may read, a *status* the result of a filter with its
  reason. ``state`` is what plugins write during a cycle, a *fault* (``fault``) what a plugin does wrong.
- ``ranking`` orders hosts by total and name. ``trace`` explains an outcome host by host. ``rejections`` has the reasons
  of a cycle without a feasible host, for PostFilter plugins; ``remedies`` are what plugins propose to change for a
  host.
- ``scheduler`` joins queue, cycle and commit for workloads that are bound once.
- ``queue`` selects the next workload, ``commit`` takes a decision through Reserve, Permit and Bind, and ``ledger`` has
  what is promised on each host. ``dependencies`` maps changed columns to the workloads that they concern.
"""

from fairway.engine.kind import WorkKind
from fairway.engine.memory import Memory
from fairway.engine.outcome import Outcome
from fairway.engine.points import Context, Reads, Timeless, Weighted
from fairway.engine.profile import Profile, ProfileSpec, build_profile
from fairway.engine.registry import Registry
from fairway.engine.status import Code, Status
from fairway.engine.trace import Trace

__all__ = [
    "Code",
    "Context",
    "Memory",
    "Outcome",
    "Profile",
    "ProfileSpec",
    "Reads",
    "Registry",
    "Status",
    "Timeless",
    "Trace",
    "Weighted",
    "WorkKind",
    "build_profile",
]
