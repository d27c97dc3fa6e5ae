"""Recovery from the loss of a hosting cluster: a plan for a person to approve. Nothing is written.

A hosted cluster has its data on its host. On another one it is created again, empty: that is why a policy must permit
it, and a person approve it. The plan uses the room that ``spareHosts`` keeps for the failure of a host, and moves
nothing else.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from fairway.api.hosted_request import RELEASING, HostedClusterRequest
from fairway.engine.workload import HostKey, WorkloadKey
from fairway.hosts.instant import Micros
from fairway.workloads.hosting.fleet.outages import Outage
from fairway.workloads.hosting.planning.move_problem import size_of
from fairway.workloads.hosting.planning.moves import Move, MovePlan, Stuck, evacuate
from fairway.workloads.hosting.planning.violations import Violation
from fairway.workloads.hosting.rules.policy import Policy, PolicyError, find_policy
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import (
    MOVE_TO,
    Resident,
    is_adopted,
    is_recovery_approved,
    key_of,
    loss_of,
    policy_name,
    was_confirmed,
)

NOT_LOST: Final = "{host} {outage}"
NOT_PERMITTED: Final = (
    "policy {policy} does not permit to create it again, empty (hostLoss.recreate): wait for {host}, or delete the "
    "request"
)
ADOPTED: Final = (
    "it was adopted: create it again where it was created, and delete the request; Fairway does not create it"
)
ANSWERS: Final = "the agent of {host} still renews its lease: it deletes the hosted cluster first"
NOT_RECORDED: Final = (
    "its condition HostAvailable does not record the loss yet: check that the controller hosting runs, and plan the "
    "recovery again"
)
NO_REQUEST: Final = "its HostedClusterRequest is not among the given objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """What a person approves for one request, as the plan read it."""

    request: HostedClusterRequest
    target: HostKey | None
    """None if the request is being deleted: nothing is created."""
    loss: str

    @property
    def key(self) -> WorkloadKey:
        return key_of(self.request)

    def __str__(self) -> str:
        status, target = self.request.status, self.target or HostKey("", "")
        place = status.hostingCluster
        source = "" if place is None else place.uid
        return f"{self.key.uid} {self.request.metadata.generation} {status.phase} {self.loss} {source} {target.uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    hosts: tuple[str, ...]
    outages: tuple[Outage, ...] = ()
    """Several if the cluster was recreated, and hosted clusters are of more than one of its lives."""
    moves: tuple[Move, ...] = ()
    recreated: tuple[WorkloadKey, ...] = ()
    """The moves that give up what a hosted cluster had on the lost host."""
    approvals: tuple[Approval, ...] = ()
    """One for each move, and for each request that only has to be released."""
    approved: tuple[WorkloadKey, ...] = ()
    """Requests whose recovery is approved already, and not finished."""
    kept: tuple[Stuck, ...] = ()
    """Requests that keep their place, with the reason."""
    stuck: tuple[Stuck, ...] = ()
    """Requests that may be created again, and fit on no host."""
    after: tuple[Violation, ...] = ()

    @property
    def released(self) -> tuple[Approval, ...]:
        return tuple(approval for approval in self.approvals if approval.target is None)

    @property
    def hash(self) -> str:
        """Identify the plan, and what it read of the requests: an equal hash means that both are unchanged."""
        lines = sorted(map(str, self.approvals))
        return hashlib.sha256("\n".join([*self.hosts, *lines]).encode()).hexdigest()[:12]


def plan_recovery(
    state: HostingState, requests: Iterable[HostedClusterRequest], hosts: Collection[str], *, now: Micros
) -> RecoveryPlan:
    """Plan where the hosted clusters of lost hosts are created again, and which requests are released."""
    known = {key_of(request): request for request in requests}
    outages = tuple(
        outage
        for key in state.residents.hosts()
        if key.name in hosts and (outage := state.outage(key)) is not None
    )
    wanted: list[Resident] = []
    kept: list[Stuck] = []
    approvals: list[Approval] = []
    approved: list[WorkloadKey] = []
    for outage in outages:
        for resident in sorted(state.on(outage.host), key=lambda resident: resident.key):
            request = known.get(resident.key)
            if request is None:
                kept.append(_kept(resident, NO_REQUEST))
                continue
            obstacle = _obstacle(state, request, outage, now=now)
            # A request that keeps its place is only reported: to create it a second time beside one that may still run
            # would be worse than to wait.
            if obstacle:
                kept.append(_kept(resident, obstacle))
            elif is_recovery_approved(request):
                approved.append(resident.key)
            elif request.metadata.deletionTimestamp is not None:
                approvals.append(Approval(request=request, target=None, loss=loss_of(request)))
            else:
                wanted.append(resident)
    plan = MovePlan()
    if wanted:
        # An approval of an earlier move, to the host that is lost now, must not keep the request from all others.
        free = {key: _without_target(request) for key, request in known.items()}
        # Without chains: what still runs elsewhere is not moved to make room for what must be created again.
        plan = evacuate(state, free, wanted, [outage.host for outage in outages], chains=False, now=now)
    approvals += [
        Approval(request=known[move.key], target=move.target, loss=loss_of(known[move.key]))
        for move in plan.moves
    ]
    return RecoveryPlan(
        hosts=tuple(sorted(hosts)),
        outages=outages,
        moves=plan.moves,
        recreated=tuple(move.key for move in plan.moves if was_confirmed(known[move.key])),
        approvals=tuple(approvals),
        approved=tuple(approved),
        kept=tuple(kept),
        stuck=plan.stuck,
        after=plan.after,
    )


def _obstacle(state: HostingState, request: HostedClusterRequest, outage: Outage, *, now: Micros) -> str:
    """Return why a request keeps its place; empty if it may leave it."""
    try:
        policy = find_policy(state.policies, policy_name(request))
    except PolicyError:
        policy = Policy(name=policy_name(request))
    after, name = policy.lost_after, outage.host.name
    if not outage.is_lost(after, now=now):
        return NOT_LOST.format(host=name, outage=outage.describe(after, now=now))
    if not outage.is_abandoned(after, now=now):
        return ANSWERS.format(host=name)
    if is_adopted(request):
        return ADOPTED
    is_leaving = request.status.phase == RELEASING or request.metadata.deletionTimestamp is not None
    if was_confirmed(request) and not is_leaving and not policy.recreates:
        return NOT_PERMITTED.format(policy=policy.name, host=name)
    return "" if loss_of(request) else NOT_RECORDED


def _kept(resident: Resident, reason: str) -> Stuck:
    return Stuck(key=resident.key, source=resident.host, reason=reason, size=size_of(resident))


def _without_target(request: HostedClusterRequest) -> HostedClusterRequest:
    annotations = {name: value for name, value in request.metadata.annotations.items() if name != MOVE_TO}
    meta = structs.replace(request.metadata, annotations=annotations)
    return structs.replace(request, metadata=meta)
