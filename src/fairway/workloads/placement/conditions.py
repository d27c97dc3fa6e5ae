"""The conditions of a Placement: whether it is satisfied, and whether it is valid."""

from collections.abc import Sequence
from typing import Final

from fairway.engine.status import Code, Status
from fairway.workloads.placement.plugins.clustersets import BoundSets
from fairway.workloads.placement.plugins.trust import Fault
from kubewire.api.meta import FALSE, TRUE, Condition

SATISFIED = "PlacementSatisfied"
MISCONFIGURED = "PlacementMisconfigured"

NO_BINDINGS = "NoManagedClusterSetBindings"
NO_INTERSECTION = "NoIntersection"
SETS_EMPTY = "AllManagedClusterSetsEmpty"
NOT_ALL_SCHEDULED = "NotAllDecisionsScheduled"
NONE_MATCHED = "NoManagedClusterMatched"
ALL_SCHEDULED = "AllDecisionsScheduled"
CONFIGURED = "Succeedconfigured"
REFUSED = "Misconfigured"

CONDITIONS: Final = {
    ("Placement", SATISFIED): {
        ALL_SCHEDULED: "All requested clusters are selected.",
        NOT_ALL_SCHEDULED: (
            "Fewer clusters are selected than requested, computing the decision failed, or a plugin does not permit it."
        ),
        NONE_MATCHED: "No cluster passed the filters.",
        SETS_EMPTY: "The bound cluster sets have no members.",
        NO_INTERSECTION: "None of the sets in spec.clusterSets is bound to the namespace.",
        NO_BINDINGS: "The namespace has no ManagedClusterSetBinding for an existing set.",
    },
    ("Placement", MISCONFIGURED): {
        CONFIGURED: "The specification is valid; the message lists annotations that have no effect.",
        REFUSED: "The specification is invalid; the message names the field.",
    },
}


def misconfigured_condition(status: Status, *, ignored: Sequence[Fault] = ()) -> Condition:
    """``ignored`` are annotations without effect, which the message reports although the Placement is valid."""
    if status.code is Code.MISCONFIGURED:
        return Condition(
            type=MISCONFIGURED, status=TRUE, reason=REFUSED, message=f"{status.plugin}:{status.message}"
        )
    return Condition(
        type=MISCONFIGURED,
        status=FALSE,
        reason=CONFIGURED,
        message="; ".join(("Placement configurations check pass", *map(str, ignored))),
    )


def satisfied_condition(
    *,
    wanted: Sequence[str],
    sets: BoundSets,
    available: bool,
    selected: int,
    unscheduled: int,
    status: Status,
) -> Condition:
    """``wanted`` are the sets that the placement names; ``available`` is whether the eligible sets have any member.

    Where the profile disables ClusterSets, clusters of other sets may be selected.
    """
    if not sets.bound and not selected:
        return _unsatisfied(NO_BINDINGS, "No valid ManagedClusterSetBindings found in placement namespace")
    if not sets.eligible and not selected:
        return _unsatisfied(
            NO_INTERSECTION,
            f"None of ManagedClusterSets [{','.join(wanted)}] is bound to placement namespace",
        )
    if not available:
        return _unsatisfied(
            SETS_EMPTY, f"All ManagedClusterSets [{','.join(sets.eligible)}] have no member ManagedCluster"
        )
    if status.code is Code.ERROR:
        return _unsatisfied(NOT_ALL_SCHEDULED, status.message)
    if selected == 0:
        return _unsatisfied(NONE_MATCHED, "No ManagedCluster matches any of the cluster predicate")
    if unscheduled == 0:
        return Condition(
            type=SATISFIED, status=TRUE, reason=ALL_SCHEDULED, message="All cluster decisions scheduled"
        )
    return _unsatisfied(NOT_ALL_SCHEDULED, f"{unscheduled} cluster decisions unscheduled")


def _unsatisfied(reason: str, message: str) -> Condition:
    return Condition(type=SATISFIED, status=FALSE, reason=reason, message=message)
