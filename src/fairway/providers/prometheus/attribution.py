"""Map series to clusters. Never guess: if two series map to the same cluster, neither is used.

A label of the series contains the cluster's name, or the value of one of the ManagedCluster's labels, claims or
annotations, such as a cluster ID.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec import field as entry_field

from fairway.api.cluster import ManagedCluster
from fairway.providers.document import Document

ONE_MATCH: Final = "label, claim and annotation exclude each other: keep one"
NO_LABEL: Final = "is empty; write the label of the series that names the cluster"

LISTED: Final = 5
"""Names that a message gives of many."""


class MatchEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of a ManagedCluster the label's value is compared with; its name if nothing is given."""

    label: str = ""
    claim: str = ""
    annotation: str = ""


class ClusterEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: str = "cluster"
    """Of the series."""
    match: MatchEntry = MatchEntry()
    names: dict[str, str] = entry_field(default_factory=dict)
    """Values of the label that stand for a cluster of another name. They come first."""

    def check(self, document: Document, *path: str | int) -> None:
        """Raises DocumentError."""
        if not self.label:
            raise document.error(NO_LABEL, *path, "label")
        if sum(map(bool, (self.match.label, self.match.claim, self.match.annotation))) > 1:
            raise document.error(ONE_MATCH, *path, "match")


class Labelled(Protocol):
    @property
    def labels(self) -> Mapping[str, str]: ...


S = TypeVar("S", bound=Labelled)


@dataclass(frozen=True, slots=True)
class Attributed(Generic[S]):
    of: Mapping[str, list[S]]
    """By cluster; more than one is for the caller to refuse."""
    strangers: tuple[str, ...] = ()
    """Values of the label that are no managed cluster's."""
    unlabelled: int = 0
    """Series without the label."""
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of the label that several clusters have; their series belong to none."""


class Clusters:
    """The managed clusters, by what series call them. Made anew for every round."""

    def __init__(self, entry: ClusterEntry, clusters: Mapping[str, ManagedCluster]) -> None:
        self.label = entry.label
        known: dict[str, list[str]] = {}
        for name, cluster in clusters.items():
            if called := _called(entry.match, name, cluster):
                known.setdefault(called, []).append(name)
        for called, name in entry.names.items():
            # Another's series must not come to a cluster because of its name, when this one was meant.
            known[called] = [name] if name in clusters else []
        self._known = known

    def called(self) -> dict[str, str]:
        """By the name of the cluster, what series call it. Clusters that share it with others are left out."""
        return {names[0]: called for called, names in self._known.items() if len(names) == 1}

    def attribute(self, series: Iterable[S]) -> Attributed[S]:
        of: dict[str, list[S]] = {}
        strangers: dict[str, None] = {}
        shared: dict[str, tuple[str, ...]] = {}
        unlabelled = 0
        for each in series:
            called = each.labels.get(self.label, "")
            if not called:
                unlabelled += 1
                continue
            names = self._known.get(called, [])
            if len(names) == 1:
                of.setdefault(names[0], []).append(each)
            elif names:
                shared[called] = tuple(sorted(names))
            else:
                strangers[called] = None
        return Attributed(of, tuple(strangers), unlabelled, shared)


def _called(match: MatchEntry, name: str, cluster: ManagedCluster) -> str:
    if match.label:
        return cluster.metadata.labels.get(match.label, "")
    if match.annotation:
        return cluster.metadata.annotations.get(match.annotation, "")
    if match.claim:
        claims = (each.value for each in cluster.status.clusterClaims if each.name == match.claim)
        return next(claims, "")
    return name


def some(names: Iterable[str]) -> str:
    """The first few of many, for a message."""
    listed = list(names)
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return ", ".join(listed[:LISTED]) + more
