"""NodeResourcesBalancedAllocation: prefers nodes whose resources are used evenly once the pod runs there.

A pod that requests none of the scored resources is not scored, so that such pods do not all go to the same node.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fairway.engine.points import Context
from fairway.engine.status import OK, SKIPPED, Status
from fairway.fleet.bitmap import Rows
from fairway.plugins.pods.workload import template_of
from fairway.plugins.resources import BalancedAllocation

NAME = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation(BalancedAllocation):
    name = NAME

    def __init__(self, *, resources: Sequence[Mapping[str, Any]] | None = None) -> None:
        super().__init__(resources=None if resources is None else {each["name"]: 1 for each in resources})

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        requests = template_of(context).requests
        return OK if any(requests.get(each) for each in self._resources) else SKIPPED

    def basis(self, _context: Context, /) -> object:
        return NAME  # pre_score depends on the pod only
