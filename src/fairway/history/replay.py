"""Decide a recorded placement again, from the recorded inputs: as it was, or under another policy."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.api.cluster import ManagedCluster
from fairway.api.clusterset import ManagedClusterSetBinding
from fairway.api.hosted_request import (
    PLACED,
    HostedClusterRequest,
    HostedClusterRequestStatus,
    HostingClusterReference,
)
from fairway.api.placement import Placement, PlacementSpec
from fairway.api.score import AddOnPlacementScore
from fairway.engine import cycle
from fairway.engine.pending import PendingAnswer
from fairway.engine.profile import Profile
from fairway.history.archive import Stored
from fairway.history.codec import InputDecoder, Tables
from fairway.history.files import HistoryFileError
from fairway.history.inputs import ABSENT, BINDINGS, COUNTS, DEBITS, HOSTS, REQUESTS, SETS, reads_of
from fairway.history.reasons import trace_of
from fairway.history.record import PLACEMENT, Inputs, Kept, Record, Trace
from fairway.history.recorder import digest_of_result
from fairway.hosts.clusters import Fleet, cells
from fairway.hosts.clusters.decisions import Holding
from fairway.hosts.clusters.tenures import Tenure
from fairway.hosts.column import Key
from fairway.hosts.instant import from_micros
from fairway.whatif.world import Key as PlacementKey
from fairway.whatif.world import World
from fairway.workloads.placement.debits import debits_of
from fairway.workloads.placement.verdict import Verdict, conclude
from fairway.workloads.placement.workload import PlacementWorkload
from kubewire.api.meta import ObjectMeta

NOT_REPLAYED: Final = "record {id} has no inputs, so it cannot be decided again: {why}"
OTHER_KIND: Final = "only decisions of placements are recorded with their inputs"
AFTER_LOSS: Final = "the inputs were lost with other records; see the gaps of fairway history"
INCOMPLETE: Final = "{path} lacks inputs of record {id} ({why})"
CELL: Final = "{host}: {cell} {old} → {new}"
NO_VALUE: Final = "none"
ISOLATED: Final = "plugin {plugin} runs in a process of its own, and cannot be asked again"

_OTHERS: Final = ("", "other decisions")
_COUNTED: Final = "other moves"
"""Owner of the counts that are not the placement's."""


