"""The condition fairway.dev/Healthy of a cluster, for users who ask why nothing is placed there."""

from datetime import datetime, timedelta
from typing import Final

from fairway.controllers.recovery.decision import (
    EXEMPT,
    LOW,
    MISSING,
    OVER_BUDGET,
    RECOVERED,
    SUSPECT,
    Evidence,
    Taint,
    Untaint,
    Withheld,
)
from fairway.controllers.recovery.policy import RecoveryPolicy
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition, format_time

HEALTHY: Final = "fairway.dev/Healthy"
NOT_LOW_ANY_MORE: Final = "HealthNotLow"
UNKNOWN_NOW: Final = "HealthUnknown"
RELEASED: Final = "TaintRemoved"
"""Reasons of a cluster that is not tainted and will not be."""

CONDITIONS: Final = {
    ("ManagedCluster", HEALTHY): {
        LOW: "Tainted because health stayed low.",
        MISSING: "Tainted because health is missing, with `missing: unhealthy`.",
        OVER_BUDGET: "Unhealthy, but the budget of tainted clusters is exhausted.",
        SUSPECT: "Unhealthy, but so many clusters are that the health provider has probably failed.",
        RECOVERED: "Healthy for long enough; the taint was removed.",
        NOT_LOW_ANY_MORE: "Was held back, and is no longer unhealthy.",
        UNKNOWN_NOW: "Was held back, and its health is no longer known.",
        RELEASED: "Another client removed the taint; the dwell time restarts.",
        EXEMPT: "Excluded by annotation.",
    }
}

OVERRIDE: Final = "fairway.dev/recovery"
OFF: Final = "off"
ON: Final = "on"
"""The default without the annotation."""

LOW_SINCE: Final = "{health} is {score}, below {below} since {since}"
MISSING_SINCE: Final = "{health} is unknown since {since}"
HEALTHY_SINCE: Final = "{health} is {score}, at least {above} since {since}"
TAINTED: Final = "{why}: the cluster is tainted {effect} until it is at least {above} for {dwell:g} s"
TAINTED_BEFORE: Final = "the cluster is tainted {effect} until {health} is at least {above} for {dwell:g} s"
RETURNED: Final = "{why}: the taint is removed"
EXEMPTED: Final = "annotation {override}: {off} exempts this cluster from recovery"
NOT_LOW: Final = "{health} is {score}, not below {below}"
HEALTH_UNKNOWN: Final = "{health} is unknown"
REMOVED_BY_OTHERS: Final = (
    "another client removed the taint: the time that {health} is below {below} starts again"
)
OVER_FLEET: Final = (
    "{why}, but it is not tainted: the budget of {limit} tainted clusters is used up ({used} tainted)"
)
OVER_SET: Final = (
    "{why}, but it is not tainted: the budget of {limit} tainted clusters in cluster set {scope} is used up "
    "({used} tainted)"
)
ONLY_CLUSTER: Final = "{why}, but it is not tainted: it is the only cluster of {scope}"
NO_OTHER_CLUSTER: Final = "{why}, but it is not tainted: no other cluster of {scope} is available"
SUSPECTED: Final = (
    "{why}, but it is not tainted: {used} of {limit} clusters became unhealthy within {window:g} s, "
    "probably a fault of the provider of {health}"
)
THE_FLEET: Final = "the fleet"
A_SET: Final = "cluster set {name}"


class ConditionMessages:
    """``now`` and ``wall`` are the monotonic and the wall clock at the same moment."""

    def __init__(self, policy: RecoveryPolicy, *, now: float, wall: datetime) -> None:
        self._policy, self._now, self._wall = policy, now, wall

    def tainted(self, decision: Taint) -> Condition:
        policy = self._policy
        message = TAINTED.format(
            why=self._low(decision.facts),
            effect=policy.effect,
            above=policy.above,
            dwell=policy.recovery_dwell,
        )
        return _condition(FALSE, decision.reason, message)

    def tainted_before(self, reason: str) -> Condition:
        """The taint was written by a process that ended before it wrote the condition."""
        policy = self._policy
        message = TAINTED_BEFORE.format(
            effect=policy.effect, health=policy.health, above=policy.above, dwell=policy.recovery_dwell
        )
        return _condition(FALSE, reason, message)

    def untainted(self, decision: Untaint) -> Condition:
        if decision.reason == EXEMPT or decision.facts is None:
            return self.exempt()
        why = HEALTHY_SINCE.format(
            health=self._policy.health,
            score=decision.facts.score,
            above=self._policy.above,
            since=self._since(decision.facts),
        )
        return _condition(TRUE, decision.reason, RETURNED.format(why=why))

    def exempt(self) -> Condition:
        return _condition(UNKNOWN, EXEMPT, EXEMPTED.format(override=OVERRIDE, off=OFF))

    def not_low(self, score: int | None) -> Condition:
        policy = self._policy
        if score is None:
            return _condition(UNKNOWN, UNKNOWN_NOW, HEALTH_UNKNOWN.format(health=policy.health))
        message = NOT_LOW.format(health=policy.health, score=score, below=policy.below)
        return _condition(TRUE, NOT_LOW_ANY_MORE, message)

    def taint_removed(self) -> Condition:
        policy = self._policy
        message = REMOVED_BY_OTHERS.format(health=policy.health, below=policy.below)
        return _condition(UNKNOWN, RELEASED, message)

    def withheld(self, decision: Withheld) -> Condition:
        text = SUSPECTED
        if decision.reason == OVER_BUDGET:
            text = OVER_SET if decision.scope else OVER_FLEET
            if decision.limit == 0 or decision.alone:
                text = NO_OTHER_CLUSTER if decision.alone else ONLY_CLUSTER
        scope = decision.scope
        if text in (ONLY_CLUSTER, NO_OTHER_CLUSTER):
            scope = A_SET.format(name=scope) if scope else THE_FLEET
        message = text.format(
            why=self._low(decision.facts),
            scope=scope,
            used=decision.used,
            limit=decision.limit,
            window=self._policy.suspect_window,
            health=self._policy.health,
        )
        return _condition(FALSE, decision.reason, message)

    def _low(self, facts: Evidence) -> str:
        return (MISSING_SINCE if facts.score is None else LOW_SINCE).format(
            health=self._policy.health, score=facts.score, below=self._policy.below, since=self._since(facts)
        )

    def _since(self, facts: Evidence) -> str:
        return format_time(self._wall - timedelta(seconds=self._now - facts.since))


def _condition(status: str, reason: str, message: str) -> Condition:
    return Condition(type=HEALTHY, status=status, reason=reason, message=message)
