"""Publish to several sinks: AddOnPlacementScores first, then the others.

A failure of a companion sink is logged, counted, and retried with the next write; it does not repeat the first write.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fairway.observe.provider_meters import ProviderMeters
from fairway.providers.placement_scores import AddOnPlacementScores
from fairway.providers.publication import Publication
from fairway.providers.sink import Sink, SinkError, StoredPublication
from kubewire.client import Client
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

COMPANION_FAILED: Final = "%s published the scores of %s, but failed to publish them as %s: %s"


class FanOutSink(AddOnPlacementScores):
    """AddOnPlacementScores, and ``companions`` that get the same publications."""

    def __init__(
        self,
        client: Client,
        *,
        provider: str,
        resource: str,
        companions: Sequence[Sink],
        meters: ProviderMeters,
        adopt: bool = False,
    ) -> None:
        super().__init__(client, provider=provider, resource=resource, adopt=adopt)
        self._companions, self._meters, self._name = tuple(companions), meters, provider
        self._throttle = LogThrottle(log)

    async def write(
        self, cluster: str, publication: Publication, /, *, stored: StoredPublication | None
    ) -> StoredPublication:
        written = await super().write(cluster, publication, stored=stored)
        missing = []
        for companion in self._companions:
            try:
                await companion.write(cluster, publication, stored=None)
            except SinkError as error:
                kind = type(companion).__name__
                self._meters.write_failed(self._name, reason=error.reason)
                topic = (kind, error.reason)
                self._throttle.log(logging.WARNING, topic, COMPANION_FAILED, self._name, cluster, kind, error)
                missing.append(f"{kind}: {error}")
        return replace(written, missing="; ".join(missing)) if missing else written

    async def remove(self, cluster: str, /) -> bool:
        removed = [await companion.remove(cluster) for companion in self._companions]
        return await super().remove(cluster) or any(removed)
