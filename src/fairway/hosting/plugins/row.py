"""What the plugins read of a cycle's context."""

from typing import Any

from fairway.api.cluster import ManagedCluster
from fairway.clusters import clusters_of
from fairway.engine.points import CommitContext, Context
from fairway.engine.workload import Workload
from fairway.hosting.workload import HostingSpec

NOT_A_REQUEST = "plugin {plugin} places HostedClusterRequests; got {kind}"


def spec_in(context: Context | CommitContext, plugin: str) -> HostingSpec:
    workload: Any = context.workload
    spec = workload.spec if isinstance(workload, Workload) else None
    if not isinstance(spec, HostingSpec):
        raise TypeError(NOT_A_REQUEST.format(plugin=plugin, kind=type(workload).__name__))
    return spec


def cluster_at(context: Context, row: int) -> ManagedCluster:
    return clusters_of(context.snapshot).cluster(row)
