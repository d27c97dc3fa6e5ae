"""Pods as workloads."""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, cast

from fairway.api.pod import Pod
from fairway.engine.points import Context, CycleWorkload
from fairway.engine.status import Status
from fairway.engine.workload import Workload, WorkloadKey
from fairway.hosts.bitmap import Rows
from fairway.hosts.instant import to_micros
from fairway.hosts.nodes.pod_template import PodInfo, PodTemplate, info_of
from fairway.hosts.nodes.snapshot import NodeSnapshot

NO_POD = "plugins for pods read the pod of a Workload[PodInfo]; got {kind}"
EXCLUDED = "node(s) didn't satisfy plugin(s) [{plugins}]"
"""kube-scheduler's words for nodes that PreFilter plugins leave out; it writes the names as Go prints a list."""


def pod_workload(pod: Pod) -> Workload[PodInfo]:
    meta, info = pod.metadata, info_of(pod)
    return Workload(
        key=WorkloadKey.of(meta),
        spec=info,
        priority=info.priority,
        created=0 if meta.creationTimestamp is None else to_micros(meta.creationTimestamp),
        demand=info.template.requests,
    )


def info_of_workload(workload: CycleWorkload) -> PodInfo:
    spec = getattr(workload, "spec", None)
    if not isinstance(spec, PodInfo):
        raise TypeError(NO_POD.format(kind=type(spec if spec is not None else workload).__name__))
    return spec


def template_of(context: Context) -> PodTemplate:
    return info_of_workload(context.workload).template


def nodes_of(context: Context) -> NodeSnapshot:
    return cast("NodeSnapshot", context.snapshot)


def excluded_by(*plugins: str) -> str:
    """Return the reason of nodes that these PreFilter plugins leave out."""
    return EXCLUDED.format(plugins=" ".join(sorted(plugins)))


class RejectsAlike:
    """A filter that rejects all nodes with the same status, ``rejected``."""

    rejected: ClassVar[Status]

    def group_rejections(self, _context: Context, rows: Rows, /) -> Sequence[tuple[Status, Rows]]:
        return ((self.rejected, rows),)


class PodPlugin:
    """A plugin whose results depend on the pod's template only."""

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        return info_of_workload(workload).template.signature

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._settings())})"

    def _settings(self) -> list[tuple[str, Any]]:
        return [(name.lstrip("_"), value) for name, value in vars(self).items()]
