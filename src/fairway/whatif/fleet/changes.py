"""Changes of a fleet, as the objects that are different afterwards.

A drain adds a taint that placements do not tolerate, as an administrator would. A lost cluster is one whose agent
stopped: the hub's condition and taint are those of a cluster whose lease expired. Another weight is an edit of
spec.prioritizerPolicy. An added cluster is a copy of one that the fleet has, with its scores, under another name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec import structs

from fairway.api.cluster import CONDITION_AVAILABLE, NO_SELECT, TAINT_UNREACHABLE, ManagedCluster, Taint
from fairway.api.kinds import KubeObject
from fairway.api.placement import (
    ADD_ON,
    BUILT_IN,
    AddOnScore,
    Placement,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
)
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, managed_cluster_score_name
from fairway.controllers.availability.controller import STOPPED, STOPPED_MESSAGE
from fairway.hosts.clusters.scores import calculator_of
from fairway.whatif.names import suggestion
from kubewire.api.meta import UNKNOWN, Condition, set_condition
from kubewire.api.selector import LabelSelector, SelectorError, compile_selector
from kubewire.api.selector_parser import parse_selector

Identity = tuple[str, str, str]
"""(kind, namespace, name)"""

DRAINED: Final = "fairway.dev/drained"
"""Key of the taint of a drained cluster."""
ADDED: Final = "added-{number}"
"""Name of an added cluster."""
WEIGHTS: Final = range(-10, 11)
NO_CLUSTER: Final = "cluster {name} not found; {hint}"
NO_PLACEMENT: Final = "placement {name} not found; {hint}"
NO_MATCH: Final = "no cluster has the labels {selector}"
BAD_SELECTOR: Final = "{selector!r} is not a label selector: {reason}"
BAD_WEIGHT: Final = (
    "{text!r} is not a weight; write NS/NAME:PRIORITIZER=WEIGHT, for example ns1/web:Steady=3 or "
    "ns1/web:AddOn/resource-usage-score/cpuAvailable=2"
)
WEIGHT_RANGE: Final = "{text!r}: a weight must be between -10 and 10"
NO_TEMPLATE: Final = "the fleet has no cluster that added clusters could be like"


class ChangeError(Exception):
    """A change that the fleet does not allow; the message names what to do."""


@dataclass(frozen=True, slots=True)
class Changed:
    """An object that is different afterwards. ``before`` is None if it is created."""

    before: KubeObject | None
    after: KubeObject
    description: str
    hypothetical: bool = False
    """Whether it is no change that a user could make, but an event such as an outage."""


def identity(thing: KubeObject) -> Identity:
    meta = thing.metadata
    return thing.kind, meta.namespace, meta.name


class Editor:
    """Collects changes of objects. A later change of an object continues from an earlier one."""

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self._objects: dict[Identity, KubeObject] = {identity(thing): thing for thing in objects}
        self._changed: dict[Identity, Changed] = {}

    def changes(self) -> tuple[Changed, ...]:
        """Return the objects that differ from before, in the order of their first change."""
        return tuple(change for change in self._changed.values() if change.before != change.after)

    def existing(self, thing: KubeObject) -> KubeObject | None:
        return self._objects.get(identity(thing))

    def put(self, after: KubeObject, description: str, *, hypothetical: bool = False) -> None:
        """Create or replace an object."""
        key = identity(after)
        earlier = self._changed.get(key)
        self._changed[key] = Changed(
            before=self._objects.get(key) if earlier is None else earlier.before,
            after=after,
            description=description if earlier is None else f"{earlier.description}; {description}",
            hypothetical=hypothetical or (earlier is not None and earlier.hypothetical),
        )
        self._objects[key] = after

    def drain(self, name: str, *, now: datetime) -> None:
        """Taint a cluster so that placements leave it, except those that tolerate the taint."""
        cluster = self._cluster(name)
        if any(taint.key == DRAINED and taint.effect == NO_SELECT for taint in cluster.spec.taints):
            return
        self.put(_tainted(cluster, DRAINED, now=now), f"drain cluster {name}")

    def lose(self, selector: str, *, now: datetime) -> None:
        """Make the clusters with these labels unreachable."""
        try:
            wanted = compile_selector(LabelSelector(matchExpressions=parse_selector(selector)))
        except SelectorError as error:
            raise ChangeError(BAD_SELECTOR.format(selector=selector, reason=error)) from None
        lost = [cluster for cluster in self._clusters() if wanted.matches(cluster.metadata.labels)]
        if not lost:
            raise ChangeError(NO_MATCH.format(selector=selector))
        for cluster in lost:
            conditions = set_condition(
                cluster.status.conditions or (),
                Condition(type=CONDITION_AVAILABLE, status=UNKNOWN, reason=STOPPED, message=STOPPED_MESSAGE),
                now=now,
            )
            gone = structs.replace(cluster, status=structs.replace(cluster.status, conditions=conditions))
            if not any(taint.key == TAINT_UNREACHABLE for taint in gone.spec.taints):
                gone = _tainted(gone, TAINT_UNREACHABLE, now=now)
            self.put(gone, f"lose cluster {cluster.metadata.name}", hypothetical=True)

    def set_weight(self, text: str) -> None:
        """Change the weight of a prioritizer: NS/NAME:PRIORITIZER=WEIGHT."""
        name, colon, setting = text.partition(":")
        namespace, slash, placement_name = name.partition("/")
        prioritizer, equals, number = setting.rpartition("=")
        try:
            weight = int(number)
        except ValueError:
            raise ChangeError(BAD_WEIGHT.format(text=text)) from None
        if not (colon and slash and equals and prioritizer):
            raise ChangeError(BAD_WEIGHT.format(text=text))
        if weight not in WEIGHTS:
            raise ChangeError(WEIGHT_RANGE.format(text=text))
        coordinate = _coordinate(prioritizer)
        if coordinate is None:
            raise ChangeError(BAD_WEIGHT.format(text=text))
        placement = self._objects.get(("Placement", namespace, placement_name))
        if not isinstance(placement, Placement):
            known = ["/".join(key[1:]) for key in self._objects if key[0] == "Placement"]
            raise ChangeError(NO_PLACEMENT.format(name=name, hint=suggestion(name, sorted(known))))
        policy = placement.spec.prioritizerPolicy or PrioritizerPolicy()
        configured = PrioritizerConfig(scoreCoordinate=coordinate, weight=weight)
        kept = list(policy.configurations)
        at = [number for number, config in enumerate(kept) if config.scoreCoordinate == coordinate]
        if at:
            kept[at[0]] = configured
        else:
            kept.append(configured)
        policy = structs.replace(policy, configurations=tuple(kept))
        changed = structs.replace(placement, spec=structs.replace(placement.spec, prioritizerPolicy=policy))
        self.put(changed, f"set the weight of {prioritizer} in placement {name} to {weight}")

    def add_clusters(self, count: int) -> None:
        """Add copies of the fleet's clusters, in turn by name, with their scores."""
        templates = sorted(self._clusters(), key=lambda cluster: cluster.metadata.name)
        if count and not templates:
            raise ChangeError(NO_TEMPLATE)
        scores: dict[str, list[AddOnPlacementScore | ManagedClusterScore]] = {}
        for thing in self._objects.values():
            if isinstance(thing, AddOnPlacementScore | ManagedClusterScore):
                scores.setdefault(thing.metadata.namespace, []).append(thing)
        number = 0
        for at in range(count):
            template = templates[at % len(templates)]
            number += 1
            while ("ManagedCluster", "", ADDED.format(number=number)) in self._objects:
                number += 1
            name = ADDED.format(number=number)
            meta = structs.replace(template.metadata, name=name, uid="", resourceVersion="")
            description = f"add cluster {name}, like {template.metadata.name}"
            self.put(structs.replace(template, metadata=meta), description, hypothetical=True)
            for score in scores.get(template.metadata.name, ()):
                self.put(_score_of(score, name), description, hypothetical=True)

    def _clusters(self) -> Iterator[ManagedCluster]:
        return (thing for thing in list(self._objects.values()) if isinstance(thing, ManagedCluster))

    def _cluster(self, name: str) -> ManagedCluster:
        cluster = self._objects.get(("ManagedCluster", "", name))
        if isinstance(cluster, ManagedCluster):
            return cluster
        known = sorted(cluster.metadata.name for cluster in self._clusters())
        raise ChangeError(NO_CLUSTER.format(name=name, hint=suggestion(name, known)))


