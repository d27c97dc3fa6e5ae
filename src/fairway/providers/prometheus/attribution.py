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
"""Limit of names in a message."""


class MatchEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Field of a ManagedCluster that the label's value is compared with; the name by default."""

    label: str = ""
    claim: str = ""
    annotation: str = ""


class ClusterEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    label: str = "cluster"
    """Label of the series."""
    match: MatchEntry = MatchEntry()
    names: dict[str, str] = entry_field(default_factory=dict)
    """Cluster names by label value; overrides ``match``."""

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
    """Series by cluster; the caller rejects several of one cluster."""
    unknown: tuple[str, ...] = ()
    """Label values that match no cluster."""
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Label values of several clusters; their series are dropped."""


class Clusters:
    """The clusters of one round by label value."""

    def __init__(self, entry: ClusterEntry, clusters: Mapping[str, ManagedCluster]) -> None:
        self.label = entry.label
        known: dict[str, list[str]] = {}
        for name, cluster in clusters.items():
            if value := _label_value(entry.match, name, cluster):
                known.setdefault(value, []).append(name)
        for value, name in entry.names.items():
            # A renamed cluster that does not exist must not match another cluster of that name.
            known[value] = [name] if name in clusters else []
        self._known = known

    def label_values(self) -> dict[str, str]:
        """Label values by cluster, without those that several clusters share."""
        return {names[0]: value for value, names in self._known.items() if len(names) == 1}

    def attribute(self, series: Iterable[S]) -> Attributed[S]:
        of: dict[str, list[S]] = {}
        unknown: dict[str, None] = {}
        shared: dict[str, tuple[str, ...]] = {}
        for one_series in series:
            value = one_series.labels.get(self.label, "")
            if not value:
                continue
            names = self._known.get(value, [])
            if len(names) == 1:
                of.setdefault(names[0], []).append(one_series)
            elif names:
                shared[value] = tuple(sorted(names))
            else:
                unknown[value] = None
        return Attributed(of, tuple(unknown), shared)


def _label_value(match: MatchEntry, name: str, cluster: ManagedCluster) -> str:
    if match.label:
        return cluster.metadata.labels.get(match.label, "")
    if match.annotation:
        return cluster.metadata.annotations.get(match.annotation, "")
    if match.claim:
        claims = (claim.value for claim in cluster.status.clusterClaims if claim.name == match.claim)
        return next(claims, "")
    return name


def abbreviate(names: Iterable[str]) -> str:
    """Join the first names for a message, with the count of the others."""
    listed = list(names)
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return ", ".join(listed[:LISTED]) + more
