"""Compute the cluster status that is reported to the hub, from nodes and claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairway.api.claim import ClusterClaim
from fairway.api.cluster import ManagedClusterStatus
from fairway.api.node import Node
from kubewire.api.quantity import Quantity, QuantityError

SPOKE_ONLY: Final = "open-cluster-management.io/spoke-only"
"""Claims with this label, of any value, are not reported."""
RESERVED: Final = frozenset(
    {
        "id.k8s.io",
        "kubeversion.open-cluster-management.io",
        "platform.open-cluster-management.io",
        "product.open-cluster-management.io",
    }
)
"""Claims that are always reported."""
CUSTOM_CLAIMS: Final = 20
"""Default limit of other claims."""
NOTHING: Final = Quantity.parse("0")

Amounts = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    version: str
    capacity: Amounts
    allocatable: Amounts
    claims: tuple[tuple[str, str], ...]

    def is_in(self, status: ManagedClusterStatus) -> bool:
        """Whether the hub has all of this report. Capacity may have further resources of other writers."""
        return (
            status.version.kubernetes == self.version
            and _contains(self.capacity, status.capacity)
            and _contains(self.allocatable, status.allocatable)
            and tuple((clusterclaim.name, clusterclaim.value) for clusterclaim in status.clusterClaims)
            == self.claims
        )

    def document(self) -> dict[str, Any]:
        """The status to apply, without empty maps.

        Where the report before had amounts, an apply of an empty map makes the field null, and kube-apiserver refuses
        the whole status. An apply without the field removes it.
        """
        amounts = {"capacity": dict(self.capacity), "allocatable": dict(self.allocatable)}
        return {
            "version": {"kubernetes": self.version},
            **{field: given for field, given in amounts.items() if given},
            "clusterClaims": [{"name": name, "value": value} for name, value in self.claims],
        }


def _contains(amounts: Amounts, known: Mapping[str, str | int | float]) -> bool:
    return all(name in known and _equal(amount, known[name]) for name, amount in amounts.items())


def _equal(one: str, other: str | int | float) -> bool:
    try:
        return Quantity.parse(one) == Quantity.parse(other)
    except QuantityError:
        return False


def totals(nodes: Iterable[Node]) -> tuple[Amounts, Amounts]:
    """Return the capacity of all nodes, and the allocatable resources of schedulable ones.

    A resource that only cordoned nodes have is allocatable as "0", so that placements rank the cluster last for it. A
    missing amount would count as unknown.
    """
    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    for node in nodes:
        _add(capacity, node.status.capacity)
        if not node.spec.unschedulable:
            _add(allocatable, node.status.allocatable)
    return _format(capacity), _format(dict.fromkeys(capacity, NOTHING) | allocatable)


def _add(sums: dict[str, Quantity], amounts: Mapping[str, str | int | float]) -> None:
    for name, text in amounts.items():
        try:
            amount = Quantity.parse(text)
        except QuantityError:
            continue  #  one invalid amount must not prevent the report
        sums[name] = sums[name] + amount if name in sums else amount


def _format(sums: Mapping[str, Quantity]) -> Amounts:
    return {name: str(sums[name]) for name in sorted(sums)}


def claims(
    claims: Iterable[ClusterClaim], *, most: int = CUSTOM_CLAIMS
) -> tuple[tuple[tuple[str, str], ...], int]:
    """Return reserved claims, then others, each sorted by name, and the number of omitted ones."""
    reported = sorted(
        (claim.metadata.name, claim.spec.value)
        for claim in claims
        if SPOKE_ONLY not in claim.metadata.labels and claim.spec.value
    )
    reserved = [claim for claim in reported if claim[0] in RESERVED]
    custom = [claim for claim in reported if claim[0] not in RESERVED]
    return (*reserved, *custom[:most]), max(0, len(custom) - most)
