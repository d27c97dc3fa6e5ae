"""NodeResourcesBalancedAllocation: prefers nodes whose resources are used evenly once the pod runs there.

A pod that requests none of the scored resources is not scored, so that such pods do not all go to the same node.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.engine.points import Context, Raw
from fairway.engine.status import OK, SKIPPED, Status
from fairway.engine.workload import ResourceList
from fairway.fleet.bitmap import Rows
from fairway.plugins.pods.node_resources_fit import is_scalar
from fairway.plugins.pods.workload import template_of
from fairway.plugins.resources import HIGHEST, BalancedAllocation

NAME = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation(BalancedAllocation):
    name = NAME

    def __init__(self, *, resources: Sequence[Mapping[str, Any]] | None = None) -> None:
        super().__init__(resources=None if resources is None else {each["name"]: 1 for each in resources})

    def pre_score(self, context: Context, _rows: Rows, /) -> Status:
        requests = template_of(context).requests
        return OK if any(requests.get(each) for each in self._resources) else SKIPPED

    def _scored(self, demand: ResourceList) -> Iterable[tuple[str, int]]:
        """Leave out extended resources that the pod does not request."""
        return [each for each in self._resources.items() if demand.get(each[0]) or not is_scalar(each[0])]

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        resources = list(self._on_fleet(context, rows))
        if len(resources) != 2 or not all(have.all() for _, have, _, _ in resources):
            return super().score_fleet(context, rows)
        # The usual case: the deviation of two fractions is half of their difference.
        (_, have, used, asked), (_, other_have, other_used, other_asked) = resources
        before, after = (
            ((1 - np.abs((one - other) / 2)) * HIGHEST).astype(np.int64)
            for one, other in (
                (_share(used, have), _share(other_used, other_have)),
                (_share(used + float(asked), have), _share(other_used + float(other_asked), other_have)),
            )
        )
        return Raw(50 + (50 + after - before) // 2)

    def basis(self, _context: Context, /) -> object:
        return NAME  # pre_score depends on the pod only


def _share(used: npt.NDArray[Any], have: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    share: npt.NDArray[np.float64] = used / have
    return np.minimum(share, 1.0, out=share)
