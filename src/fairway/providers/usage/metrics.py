"""Actual use of nodes, from metrics.k8s.io."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from fairway.api.annotation import QuantityText
from fairway.api.meta import ObjectMeta
from fairway.api.pod_requests import Amounts, amounts_of
from fairway.api.quantity import QuantityError
from fairway.kube import Client, Forbidden, KubeError, NotFound, Resource

PATIENCE_SECONDS: Final = 10.0
STALE_INTERVALS: Final = 3
"""For so many intervals the last answer is believed."""

ABSENT: Final = (
    "the cluster does not serve metrics.k8s.io: what is used is not known, and scores are by requests"
)
FORBIDDEN: Final = (
    "nodes of metrics.k8s.io may not be listed (%s): scores are by requests; grant list on them"
)
FAILED: Final = "metrics.k8s.io does not answer: %s"
NEVER: Final = "metrics.k8s.io does not answer ({error}): scores are by requests"
STALE: Final = "metrics.k8s.io has not answered for {seconds:.0f}s ({error}): scores are by requests"
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
    """Asks for what is used, again and again. ``clock`` is monotonic, in seconds."""

    def __init__(self, client: Client, *, interval: float, clock: Callable[[], float]) -> None:
        self._client, self._interval, self._clock = client, interval, clock
        self._answered: float | None = None
        self._said: set[str] = set()
        self.problem = ""
        """In words, if the last good answer is too old to be believed. Not for a cluster that never had metrics."""

    async def ask(self) -> dict[str, Amounts] | None:
        """By node; empty if there is nothing to go by, and None if what was said before still holds."""
        try:
            listing = await self._client.list(NODE_METRICS, limit=0, timeout=PATIENCE_SECONDS)
        except NotFound:
            self._absent(ABSENT)
            return {}
        except Forbidden as error:
            self._absent(FORBIDDEN, error)
            return {}
        except KubeError as error:
            return self._failed(error)
        self._answered, self.problem = self._clock(), ""
        self._said.clear()
        return {each.metadata.name: usage for each in listing.items if (usage := self._usage(each))}

    def _absent(self, words: str, *arguments: object) -> None:
        self._answered, self.problem = None, ""
        self._say(logging.INFO if words == ABSENT else logging.WARNING, words, *arguments)

    def _failed(self, error: KubeError) -> dict[str, Amounts] | None:
        self._say(logging.WARNING, FAILED, error)
        if self._answered is None:
            self.problem = NEVER.format(error=error)
            return {}
        silent = self._clock() - self._answered
        if silent < STALE_INTERVALS * self._interval:
            return None
        self.problem = STALE.format(seconds=silent, error=error)
        return {}

    def _usage(self, found: NodeMetrics) -> Amounts:
        try:
            return amounts_of(found.usage)
        except QuantityError as error:
            self._say(logging.WARNING, BAD_METRICS.format(name=found.metadata.name, reason=error))
            return {}

    def _say(self, level: int, words: str, *arguments: object) -> None:
        """Once, until things were well again."""
        if words not in self._said:
            self._said.add(words)
            _log.log(level, words, *arguments)
