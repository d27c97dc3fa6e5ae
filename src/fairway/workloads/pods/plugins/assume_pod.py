"""AssumePod: counts a pod on its node from the moment a node is chosen, before the API server shows it there.

So the next cycle sees the room that is taken, the ports, and the pods that selectors match. It is the first Reserve
plugin of a profile for pods.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from fairway.api.pod import Pod
from fairway.engine.points import CommitContext, Reads
from fairway.engine.status import OK, Status
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods.workload import info_of_workload

NAME = "AssumePod"
ASSUMED: Final = "fairway.dev/assumed-pod"
"""Key of the commit's state under which Reserve leaves the pod that it added to the fleet."""


class AssumePod:
    name = NAME

    def __init__(self, *, fleet: NodeFleet) -> None:
        self._fleet = fleet

    def reserve(self, context: CommitContext, /) -> Status:
        pod = info_of_workload(context.workload).pod
        assumed = structs.replace(pod, spec=structs.replace(pod.spec, nodeName=context.hosts[0].name))
        context.state.write(ASSUMED, assumed)
        self._fleet.upsert_pod(assumed)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        assumed = context.state.find(ASSUMED, Pod)
        # Not if the hub has shown the pod meanwhile: from then on its place is the observed one.
        if assumed is not None and self._fleet.shows(assumed):
            self._fleet.delete_pod(assumed.metadata.namespace, assumed.metadata.name)

    def releases(self, _context: CommitContext, /) -> Mapping[Key, Direction]:
        return {}  # the fleet reports its own changes

    def commit_reads(self, _context: CommitContext, /) -> Reads:
        return Reads()  # it rejects nothing
