"""Describe the problem of a placement, and the remedy."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.placement import Placement
from fairway.engine.fault import Fault
from fairway.engine.status import Code, Status
from fairway.hosts.clusters.snapshot import ClusterSnapshot, clusters_of
from fairway.workloads.placement import conditions
from fairway.workloads.placement.plugins import clustersets, missing_score
from fairway.workloads.placement.plugins.addon_score import EXPIRED
from fairway.workloads.placement.unscored import REMEDY as UNSCORED_REMEDY
from fairway.workloads.placement.unscored import unscored
from fairway.workloads.placement.verdict import LABEL_LENGTH, Verdict
from fairway.workloads.placement.workload import placement_of
from kubewire.api.meta import TRUE, find_condition

ERROR: Final = "Error"
MISCONFIGURED: Final = "Misconfigured"
WARNING: Final = "Warning"
UNSATISFIED: Final = "Unsatisfied"

DISABLED: Final = "scheduling is disabled by annotation"
DELETING: Final = "the placement is being deleted"

BIND: Final = "create a ManagedClusterSetBinding named like the set in namespace {namespace}; {sets}"
BIND_WANTED: Final = (
    "bind one of them to namespace {namespace}, or name a bound set in spec.clusterSets: {bound}"
)
CREATE_WANTED: Final = (
    "there is no ManagedClusterSet {missing}: correct spec.clusterSets; "
    "namespace {namespace} is bound to {bound}"
)
CREATE_BOUND: Final = (
    "namespace {namespace} is bound to sets that do not exist ({missing}): create them; {sets}"
)
FILL: Final = f"add clusters to a set, for example by the label {CLUSTER_SET_LABEL}=SET"
NO_CLUSTERS: Final = "the input has no ManagedCluster: add the clusters"
SEE: Final = "see why clusters are rejected: fairway explain -f … placement {name}"
WANTS_NONE: Final = "spec.numberOfClusters is 0 or less: raise it"
RENAME: Final = f"give it a name of at most {LABEL_LENGTH} characters"
MEND: Final = "correct {field}"
MEND_PLUGIN: Final = "correct plugin {plugin}, or disable it in the scheduler configuration"
SEE_PLUGIN: Final = "see what plugin {plugin} expects of a Placement"
PUBLISH_AGAIN: Final = "these scores count 0 until their provider publishes them again"
WORST_UNTIL: Final = "these scores count as the worst until their provider publishes them again"
LET_IN_AGAIN: Final = "these clusters are left out until the provider publishes their scores again"
NO_EFFECT: Final = "annotation {annotation}: {words}, so it has no effect"
CORRECT: Final = "correct the annotation or remove it"

_EXPIRED: Final = re.compile(
    f"(?P<before>{EXPIRED.partition('{')[0]})(?P<names>.*?)(?P<after>{EXPIRED.partition('}')[2]}.*)",
    re.DOTALL,
)

BRIEF_LENGTH: Final = 240
NAMES_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Advice:
    """``kind`` is Error, Misconfigured, Warning or Unsatisfied."""

    kind: str
    message: str
    remedy: str

    @property
    def brief(self) -> str:
        """The message on one line, truncated where it lists many clusters."""
        words = self.message.split()
        listed = _EXPIRED.fullmatch(self.message)
        if listed is not None and len(names := listed["names"].split()) > NAMES_SHOWN:
            more = len(names) - NAMES_SHOWN
            return f"{listed['before']}{' '.join(names[:NAMES_SHOWN])} and {more:,} more{listed['after']}"
        text = " ".join(words)
        return text if len(text) <= BRIEF_LENGTH else f"{text[:BRIEF_LENGTH].rsplit(' ', 1)[0]} …"


def disabled_reason(source: Placement) -> str:
    """Describe why scheduling of a placement is disabled."""
    return DELETING if source.metadata.deletionTimestamp is not None else DISABLED


def satisfied(verdict: Verdict) -> tuple[bool, str]:
    """Return whether the placement is satisfied, and the reason; an error has no condition."""
    condition = find_condition(verdict.conditions, conditions.SATISFIED)
    return (False, ERROR) if condition is None else (condition.status == TRUE, condition.reason)


def advise(source: Placement, verdict: Verdict) -> tuple[Advice, ...]:
    """Return advice about each problem of the placement."""
    status = verdict.status
    advice: list[Advice] = []
    if status.code is Code.ERROR:
        advice.append(Advice(ERROR, status.message, _correct(status, verdict.outcome.faults)))
    elif status.code is Code.MISCONFIGURED:
        advice.append(Advice(MISCONFIGURED, status.message, _correct(status)))
    elif status.code is Code.WARNING:
        words = _correct(status, verdict.outcome.faults) if verdict.outcome.faults else _about_scores(status)
        advice.append(Advice(WARNING, status.message, words))
    if problem := verdict.outcome.derive(unscored):
        advice.append(Advice(WARNING, problem, UNSCORED_REMEDY))
    for fault in placement_of(verdict.outcome.context).trust.faults:
        words = NO_EFFECT.format(annotation=fault.annotation, words=fault.words)
        advice.append(Advice(WARNING, words, CORRECT))
    good, reason = satisfied(verdict)
    if not good and not status.aborts:
        condition = find_condition(verdict.conditions, conditions.SATISFIED)
        message = "" if condition is None else condition.message
        advice.append(Advice(UNSATISFIED, message, _remedy(reason, source, verdict)))
    return tuple(advice)


def _about_scores(status: Status) -> str:
    if status.plugin == missing_score.NAME:
        return LET_IN_AGAIN
    if not _EXPIRED.fullmatch(status.message):
        return ""
    worst = not status.message.endswith(EXPIRED.rpartition(" ")[2])
    return WORST_UNTIL if worst else PUBLISH_AGAIN


def _correct(status: Status, faults: Sequence[Fault] = ()) -> str:
    """Return what to correct: a plugin, the field that a plugin names, or else the placement's name."""
    if faults:
        return MEND_PLUGIN.format(plugin=faults[-1].plugin)
    if status.field:
        return MEND.format(field=status.field)
    return SEE_PLUGIN.format(plugin=status.plugin) if status.plugin else RENAME