class ReplayError(Exception):
    """The record cannot be decided again; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Replay:
    record: Record
    verdict: Verdict
    same: bool
    """Whether the pages and the status are exactly those that were recorded."""
    missing: tuple[str, ...]
    """Scores that a changed policy reads and the recorded cycle did not: the history may have old values of them."""

    @property
    def selected(self) -> tuple[str, ...]:
        return tuple(self.verdict.outcome.selected)

    @property
    def trace(self) -> Trace:
        return trace_of(self.verdict.outcome, self.record.before, self.verdict.status)


class Replayer:
    """Decides records of one file after the other. Records in their order share the work of decoding inputs."""

    def __init__(self) -> None:
        self._path: object = None
        self._decoder = InputDecoder()
        self._number = 0

    def replay(self, stored: Stored, *, profile: Profile, placement: Placement | None = None) -> Replay:
        """``placement`` replaces the spec and annotations of the recorded one. Raises ReplayError."""
        record, inputs = stored.record, _inputs_of(stored.record)
        fleet, recorded, tables = self._read(stored, inputs)
        asked = recorded if placement is None else _with_policy(recorded, placement)
        workload = PlacementWorkload(asked, debits=debits_of(profile))
        try:
            outcome = cycle.run(fleet.snapshot(), workload, profile, now=record.at)
        except PendingAnswer as pending:
            raise ReplayError(ISOLATED.format(plugin=pending.plugin)) from None
        verdict = conclude(outcome, workload)
        same = digest_of_result(verdict.pages, verdict.status.code.value) == inputs.result
        parts = reads_of(outcome).parts
        missing = tuple(
            sorted("/".join(part[1:]) for part in parts if part[0] in _PUBLISHED and part not in tables)
        )
        return Replay(record, verdict, same, missing)

    def changed_cells(self, before: Stored, after: Stored) -> tuple[str, ...]:
        """Return what changed between two decisions of a placement, of the clusters at stake in the later one.

        Empty if they are in different files. Raises ReplayError.
        """
        first, second = _inputs_of(before.record), _inputs_of(after.record)
        if before.file.path != after.file.path:
            return ()
        trace = after.record.trace
        names = {*after.record.added, *after.record.removed}
        names.update(host.host for host in (trace.last, trace.next) if host is not None)
        states = []
        for stored, inputs in ((before, first), (after, second)):
            tables = self._read(stored, inputs)[2]
            states.append({part: {name: table.get(name) for name in names} for part, table in tables.items()})
        old, new = states
        return tuple(
            line
            for part in sorted(new)
            for name in sorted(names)
            for line in _differences(part, name, old.get(part, {}).get(name), new[part][name])
        )

    def world(self, stored: Stored, *, profile: Profile) -> tuple[World, PlacementKey]:
        """Return the hub as the decision read it, for what-if questions. Raises ReplayError."""
        fleet, placement, _ = self._read(stored, _inputs_of(stored.record))
        return World.of_fleet(fleet, placement, profile=profile), (
            stored.record.namespace,
            stored.record.name,
        )

    def _read(self, stored: Stored, inputs: Inputs) -> tuple[Fleet, Placement, Tables]:
        record = stored.record
        try:
            tables, placement = self._tables(stored, inputs.number), self._placement(stored, inputs)
        except (ValueError, HistoryFileError) as error:
            raise ReplayError(INCOMPLETE.format(path=stored.file.path, id=record.id, why=error)) from None
        fleet = fleet_of(tables, owner=(record.namespace, record.name), held=inputs.held, kept=inputs.kept)
        return fleet, placement, tables

    def _tables(self, stored: Stored, number: int) -> Tables:
        if self._path != stored.file.path or number < self._number:
            self._path, self._decoder, self._number = stored.file.path, InputDecoder(), 0
        for at, data in stored.file.changes(after=self._number, up_to=number):
            if at != self._number + 1:
                break
            self._decoder.apply(data)
            self._number = at
        if self._number != number:
            raise ValueError(f"change {self._number + 1} is missing")
        return self._decoder.tables

    def _placement(self, stored: Stored, inputs: Inputs) -> Placement:
        record = stored.record
        data = stored.file.blob(inputs.workload)
        if data is None:
            raise ValueError("the spec is missing")
        annotations, labels, spec = msgspec.json.decode(
            data, type=tuple[dict[str, str], dict[str, str], PlacementSpec]
        )
        meta = ObjectMeta(
            name=record.name,
            namespace=record.namespace,
            uid=inputs.uid,
            creationTimestamp=None if inputs.created is None else from_micros(inputs.created),
            annotations=annotations,
            labels=labels,
        )
        return Placement(metadata=meta, spec=spec)


def _inputs_of(record: Record) -> Inputs:
    if record.inputs is None:
        why = AFTER_LOSS if record.kind == PLACEMENT else OTHER_KIND
        raise ReplayError(NOT_REPLAYED.format(id=record.id, why=why))
    return record.inputs


_PUBLISHED: Final = (cells.SCORE, cells.CALCULATOR)


def _with_policy(recorded: Placement, given: Placement) -> Placement:
    meta = msgspec.structs.replace(
        recorded.metadata, annotations=given.metadata.annotations, labels=given.metadata.labels
    )
    return msgspec.structs.replace(recorded, metadata=meta, spec=given.spec)


def fleet_of(
    tables: Mapping[Any, Mapping[str, Any]],
    *,
    owner: tuple[str, str],
    held: tuple[str, ...],
    kept: Kept | None,
) -> Fleet:
    """Return the fleet of the recorded inputs, with the decisions of one placement."""
    fleet = Fleet()
    fleet.load(tables.get(HOSTS, {}).values())
    fleet.load_scores(
        score for part, table in tables.items() if part[0] == cells.SCORE for score in table.values()
    )
    for part, table in tables.items():
        if part[0] == cells.CALCULATOR:
            for score in table.values():
                fleet.upsert_cluster_score(score)
    for host_set in tables.get(SETS, {}).values():
        fleet.put_set(host_set)
    for namespace, names in tables.get(BINDINGS, {}).items():
        for name in names:
            fleet.upsert_binding(
                ManagedClusterSetBinding(metadata=ObjectMeta(name=name, namespace=namespace))
            )
    if kept is None or kept.decided:
        own = Holding(owner=owner, clusters=held, tenures=() if kept is None else kept.tenures)
        fleet.hold(namespace=owner[0], name=owner[1], holding=own)
    if kept is not None:
        for namespace, moves in ((owner[0], kept.namespace), ("", kept.elsewhere)):
            tenures = (("", Tenure(moves=moves)),)
            fleet.hold(
                namespace=namespace,
                name=_COUNTED,
                holding=Holding(owner=(namespace, _COUNTED), clusters=(), tenures=tenures),
            )
    others = Counter({**tables.get(ABSENT, {}), **tables.get(COUNTS, {})})
    others.subtract(held)
    # One decision that names each cluster as often as all others do: only the numbers count.
    fleet.hold(
        namespace=_OTHERS[0], name=_OTHERS[1], holding=Holding(owner=None, clusters=tuple(others.elements()))
    )
    for cluster, debits in tables.get(DEBITS, {}).items():
        for debitor, deltas in debits.items():
            fleet.debit(debitor, (cluster,), deltas)
    for cluster, requests in tables.get(REQUESTS, {}).items():
        for request in requests:
            fleet.upsert_request(_request(request, tables.get(HOSTS, {}).get(cluster)))
    return fleet


def _differences(part: Key, name: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if part[0] in _PUBLISHED:
        before, after = _values(old), _values(new)
        for item in sorted(before.keys() | after.keys()):
            if before.get(item) != after.get(item):
                score = "/".join((*part[1:], item)) if item else part[1]
                yield CELL.format(
                    host=name, cell=score, old=before.get(item, NO_VALUE), new=after.get(item, NO_VALUE)
                )
    elif part == HOSTS:
        if old is None or new is None:
            yield f"{name}: {'added to' if old is None else 'deleted from'} the fleet"
            return
        for key in sorted(cells.changed_columns(old, new)):
            read = cells.cell_reader(key)
            yield CELL.format(host=name, cell=cells.describe(key), old=read(old), new=read(new))
    elif part == COUNTS:
        yield CELL.format(host=name, cell=cells.describe(cells.DECISIONS), old=old or 0, new=new or 0)
    elif part == DEBITS:
        yield f"{name}: debits of its scores by decisions that they do not include yet"


def _values(score: Any) -> dict[str, object]:
    if score is None:
        return {}
    if isinstance(score, AddOnPlacementScore):
        return {item.name: item.value for item in score.status.scores}
    return {"": score.value}


def _request(key: str, cluster: ManagedCluster | None) -> HostedClusterRequest:
    """Return a request that holds room on a cluster, and is not in its published load."""
    namespace, name = key.split("/", 1)
    place = None
    if cluster is not None:
        place = HostingClusterReference(name=cluster.metadata.name, uid=cluster.metadata.uid)
    return HostedClusterRequest(
        metadata=ObjectMeta(name=name, namespace=namespace),
        status=HostedClusterRequestStatus(phase=next(iter(PLACED)), hostingCluster=place),
    )
