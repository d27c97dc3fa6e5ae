"""Hosted clusters on hosting clusters: which one gets the next, and what is created there. No I/O.

Work: a HostedClusterRequest is a workload that is bound once, to one hosting cluster, by the current load. It keeps its
place until it is deleted, moved with an approval, or its hosting cluster is lost.

Data flow: the state takes objects of the hub. It derives the capacity of each hosting cluster from what the cluster
publishes and from the HostingPolicies, and keeps the ledger in step with the statuses of requests, which record all
reservations, and with decisions of Placements that use the same hosts. All of that is columns and values of the table.
A request becomes a workload with its demand; the plugins of the profile filter and score on a snapshot of the table;
the decision is put into words; the reservation is in the table for the next cycle, before its status is written.

Modules:

- ``workload`` is the request for plugins, ``profile`` has the default plugins, ``plugins`` one file for each.
- ``state`` takes objects and reserves; ``fleet`` has the table with the facts about each host.
- ``rules`` is what policies permit and add, ``requests`` what a request needs, creates and shows as its status.
- ``decision`` puts the outcome of a cycle into words; ``planning`` has the what-ifs, and the plans of moves.
- ``resources`` has the dimensions.

Words: a *resident* is a request with a place on a host, from the reservation on. A resident is *counted* when the
published load of its host includes it. An *offer* is the most that one hosted cluster can get of an empty host. A
*claimant* is what of a request its tenant follows from. A *promise* is a decision of a Placement that the load does not
include yet. A host is *lost* when its outage lasts longer than the policies allow.

Laws:

- A cycle reads nothing but its snapshot; what-ifs reserve in a fork of the table, by the code of the controller.
- A reserved place is a resident at once, for every rule.
- Unknown load is no empty host. Where telemetry lags, a hosted cluster is counted twice rather than never.
- The statuses of requests are the record: a new leader has the ledger as soon as it has listed them.
- Amounts are integers in milli-units.
"""

from fairway.workloads.hosting.decision import Decision, decision_of
from fairway.workloads.hosting.fleet.capacity import Capacity, capacity_of
from fairway.workloads.hosting.fleet.facts import HostFacts, host_key
from fairway.workloads.hosting.fleet.telemetry import Telemetry, Unknown
from fairway.workloads.hosting.planning.adoption import (
    Adoption,
    AdoptionPlan,
    ExistingHostedCluster,
    plan_adoption,
)
from fairway.workloads.hosting.planning.evacuation import Evacuation
from fairway.workloads.hosting.planning.fit import changes_that_fit
from fairway.workloads.hosting.planning.loss import Loss, lose
from fairway.workloads.hosting.planning.move_search import Proof
from fairway.workloads.hosting.planning.moves import Move, MovePlan, drain, rebalance
from fairway.workloads.hosting.planning.placing import place
from fairway.workloads.hosting.planning.report import HostReport, reports
from fairway.workloads.hosting.planning.violations import violations
from fairway.workloads.hosting.profile import HOSTING_KIND, default_profile, hosting_registry
from fairway.workloads.hosting.requests.demand import Demand, DemandError, demand_of
from fairway.workloads.hosting.rules.policy import Policy, policy_of
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import HostingSpec, Resident

__all__ = [
    "HOSTING_KIND",
    "Adoption",
    "AdoptionPlan",
    "Capacity",
    "Decision",
    "Demand",
    "DemandError",
    "Evacuation",
    "ExistingHostedCluster",
    "HostFacts",
    "HostReport",
    "HostingSpec",
    "HostingState",
    "Loss",
    "Move",
    "MovePlan",
    "Policy",
    "Proof",
    "Resident",
    "Telemetry",
    "Unknown",
    "capacity_of",
    "changes_that_fit",
    "decision_of",
    "default_profile",
    "demand_of",
    "drain",
    "host_key",
    "hosting_registry",
    "lose",
    "place",
    "plan_adoption",
    "policy_of",
    "rebalance",
    "reports",
    "violations",
]
