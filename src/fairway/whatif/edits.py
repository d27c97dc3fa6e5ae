"""Edits of a world that can be applied and reverted: the building blocks of counterfactuals.

``preference`` orders the kinds of edits by effort, lowest first: the author of the placement can tolerate a taint, name
another set or raise maxSkew; labels, taints and membership need the owner of the cluster; a binding needs an
administrator of the set; claims, scores and amounts are measured, so changing them means changing the cluster itself.
Raising numberOfClusters comes last: it adds a place without making the cluster better.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from msgspec import structs

from fairway.api.cluster import CLUSTER_SET_LABEL, ClusterClaim, ManagedCluster, Taint
from fairway.api.clusterset import ManagedClusterSetBinding, ManagedClusterSetBindingSpec
from fairway.api.placement import EQUAL, Placement, Toleration
from fairway.whatif.world import Key, World
from fairway.workloads.placement.plugins.taints import describe as describe_taint
from kubewire.api.meta import ObjectMeta

Undo = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Edit(ABC):
    """An edit. Two edits of the same target exclude each other; edits of different targets commute."""

    preference: ClassVar[int]

    @property
    @abstractmethod
    def target(self) -> tuple[object, ...]: ...

    @property
    def magnitude(self) -> float:
        """By how many steps a number changes; 0 for other edits."""
        return 0.0

    @abstractmethod
    def describe(self) -> str: ...

    @abstractmethod
    def apply(self, world: World) -> Undo:
        """Apply the edit and return a function that reverts it."""

    def document(self) -> dict[str, Any]:
        """Return the edit as a document: kind, description, and every field, in camel case."""
        values = {_camel(field.name): getattr(self, field.name) for field in fields(self)}
        if "placement" in values:
            values["placement"] = "/".join(values["placement"])
        return {"kind": type(self).__name__, "description": self.describe(), **values}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


@contextmanager
def applied(world: World, edits: Sequence[Edit]) -> Iterator[None]:
    """Apply the edits to the world, and revert them afterwards."""
    undo: list[Undo] = []
    try:
        for edit in edits:
            # One by one: when an edit fails, the edits before it must be reverted.
            undo += [edit.apply(world)]
        yield
    finally:
        for take_back in reversed(undo):
            take_back()


# The placement and its namespace


@dataclass(frozen=True, slots=True)
class PlacementEdit(Edit):
    placement: Key

    @abstractmethod
    def change(self, source: Placement) -> Placement: ...

    def apply(self, world: World) -> Undo:
        source = world.placements[self.placement]
        world.put(self.change(source))
        return lambda: world.put(source)


@dataclass(frozen=True, slots=True)
class Tolerate(PlacementEdit):
    """Adds a toleration for exactly this taint, without expiry."""

    preference = 1
    key: str
    value: str
    effect: str

    @property
    def target(self) -> tuple[object, ...]:
        return ("taint", self.key, self.value, self.effect)

    def describe(self) -> str:
        taint = describe_taint(Taint(key=self.key, value=self.value, effect=self.effect))
        return f"let placement {'/'.join(self.placement)} tolerate the taint {taint}"

    def change(self, source: Placement) -> Placement:
        added = Toleration(key=self.key, operator=EQUAL, value=self.value, effect=self.effect)
        tolerations = (*source.spec.tolerations, added)
        return structs.replace(source, spec=structs.replace(source.spec, tolerations=tolerations))


@dataclass(frozen=True, slots=True)
class NameClusterSet(PlacementEdit):
    """Adds a bound set to spec.clusterSets."""

    preference = 2
    set: str

    @property
    def target(self) -> tuple[object, ...]:
        return ("clusterSets", self.set)

    def describe(self) -> str:
        return f"add {self.set} to spec.clusterSets of placement {'/'.join(self.placement)}"

    def change(self, source: Placement) -> Placement:
        sets = (*source.spec.clusterSets, self.set)
        return structs.replace(source, spec=structs.replace(source.spec, clusterSets=sets))


@dataclass(frozen=True, slots=True)
class Bind(Edit):
    """Adds a ManagedClusterSetBinding to the placement's namespace."""

    preference = 7
    namespace: str
    set: str

    @property
    def target(self) -> tuple[object, ...]:
        return ("binding", self.namespace, self.set)

    def describe(self) -> str:
        return f"bind cluster set {self.set} to namespace {self.namespace}"

    def apply(self, world: World) -> Undo:
        world.put(
            ManagedClusterSetBinding(
                metadata=ObjectMeta(name=self.set, namespace=self.namespace),
                spec=ManagedClusterSetBindingSpec(clusterSet=self.set),
            )
        )
        return lambda: world.fleet.delete_binding(self.namespace, self.set)


# The cluster


@dataclass(frozen=True, slots=True)
class ClusterEdit(Edit):
    cluster: str

    @abstractmethod
    def change(self, source: ManagedCluster) -> ManagedCluster: ...

    def apply(self, world: World) -> Undo:
        source = cluster_of(world, self.cluster)
        world.put(self.change(source))
        return lambda: world.put(source)


def cluster_of(world: World, name: str) -> ManagedCluster:
    """Raise KeyError if there is none."""
    snapshot = world.fleet.snapshot()
    return snapshot.cluster(snapshot.hosts.row_of[name])


