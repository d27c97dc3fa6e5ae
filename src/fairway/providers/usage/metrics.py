"""Actual use of nodes, from metrics.k8s.io."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from fairway.api.pod_requests import Amounts, amounts_of
from kubewire.api.annotation import QuantityText
from kubewire.api.meta import ObjectMeta
from kubewire.api.quantity import QuantityError
from kubewire.client import Client, Forbidden, KubeError, NotFound, Resource

TIMEOUT_SECONDS: Final = 10.0
STALE_INTERVALS: Final = 3
"""Intervals for which the last response is used after failures."""

ABSENT: Final = (
    "the cluster does not serve metrics.k8s.io: use is unknown, and scores are computed from requests"
)
FORBIDDEN: Final = (
    "no permission to list nodes of metrics.k8s.io (%s): scores are computed from requests; grant list"
)
FAILED: Final = "metrics.k8s.io does not respond: %s"
NEVER: Final = "metrics.k8s.io does not respond ({error}): scores are computed from requests"
STALE: Final = (
    "metrics.k8s.io has not responded for {seconds:.0f}s ({error}): scores are computed from requests"
)
BAD_METRICS: Final = "NodeMetrics {name}: usage {reason}"

_log = logging.getLogger(__name__)


class NodeMetrics(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()
    usage: dict[str, QuantityText] = field(default_factory=dict)


NODE_METRICS: Final = Resource(
    group="metrics.k8s.io",
    version="v1beta1",
    plural="nodes",
    kind="NodeMetrics",
    namespaced=False,
    type=NodeMetrics,
)


class Meter:
    """Requests node metrics. ``clock`` is monotonic, in seconds."""

    def __init__(self, client: Client, *, interval: float, clock: Callable[[], float]) -> None:
        self._client, self._interval, self._clock = client, interval, clock
        self._answered: float | None = None
        self._logged: set[str] = set()
        self.problem = ""
        """Error, if the last response is too old. Empty for a cluster without metrics."""

    async def request(self) -> dict[str, Amounts] | None:
        """Return use by node; empty if unknown, None if the last result is still valid."""
        try:
            listing = await self._client.list(NODE_METRICS, limit=0, timeout=TIMEOUT_SECONDS)
        except NotFound:
            self._set_absent(ABSENT)
            return {}
        except Forbidden as error:
            self._set_absent(FORBIDDEN, error)
            return {}
        except KubeError as error:
            return self._on_failure(error)
        self._answered, self.problem = self._clock(), ""
        self._logged.clear()
        return {node.metadata.name: usage for node in listing.items if (usage := self._usage(node))}

    def _set_absent(self, words: str, *arguments: object) -> None:
        self._answered, self.problem = None, ""
        self._log_once(logging.INFO if words == ABSENT else logging.WARNING, words, *arguments)

    def _on_failure(self, error: KubeError) -> dict[str, Amounts] | None:
        self._log_once(logging.WARNING, FAILED, error)
        if self._answered is None:
            self.problem = NEVER.format(error=error)
            return {}
        silent = self._clock() - self._answered
        if silent < STALE_INTERVALS * self._interval:
            return None
        self.problem = STALE.format(seconds=silent, error=error)
        return {}

    def _usage(self, node: NodeMetrics) -> Amounts:
        try:
            return amounts_of(node.usage)
        except QuantityError as error:
            self._log_once(logging.WARNING, BAD_METRICS.format(name=node.metadata.name, reason=error))
            return {}

    def _log_once(self, level: int, words: str, *arguments: object) -> None:
        """Log once until the next successful request."""
        if words not in self._logged:
            self._logged.add(words)
            _log.log(level, words, *arguments)
