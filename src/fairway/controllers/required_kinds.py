"""Kinds without which the controllers of a process cannot start, and the wait for them.

Optional kinds may come later. The wait includes those that come together with the necessary ones, so that a process
does not warn of kinds that the hub serves a moment later.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    HOSTED_CLUSTER_REQUESTS,
    MANAGED_CLUSTER_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.controller_factory import NEEDED
from fairway.controllers.runtime.optional_kinds import definition_name
from fairway.controllers.settings import (
    ACCEPTANCE,
    ADD_ONS,
    AVAILABILITY,
    BRIDGE,
    CLUSTER_SETS,
    HOSTING,
    PLACEMENT,
    RECOVERY,
    SCORES,
)
from kubewire.client import Client, Forbidden, KubeError, NotFound, Resource

log: Final = logging.getLogger(__name__)

Kinds = frozenset[Resource[Any]]

_PLACING: Final[Kinds] = frozenset(
    {
        ADD_ON_PLACEMENT_SCORES,
        MANAGED_CLUSTERS,
        MANAGED_CLUSTER_SETS,
        MANAGED_CLUSTER_SET_BINDINGS,
        PLACEMENTS,
        PLACEMENT_DECISIONS,
    }
)
REQUIRED: Final[Mapping[str, Kinds]] = {
    PLACEMENT: _PLACING,
    CLUSTER_SETS: frozenset({MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SET_BINDINGS}),
    AVAILABILITY: frozenset({MANAGED_CLUSTERS}),
    ACCEPTANCE: frozenset({MANAGED_CLUSTERS}),
    ADD_ONS: frozenset({MANAGED_CLUSTERS, PLACEMENTS, PLACEMENT_DECISIONS}),
    SCORES: frozenset({ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS}),
    BRIDGE: frozenset({ADD_ON_PLACEMENT_SCORES}),
    HOSTING: _PLACING,
    RECOVERY: frozenset({ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS}),
}
"""What a controller reads in any case, by its name; not the kinds of Kubernetes, which every hub serves."""
OPTIONAL: Final[Mapping[str, Kinds]] = {
    **{name: frozenset(kinds) for name, kinds in NEEDED.items()},
    PLACEMENT: frozenset({HOSTED_CLUSTER_REQUESTS, MANAGED_CLUSTER_SCORES}),
    SCORES: frozenset({MANAGED_CLUSTER_SCORES}),
}
"""What a controller also reads once the hub serves it."""

POLL_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 5.0
"""How long no definition of an optional kind must appear. `kubectl apply` creates definitions one by one."""

MISSING: Final = (
    "the hub does not serve %s: no controller starts before it does. Apply the definitions: "
    "fairway crds | kubectl apply -f - (fairway install | kubectl apply -f - installs all of Fairway)"
)
SERVED: Final = "the hub serves all kinds that the controllers need"
NOT_SERVED: Final = "the hub does not serve {kind}"


class RequiredKinds:
    """``missing`` are those that the hub does not serve, as far as they are known."""

    def __init__(self, client: Client, controllers: Collection[str]) -> None:
        self._client, self._controllers = client, controllers
        self.missing: Kinds = frozenset()

    async def find_missing(self) -> None:
        """Look for the kinds, and log the remedy if some are missing. Raises KubeErrors."""
        required = _of(REQUIRED, self._controllers)
        served = await asyncio.gather(*(self._serves(kind) for kind in required))
        self.missing = frozenset(
            kind for kind, is_served in zip(required, served, strict=True) if not is_served
        )
        if self.missing:
            log.error(MISSING, ", ".join(_names(self.missing)))

    def unready(self) -> list[str]:
        return [NOT_SERVED.format(kind=name) for name in _names(self.missing)]

    async def wait(self) -> None:
        """Wait until the hub serves the missing kinds, and those optional ones whose definitions come with them."""
        while self.missing:
            await asyncio.sleep(POLL_SECONDS)
            self.missing = await self._still_missing(self.missing)
        loop = asyncio.get_running_loop()
        optional = _of(OPTIONAL, self._controllers)
        changed_at = loop.time()
        while optional and loop.time() - changed_at < SETTLE_SECONDS:
            missing = await self._still_missing(optional)
            if missing != optional:
                optional, changed_at = missing, loop.time()
            if optional:
                await asyncio.sleep(POLL_SECONDS)
        log.info(SERVED)

    async def _still_missing(self, kinds: Kinds) -> Kinds:
        missing = set(kinds)
        for kind in kinds:
            try:
                if await self._serves(kind):
                    missing.discard(kind)
            except KubeError as error:
                log.debug("cannot find %s: %s", kind, error)
        return frozenset(missing)

    async def _serves(self, kind: Resource[Any]) -> bool:
        try:
            await self._client.newest(kind)
        except NotFound:
            return False
        except Forbidden:
            # Its informer reports that with the remedy, which is another one.
            return True
        return True


def _of(kinds: Mapping[str, Kinds], controllers: Collection[str]) -> Kinds:
    return frozenset(kind for name in controllers for kind in kinds.get(name, ()))


def _names(kinds: Kinds) -> list[str]:
    return sorted(map(definition_name, kinds))