@dataclass(frozen=True, slots=True)
class SetLabel(ClusterEdit):
    """``value`` None removes the label; ``old`` is used in the description."""

    preference = 4
    key: str
    value: str | None
    old: str | None = None

    @property
    def target(self) -> tuple[object, ...]:
        return ("label", self.cluster, self.key)

    def describe(self) -> str:
        return _changed("label", self.key, self.cluster, old=self.old, new=self.value)

    def change(self, source: ManagedCluster) -> ManagedCluster:
        labels = {key: value for key, value in source.metadata.labels.items() if key != self.key}
        if self.value is not None:
            labels[self.key] = self.value
        return structs.replace(source, metadata=structs.replace(source.metadata, labels=labels))


@dataclass(frozen=True, slots=True)
class RemoveTaint(ClusterEdit):
    preference = 5
    key: str
    value: str
    effect: str

    @property
    def target(self) -> tuple[object, ...]:
        return ("taint", self.key, self.value, self.effect)

    def describe(self) -> str:
        taint = describe_taint(Taint(key=self.key, value=self.value, effect=self.effect))
        return f"remove the taint {taint} from cluster {self.cluster}"

    def change(self, source: ManagedCluster) -> ManagedCluster:
        taint_key = (self.key, self.value, self.effect)
        taints = tuple(
            taint for taint in source.spec.taints if (taint.key, taint.value, taint.effect) != taint_key
        )
        return structs.replace(source, spec=structs.replace(source.spec, taints=taints))


@dataclass(frozen=True, slots=True)
class JoinClusterSet(ClusterEdit):
    """Moves the cluster into an exclusive set, out of the one it is in."""

    preference = 6
    set: str
    old: str | None = None

    @property
    def target(self) -> tuple[object, ...]:
        return ("label", self.cluster, CLUSTER_SET_LABEL)

    def describe(self) -> str:
        origin = "" if self.old is None else f" from cluster set {self.old}"
        return f"move cluster {self.cluster}{origin} to cluster set {self.set} (label {CLUSTER_SET_LABEL})"

    def change(self, source: ManagedCluster) -> ManagedCluster:
        labels = {**source.metadata.labels, CLUSTER_SET_LABEL: self.set}
        return structs.replace(source, metadata=structs.replace(source.metadata, labels=labels))


@dataclass(frozen=True, slots=True)
class SetClaim(ClusterEdit):
    """``value`` None removes the claim; ``old`` is used in the description."""

    preference = 8
    key: str
    value: str | None
    old: str | None = None

    @property
    def target(self) -> tuple[object, ...]:
        return ("claim", self.cluster, self.key)

    def describe(self) -> str:
        return _changed("claim", self.key, self.cluster, old=self.old, new=self.value)

    def change(self, source: ManagedCluster) -> ManagedCluster:
        claims = tuple(claim for claim in source.status.clusterClaims if claim.name != self.key)
        if self.value is not None:
            claims = (*claims, ClusterClaim(name=self.key, value=self.value))
        return structs.replace(source, status=structs.replace(source.status, clusterClaims=claims))


def _changed(noun: str, key: str, cluster: str, *, old: str | None, new: str | None) -> str:
    if new is None:
        return f"remove the {noun} {key} from cluster {cluster}"
    if old is None:
        return f"give cluster {cluster} the {noun} {key}={new}"
    return f"change the {noun} {key} of cluster {cluster} from {old} to {new}"


# Numbers


@dataclass(frozen=True, slots=True)
class NumericEdit(Edit):
    """A number changed by whole steps. ``with_steps(0)`` has no effect."""

    @property
    @abstractmethod
    def steps(self) -> int: ...

    @abstractmethod
    def with_steps(self, steps: int) -> Self:
        """Return the same edit with another number of steps."""

    @property
    def magnitude(self) -> float:
        return float(self.steps)


@dataclass(frozen=True, slots=True)
class WantMore(PlacementEdit, NumericEdit):
    """Raises spec.numberOfClusters."""

    preference = 12
    old: int
    value: int

    @property
    def target(self) -> tuple[object, ...]:
        return ("numberOfClusters",)

    @property
    def steps(self) -> int:
        return self.value - max(0, self.old)

    def with_steps(self, steps: int) -> Self:
        return replace(self, value=max(0, self.old) + steps)

    def describe(self) -> str:
        name = "/".join(self.placement)
        return f"raise spec.numberOfClusters of placement {name} from {self.old} to {self.value}"

    def change(self, source: Placement) -> Placement:
        return structs.replace(source, spec=structs.replace(source.spec, numberOfClusters=self.value))


@dataclass(frozen=True, slots=True)
class RaiseMaxSkew(PlacementEdit, NumericEdit):
    """Raises maxSkew of one spread constraint. ``constraint`` is its place in the list, ``key`` its topologyKey."""

    preference = 3
    constraint: int
    key: str
    old: int
    value: int

    @property
    def target(self) -> tuple[object, ...]:
        return ("maxSkew", self.constraint)

    @property
    def steps(self) -> int:
        return self.value - max(1, self.old)

    def with_steps(self, steps: int) -> Self:
        return replace(self, value=max(1, self.old) + steps)

    def describe(self) -> str:
        field = f"spec.spreadPolicy.spreadConstraints[{self.constraint}].maxSkew ({self.key})"
        return f"raise {field} of placement {'/'.join(self.placement)} from {self.old} to {self.value}"

    def change(self, source: Placement) -> Placement:
        policy = source.spec.spreadPolicy
        constraints = list(policy.spreadConstraints)
        constraints[self.constraint] = structs.replace(constraints[self.constraint], maxSkew=self.value)
        policy = structs.replace(policy, spreadConstraints=tuple(constraints))
        return structs.replace(source, spec=structs.replace(source.spec, spreadPolicy=policy))
