"""Hosted clusters on hosting clusters: which one gets the next, and what is created there. No I/O.

Data flow: ``HostingState`` (``state``) takes objects of the hub. It derives the capacity of each hosting cluster from
what the cluster publishes (``telemetry``, ``capacity``) and from the HostingPolicies (``policy``), and keeps the ledger
in step with the statuses of HostedClusterRequests, which record all reservations, and with decisions of Placements that
use the same hosts (``placement_promises``). A request becomes a workload with its demand (``workload``, ``demand``);
the profile ``hosting`` (``profile``, ``plugins``) filters and scores; ``decision`` puts the outcome into words, ``fit``
finds what would make a refused request fit, ``work`` builds the ManifestWork, and ``status`` the request's status in
each phase, with the ``conditions``.

``placing`` does the same for many requests at once, without writing anything. ``evacuation`` answers whether all that a
host carries fits elsewhere. ``moves`` plans to drain and rebalance hosts. ``report`` has the room of each host.

- A *resident* is a request with a place on a host, from the reservation on.
- A resident is *counted* when the published load of its host includes it.
- Amounts are integers in milli-units, in the dimensions of ``resources``.
"""

from fairway.hosting.capacity import Capacity, capacity_of
from fairway.hosting.decision import Decision, decision_of
from fairway.hosting.demand import Demand, DemandError, demand_of
from fairway.hosting.evacuation import Evacuation
from fairway.hosting.fit import changes_that_fit
from fairway.hosting.moves import Move, MovePlan, drain, rebalance, violations
from fairway.hosting.placing import place
from fairway.hosting.policy import Policy, policy_of
from fairway.hosting.profile import hosting_profile
from fairway.hosting.report import HostReport, reports
from fairway.hosting.state import HostFacts, HostingState, host_key
from fairway.hosting.telemetry import Telemetry, Unknown
from fairway.hosting.workload import HostingSpec, Resident

__all__ = [
    "Capacity",
    "Decision",
    "Demand",
    "DemandError",
    "Evacuation",
    "HostFacts",
    "HostReport",
    "HostingSpec",
    "HostingState",
    "Move",
    "MovePlan",
    "Policy",
    "Resident",
    "Telemetry",
    "Unknown",
    "capacity_of",
    "changes_that_fit",
    "decision_of",
    "demand_of",
    "drain",
    "host_key",
    "hosting_profile",
    "place",
    "policy_of",
    "rebalance",
    "reports",
    "violations",
]
