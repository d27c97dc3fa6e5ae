"""Check an election by the history of its Lease and the writes of its leaders.

Versions order all changes on a hub, so the holder of the Lease at the version of any write is known, and must be the
writer. All times are of one machine: no replica acquires the Lease before it expires or is released, and no two
replicas are inside their guards at the same time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from typing import Literal

from kubewire.api.lease import Lease

Kind = Literal["usurped", "token", "back", "intruder", "together"]


@dataclass(frozen=True, slots=True)
class Problem:
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One state of the Lease."""

    version: int
    uid: str
    holder: str
    """Empty when it was given back."""
    token: int
    acquired: datetime
    renewed: datetime
    lasts: timedelta

    @classmethod
    def of(cls, lease: Lease) -> "Held":
        spec = lease.spec
        return cls(
            version=int(lease.metadata.resourceVersion),
            uid=lease.metadata.uid,
            holder=spec.holderIdentity,
            token=spec.leaseTransitions,
            acquired=datetime.fromisoformat(spec.acquireTime),
            renewed=datetime.fromisoformat(spec.renewTime),
            lasts=timedelta(seconds=spec.leaseDurationSeconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A write under a guard."""

    version: int
    holder: str
    token: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """Times at which a replica entered and left a guard, by the machine's clock."""

    holder: str
    token: int
    begun: float
    ended: float


def problems(lease: Sequence[Held], ledger: Sequence[Entry], guards: Sequence[Guarded]) -> list[Problem]:
    """Return all problems. Arguments are in the order of versions, as a watch sent them."""
    return [*_terms(lease), *_entries(lease, ledger), *_together(guards)]


def _terms(lease: Sequence[Held]) -> Iterator[Problem]:
    for before, after in pairwise(lease):
        if after.version <= before.version:
            yield Problem("back", f"version {after.version} after {before.version}")
        if after.uid != before.uid:
            continue  # recreated: its terms are counted from the start
        if after.token < before.token:
            yield Problem("token", f"{after} after {before}")
        elif after.token == before.token:
            if after.holder not in ("", before.holder):
                yield Problem(
                    "token", f"{after.holder} has the token of {before.holder or 'nobody'}: {after}"
                )
            if after.acquired != before.acquired:
                yield Problem("token", f"taken without a new token: {after} after {before}")
            if after.holder and after.renewed <= before.renewed:
                yield Problem("back", f"renewed at {after.renewed}, after {before.renewed}")
        else:
            if after.token != before.token + 1:
                yield Problem("token", f"{after.token} after {before.token}")
            if before.holder not in ("", after.holder) and after.acquired < before.renewed + before.lasts:
                yield Problem("usurped", f"{after} took it from {before}")


def _entries(lease: Sequence[Held], ledger: Sequence[Entry]) -> Iterator[Problem]:
    for before, after in pairwise(ledger):
        if after.version <= before.version or after.number != before.number + 1:
            yield Problem("back", f"{after} after {before}")
    for entry in ledger:
        held = [earlier for earlier in lease if earlier.version < entry.version]
        if not held or (held[-1].holder, held[-1].token) != (entry.holder, entry.token):
            yield Problem("intruder", f"{entry} was written when there was {held[-1] if held else 'nobody'}")


def _together(guards: Sequence[Guarded]) -> Iterator[Problem]:
    for one, other in combinations(guards, 2):
        if one.token != other.token and one.begun < other.ended and other.begun < one.ended:
            yield Problem("together", f"{one} and {other}")
