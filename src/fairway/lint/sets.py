"""Cluster sets and bindings: whether a placement can reach any cluster at all."""

from collections.abc import Iterator
from typing import Final

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.clusterset import LABEL_SELECTOR, ManagedClusterSet
from fairway.api.placement import Placement
from fairway.hosts import bitmap, selection
from fairway.hosts.clusters import cells
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, some
from fairway.workloads.placement.plugins.clustersets import find_sets
from kubewire.api.selector import quote

NO_CLUSTERS: Final = info("no-clusters", "No ManagedCluster is given, so nothing is compared with the fleet.")
NO_BINDING: Final = error("no-binding", "The placement's namespace is bound to no existing cluster set.")
NO_SET_REACHABLE: Final = error(
    "no-set-reachable", "None of the sets the placement names is bound to its namespace."
)
SET_UNKNOWN: Final = warning("set-unknown", "The placement names a set that does not exist.")
SET_NOT_BOUND: Final = warning(
    "set-not-bound", "The placement names a set that is not bound to its namespace."
)
BINDING_SET_UNKNOWN: Final = warning(
    "binding-set-unknown", "The binding is named like no existing set, so it binds nothing."
)
BINDING_NAME_DIFFERS: Final = error("binding-name-differs", "The binding is not named like the set it binds.")
SET_BROKEN: Final = error("set-broken", "The set's selector cannot be used; placements that use it freeze.")
SET_SELECTS_NOTHING: Final = warning(
    "set-selects-nothing", "The set is of the type LabelSelector and has no selector, so it has no members."
)
SET_EMPTY: Final = warning("set-empty", "The set has no members.")
CLUSTER_SET_UNKNOWN: Final = warning(
    "cluster-set-unknown", "Clusters are labelled as members of a set that does not exist."
)

RULES: Final = (
    NO_CLUSTERS,
    NO_BINDING,
    NO_SET_REACHABLE,
    SET_UNKNOWN,
    SET_NOT_BOUND,
    BINDING_SET_UNKNOWN,
    BINDING_NAME_DIFFERS,
    SET_BROKEN,
    SET_SELECTS_NOTHING,
    SET_EMPTY,
    CLUSTER_SET_UNKNOWN,
)


def check(scene: Scene) -> Iterator[Finding]:
    # A file with only placements does not describe the hub they are meant for.
    if scene.populated or scene.sets or scene.bindings:
        for placement in scene.placements:
            yield from _placement(scene, placement)
    if not scene.populated and scene.placements:
        yield NO_CLUSTERS.at(
            scene.placements[0],
            "",
            "no ManagedCluster is given, so selectors, tolerations and scores are not compared with a fleet",
            "give the clusters too, for example: kubectl get managedclusters -o yaml > clusters.yaml",
        )
    yield from _bindings(scene)
    for host_set in scene.sets:
        yield from _set(scene, host_set)
    yield from _clusters(scene)


def _placement(scene: Scene, placement: Placement) -> Iterator[Finding]:
    namespace = placement.metadata.namespace
    wanted = placement.spec.clusterSets
    sets = find_sets(scene.snapshot, namespace, wanted)
    if not sets.bound:
        yield NO_BINDING.at(
            placement,
            "metadata.namespace",
            f"namespace {quote(namespace)} is bound to no existing cluster set, so no cluster can be selected",
            "create a ManagedClusterSetBinding in it, named like the set",
        )
        return
    if not sets.eligible:
        yield NO_SET_REACHABLE.at(
            placement,
            "spec.clusterSets",
            f"none of {', '.join(wanted)} is bound to namespace {quote(namespace)}; "
            f"bound are {some(sets.bound)}",
            "name a bound set, or bind one of these with a ManagedClusterSetBinding",
        )
    for at, name in enumerate(wanted):
        path = f"spec.clusterSets[{at}]"
        if name not in scene.snapshot.sets:
            yield SET_UNKNOWN.at(
                placement,
                path,
                f"there is no ManagedClusterSet {quote(name)}",
                guess(name, scene.snapshot.sets.keys(), otherwise="create the set or remove the name"),
            )
        elif name not in sets.bound:
            yield SET_NOT_BOUND.at(
                placement,
                path,
                f"set {quote(name)} exists but is not bound to namespace {quote(namespace)}",
                f"create a ManagedClusterSetBinding named {quote(name)} in the namespace",
            )


def _bindings(scene: Scene) -> Iterator[Finding]:
    for binding in scene.bindings:
        name, bound = binding.metadata.name, binding.spec.clusterSet
        if name != bound:
            yield BINDING_NAME_DIFFERS.at(
                binding,
                "spec.clusterSet",
                f"the binding is for {quote(bound)} but binds {quote(name)}: the name counts",
                f"name the binding {quote(bound)}",
            )
        if name not in scene.snapshot.sets and (scene.sets or scene.populated):
            yield BINDING_SET_UNKNOWN.at(
                binding,
                "metadata.name",
                f"there is no ManagedClusterSet {quote(name)}, so the binding binds nothing",
                guess(name, scene.snapshot.sets.keys(), otherwise="create the set or delete the binding"),
            )


def _set(scene: Scene, source: ManagedClusterSet) -> Iterator[Finding]:
    compiled = scene.snapshot.sets[source.metadata.name]
    how = source.spec.clusterSelector
    if compiled.error is not None:
        yield SET_BROKEN.at(
            source,
            "spec.clusterSelector",
            f"{compiled.error}: placements that may use the set keep what they have until it is corrected",
            "correct selectorType and labelSelector",
        )
    elif how.selectorType == LABEL_SELECTOR and how.labelSelector is None:
        yield SET_SELECTS_NOTHING.at(
            source,
            "spec.clusterSelector",
            "the type is LabelSelector and there is no labelSelector, which selects nothing",
            "write labelSelector: {} for all clusters, or a selector",
        )
    elif scene.populated:
        members = selection.select(
            scene.snapshot, compiled.selector, kind=cells.LABEL, among=scene.snapshot.live
        )
        if not bitmap.any_of(members):
            yield SET_EMPTY.at(
                source,
                "spec.clusterSelector",
                f"no cluster is in set {quote(compiled.name)}",
                f"label clusters with {CLUSTER_SET_LABEL}={compiled.name}"
                if how.selectorType != LABEL_SELECTOR
                else "correct the selector, or label clusters so that it matches",
            )


def _clusters(scene: Scene) -> Iterator[Finding]:
    column = scene.snapshot.codes(cells.label(CLUSTER_SET_LABEL))
    for value, code in sorted(column.items(), key=str):
        name = str(value)
        if not name or name in scene.snapshot.sets:
            continue
        clusters = scene.names(column.bitmap(code))
        first = scene.snapshot.cluster(scene.snapshot.hosts.row_of[clusters[0]])
        yield CLUSTER_SET_UNKNOWN.at(
            first,
            f"metadata.labels[{CLUSTER_SET_LABEL}]",
            f"{count(len(clusters), 'cluster')} ({some(clusters)}) labelled for set {quote(name)}, "
            "which does not exist",
            guess(name, scene.snapshot.sets.keys(), otherwise="create the set or correct the label"),
        )