def _tainted(cluster: ManagedCluster, key: str, *, now: datetime) -> ManagedCluster:
    taints = (*cluster.spec.taints, Taint(key=key, effect=NO_SELECT, timeAdded=now))
    return structs.replace(cluster, spec=structs.replace(cluster.spec, taints=taints))


def _coordinate(prioritizer: str) -> ScoreCoordinate | None:
    """Parse the name of a prioritizer as explanations have it."""
    parts = prioritizer.split("/")
    if len(parts) == 1:
        return ScoreCoordinate(type=BUILT_IN, builtIn=prioritizer)
    if len(parts) != 3 or parts[0] != ADD_ON or not all(parts):
        return None
    return ScoreCoordinate(type=ADD_ON, addOn=AddOnScore(resourceName=parts[1], scoreName=parts[2]))


def _score_of(
    score: AddOnPlacementScore | ManagedClusterScore, cluster: str
) -> AddOnPlacementScore | ManagedClusterScore:
    """Return a score as another cluster's. The name of a ManagedClusterScore contains its cluster's."""
    meta = structs.replace(score.metadata, namespace=cluster, uid="", resourceVersion="")
    if isinstance(score, ManagedClusterScore):
        calculator = calculator_of(score) or score.metadata.name
        meta = structs.replace(meta, name=managed_cluster_score_name(cluster=cluster, calculator=calculator))
    return structs.replace(score, metadata=meta)