def _remedy(reason: str, source: Placement, verdict: Verdict) -> str:
    meta = source.metadata
    snapshot = clusters_of(verdict.outcome.snapshot)
    match reason:
        case conditions.NO_BINDINGS:
            if missing := tuple(sorted(snapshot.bindings.get(meta.namespace, ()))):
                return CREATE_BOUND.format(
                    namespace=meta.namespace, missing=_listed(missing), sets=_sets(snapshot)
                )
            return BIND.format(namespace=meta.namespace, sets=_sets(snapshot))
        case conditions.NO_INTERSECTION:
            bound = clustersets.sets_of(verdict.outcome.context).bound
            wanted_sets = dict.fromkeys(source.spec.clusterSets)
            missing = tuple(name for name in wanted_sets if name not in snapshot.sets)
            if len(missing) == len(wanted_sets):
                return CREATE_WANTED.format(
                    namespace=meta.namespace, missing=_listed(missing), bound=_listed(bound)
                )
            return BIND_WANTED.format(namespace=meta.namespace, bound=_listed(bound))
        case conditions.SETS_EMPTY:
            return FILL if snapshot.hosts.row_of else NO_CLUSTERS
        case _ if verdict.outcome.context.workload.wanted == 0:
            return WANTS_NONE
        case _:
            return SEE.format(name=f"{meta.namespace}/{meta.name}")


def _sets(snapshot: ClusterSnapshot) -> str:
    return f"sets are {_listed(tuple(sorted(snapshot.sets)))}" if snapshot.sets else "there is no set yet"


def _listed(names: tuple[str, ...], most: int = 5) -> str:
    more = len(names) - most
    listed = ", ".join(names[:most])
    return f"{listed} and {more} more" if more > 0 else listed
