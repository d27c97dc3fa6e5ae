"""What the plugins read of a cycle's context."""

from collections.abc import Callable, Hashable
from typing import Any

from fairway.api.cluster import ManagedCluster
from fairway.engine.points import CommitContext, Context
from fairway.engine.workload import Workload
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.hosts.column import Key
from fairway.workloads.hosting.workload import HostingSpec

NOT_A_REQUEST = "plugin {plugin} places HostedClusterRequests; got {kind}"


def workload_in(context: Context | CommitContext, plugin: str) -> Workload[HostingSpec]:
    workload: Any = context.workload
    if isinstance(workload, Workload) and isinstance(workload.spec, HostingSpec):
        return workload
    raise TypeError(NOT_A_REQUEST.format(plugin=plugin, kind=type(workload).__name__))


def spec_in(context: Context | CommitContext, plugin: str) -> HostingSpec:
    return workload_in(context, plugin).spec


def cluster_at(context: Context, row: int) -> ManagedCluster:
    objects: Any = context.snapshot.hosts.objects
    cluster: ManagedCluster = objects[row]
    return cluster


def value_at(context: Context, key: Key, row: int) -> Hashable | None:
    """Return what a cluster has in a column, without creating it for all clusters."""
    value: Hashable | None = cells.cell_reader(key)(cluster_at(context, row))
    return value


def rows_with(
    context: Context, key: Key, candidates: Bits, accepts: Callable[[Hashable | None], bool]
) -> Bits:
    """Return the candidates whose value of a column is accepted. Each value is checked once, however many have it."""
    rows, read = bitmap.rows_of(candidates), cells.cell_reader(key)
    objects = context.snapshot.hosts.objects
    values = [read(objects[row]) for row in rows.tolist()]
    kinds = set(values)
    accepted = {value for value in kinds if accepts(value)}
    if len(accepted) == len(kinds):
        return candidates
    passed = [row for row, value in zip(rows.tolist(), values, strict=True) if value in accepted]
    return bitmap.from_rows(passed, context.snapshot.capacity)


def rows_without(context: Context, key: Key, candidates: Bits) -> Bits:
    """Return the candidates with 0 in a column of amounts."""
    rows = bitmap.rows_of(candidates)
    without = context.snapshot.counts(key).values[rows] == 0
    return candidates if without.all() else bitmap.from_rows(rows[without], context.snapshot.capacity)
