"""Offer requests without a place to the queue again, after a change of what they refer to."""

from collections.abc import Callable, Mapping
from typing import Any

from fairway.api.hosted_request import HostedClusterRequest
from fairway.controllers.hosting.binding import host_of
from fairway.controllers.runtime.reconciler import Key
from fairway.engine.workload import Workload
from fairway.hosts.steps import Steps, strides
from fairway.workloads.hosting import HostingState


def offer_again(
    requests: Mapping[Key, HostedClusterRequest], state: HostingState, put: Callable[[Workload[Any]], None]
) -> Steps[None]:
    """Policies, Placements and conflicts are parts of requests without a place. The queue ignores equal ones.

    Both arguments may change between two steps: each request is offered as it is then.
    """
    for keys in strides(list(requests)):
        for key in keys:
            request = requests.get(key)
            if request is None or host_of(request) is not None:
                continue
            if request.metadata.deletionTimestamp is None:
                put(state.workload_of(request))
        yield
