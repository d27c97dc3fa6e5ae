"""Records of decisions: the same shape for all kinds of work.

A record has what a reader needs without its inputs: what changed, why it was decided then, and the trace of the hosts
that it concerns. A placement's record also refers to everything that its cycle read, by number and digest, from which
``replay`` decides it again.
"""

import os
import zlib
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct

from fairway.controllers.runtime.decision_history import HOSTED_CLUSTER, MIGRATION, POD
from fairway.hosts.clusters.tenures import Tenures
from fairway.hosts.instant import Micros

PLACEMENT: Final = "placement"
KINDS: Final = (PLACEMENT, HOSTED_CLUSTER, POD, MIGRATION)

DIGEST_BYTES: Final = 16
MOST_HOSTS: Final = 8
"""Hosts with a trace of their own, of those that a decision added and of those that it removed."""
MOST_TEXT: Final = 300
"""Characters of a reason."""

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS, _RANDOM_DIGITS = 10, 6


class Term(Struct, frozen=True, gc=False, array_like=True):
    """A prioritizer's part of a total."""

    plugin: str
    score: int
    weight: int = 1


class HostReason(Struct, frozen=True, gc=False, array_like=True):
    """Why a host was selected, or no longer is."""

    host: str
    rank: int = 0
    """From 1; 0 for a host that a plugin rejected, or that does not exist."""
    total: int = 0
    plugin: str = ""
    """The plugin that rejected it."""
    reason: str = ""
    terms: tuple[Term, ...] = ()


class Trace(Struct, frozen=True, gc=False, array_like=True):
    """What the cycle concluded, in short."""

    status: str = ""
    message: str = ""
    hosts: int = 0
    """Number of hosts that there were."""
    stages: tuple[tuple[str, int], ...] = ()
    """Each filter, and how many hosts were left after it."""
    feasible: int = 0
    added: tuple[HostReason, ...] = ()
    removed: tuple[HostReason, ...] = ()
    last: HostReason | None = None
    """The selected host with the lowest rank."""
    next: HostReason | None = None
    """The best host that was not selected."""

    @property
    def margin(self) -> int | None:
        """Points between the two, if there are both."""
        return None if self.last is None or self.next is None else self.last.total - self.next.total


class Kept(Struct, frozen=True, gc=False, array_like=True):
    """What a stability contract read of decisions."""

    decided: bool
    """Whether the placement had a PlacementDecision, be it empty."""
    tenures: Tenures = ()
    namespace: tuple[Micros, ...] = ()
    """Moves of other placements in its namespace, within the last hour."""
    elsewhere: tuple[Micros, ...] = ()
    """Moves in other namespaces."""


class Inputs(Struct, frozen=True, gc=False, array_like=True):
    """What replay needs. ``held`` are the clusters in the decisions of the placement, on each page."""

    number: int
    """Of the last change of the inputs, in the same file."""
    held: tuple[str, ...]
    created: Micros | None
    uid: str
    workload: bytes = b""
    """Digest of the spec and annotations."""
    result: bytes = b""
    """Digest of the pages and the status that were decided."""
    kept: Kept | None = None
    """None without a stability contract."""


class Record(Struct, frozen=True, gc=False, array_like=True):
    id: str
    kind: str
    namespace: str
    name: str
    at: Micros
    before: tuple[str, ...]
    after: tuple[str, ...]
    cause: str
    """What caused the decision, as the queue of the workload knows it."""
    trace: Trace = Trace()
    inputs: Inputs | None = None
    error: str = ""
    """Why the hub does not have the decision, or only parts of it; empty if it was written."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def added(self) -> tuple[str, ...]:
        before = frozenset(self.before)
        return tuple(host for host in self.after if host not in before)

    @property
    def removed(self) -> tuple[str, ...]:
        after = frozenset(self.after)
        return tuple(host for host in self.before if host not in after)


class RecordIds:
    """Makes ids that sort by time: 50 bits of milliseconds and 30 random ones, in 16 letters and digits."""

    def __call__(self, at: Micros) -> str:
        moment = max(0, at // 1000) & ((1 << 50) - 1)
        return _digits(moment, _TIME_DIGITS) + _digits(
            int.from_bytes(os.urandom(4), "big") >> 2, _RANDOM_DIGITS
        )


def _digits(number: int, count: int) -> str:
    return "".join(_ALPHABET[(number >> 5 * place) & 31] for place in reversed(range(count)))


def digest(parts: Iterable[bytes]) -> bytes:
    made = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Record)
_COMPRESSED_FROM: Final = 200
"""Bytes; below it compression gains nothing."""


def encode(record: Record) -> bytes:
    body = _encoder.encode(record)
    if len(body) < _COMPRESSED_FROM:
        return b"\0" + body
    return b"\1" + zlib.compress(body, 3)


def decode(body: bytes) -> Record:
    """Raises ValueError for a body that is no record."""
    try:
        return _decoder.decode(zlib.decompress(body[1:]) if body[:1] == b"\1" else body[1:])
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from None
