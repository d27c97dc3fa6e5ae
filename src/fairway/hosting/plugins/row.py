"""What the plugins read of a cycle's context."""

from typing import Any

from fairway.api.cluster import ManagedCluster
from fairway.clusters import clusters_of
from fairway.engine.points import CommitContext, Context
from fairway.engine.workload import Workload
from fairway.hosting.workload import HostingSpec

NOT_A_REQUEST = "plugin {plugin} places HostedClusterRequests; got {kind}"


def workload_in(context: Context | CommitContext, plugin: str) -> Workload[HostingSpec]:
    workload: Any = context.workload
    if not isinstance(workload, Workload) or not isinstance(workload.spec, HostingSpec):
        raise TypeError(NOT_A_REQUEST.format(plugin=plugin, kind=type(workload).__name__))
    return workload


def spec_in(context: Context | CommitContext, plugin: str) -> HostingSpec:
    return workload_in(context, plugin).spec


def cluster_at(context: Context, row: int) -> ManagedCluster:
    return clusters_of(context.snapshot).cluster(row)
