"""Score debits: how decisions are expected to change the scores of clusters that have not been published since.

As a reservation in the ledger, a debit is a promise that is not observed yet. It is confirmed by the next version of
the AddOnPlacementScore, which measures the real effect, or released when the placement gives up the cluster. It is no
entry of the ledger, because a score has no capacity, and the bounds of debits are those of namespaces.

A user who may create Placements in one namespace can write debits, so their effect on other namespaces is bounded:

- They only make a cluster less attractive. Falling and rising scores are summed apart; a placement that ranks by a
  score with a positive weight sees the falling ones, one with a negative weight the rising ones.
- A placement sees the debits of its own namespace in full, those of another namespace up to ``NAMESPACE_BOUND``, and
  those of all other namespaces together up to ``FOREIGN_BOUND``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from fairway.hosts.clusters.cells import DEBIT
from fairway.hosts.clusters.decisions import Owner
from fairway.hosts.column import Key

Deltas = Mapping[tuple[str, str], int]
"""Expected change by (resource name, score name)."""
NO_DEBITS: Final[Deltas] = MappingProxyType({})

NAMESPACE_BOUND: Final = 50
"""Maximum effect of the debits of one namespace on a score of a cluster, for placements of others: a quarter of the
scale from -100 to 100."""
FOREIGN_BOUND: Final = 200
"""Maximum effect of all other namespaces together: the whole scale, beyond which nothing gets worse."""

FALLS: Final = "falls"
RISES: Final = "rises"


@dataclass(frozen=True, slots=True)
class DebitRules:
    """What a profile defines about the score debits of its placements."""

    defaults: Deltas = field(default_factory=lambda: NO_DEBITS)
    """Debits of all placements that rank by the score."""
    ignored: tuple[str, ...] = ()
    """Namespaces whose placements make no debits and see none; a final asterisk matches any rest."""

    def ignores(self, namespace: str) -> bool:
        return any(
            namespace.startswith(name[:-1]) if name.endswith("*") else namespace == name
            for name in self.ignored
        )


NO_RULES: Final = DebitRules()


def shared_debits(resource: str, score: str, *, rises: bool) -> Key:
    """Return the column with the debits of all namespaces, each up to its bound."""
    return (DEBIT, resource, score, RISES if rises else FALLS)


class Debits:
    __slots__ = ("_by_cluster", "_namespaces", "_sums", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self._by_cluster: dict[str, dict[Owner, Deltas]] = {}
        self._sums: dict[str, dict[Key, dict[str, int]]] = {}
        """By cluster and shared column, the size of the debits of each namespace. Values are replaced, not changed:
        forks share them."""
        self._namespaces: dict[str, int] = {}
        """Number of debits by namespace."""

    def __len__(self) -> int:
        return sum(map(len, self._by_cluster.values()))

    def __bool__(self) -> bool:
        return bool(self._by_cluster)

    def clusters(self) -> Iterator[str]:
        return iter(self._by_cluster)

    def has(self, namespace: str) -> bool:
        """Return whether a placement of the namespace debits a cluster."""
        return namespace in self._namespaces

    def of(self, cluster: str) -> Mapping[Owner, Deltas]:
        """Return the debits of a cluster by placement. The caller must not modify it."""
        return self._by_cluster.get(cluster, {})

    def total(self, cluster: str, column: Key) -> int:
        """Return the cell of a column, as a size: of a falling score, too, it is positive."""
        sums = self._sums.get(cluster, {}).get(column[:4], {})
        if len(column) > 4:
            return sums.get(column[4], 0)
        return sum(min(size, NAMESPACE_BOUND) for size in sums.values())

    def put(self, cluster: str, owner: Owner, deltas: Deltas) -> set[Key]:
        """Replace a placement's debit of a cluster; nothing for none. Return the columns that changed."""
        owners = dict(self.of(cluster))
        old = owners.pop(owner, {})
        if deltas:
            owners[owner] = deltas
        if owners:
            self._by_cluster[cluster] = owners
        else:
            self._by_cluster.pop(cluster, None)
        namespace, changed = owner[0], set[Key]()
        self._count(namespace, bool(deltas) - bool(old))
        sums = dict(self._sums.get(cluster, {}))
        for key in {*old, *deltas}:
            # Apart, so that a rising score cannot hide a falling one: a debit never makes a cluster more attractive.
            for rises in (False, True):
                before, after = (_size(debit.get(key, 0), rises=rises) for debit in (old, deltas))
                if before == after:
                    continue
                column = shared_debits(*key, rises=rises)
                sizes = dict(sums.get(column, {}))
                sizes[namespace] = sizes.get(namespace, 0) + after - before
                if not sizes[namespace]:
                    del sizes[namespace]
                sums[column] = sizes
                if not sizes:
                    del sums[column]
                changed |= {column, (*column, namespace)}
        if sums:
            self._sums[cluster] = sums
        else:
            self._sums.pop(cluster, None)
        return changed

    def _count(self, namespace: str, step: int) -> None:
        if step:
            count = self._namespaces.get(namespace, 0) + step
            if count:
                self._namespaces[namespace] = count
            else:
                del self._namespaces[namespace]

    def fork(self) -> "Debits":
        other = Debits()
        # Shallow, because ``put`` replaces the values: a copy per write would otherwise take as long as all debits.
        other._by_cluster = self._by_cluster.copy()
        other._sums, other._namespaces = self._sums.copy(), self._namespaces.copy()
        return other


def _size(change: int, *, rises: bool) -> int:
    return max(0, change if rises else -change)
