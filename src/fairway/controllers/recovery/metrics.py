"""Metrics of recovery."""

from typing import Final

from fairway.controllers.recovery.state_machine import Census
from fairway.observe.meters import Meters, gauge

CLUSTERS: Final = gauge(
    "fairway_recovery_clusters",
    "Clusters by recovery state: low (health below the threshold), tainted, "
    "held (low for long enough, but not tainted: over budget or the provider is suspected), "
    "exempt (by annotation), unknown (no health that is valid).",
    "state",
)
SUSPECTED: Final = gauge(
    "fairway_recovery_provider_suspected",
    "1 while so many clusters became unhealthy at once that tainting is paused, 0 otherwise.",
)
RECOVERY_DEFINITIONS: Final = (CLUSTERS, SUSPECTED)
STATES: Final = ("low", "tainted", "held", "exempt", "unknown")


class RecoveryMetrics:
    def __init__(self, meters: Meters) -> None:
        clusters = CLUSTERS.create_gauge(meters.registry)
        self._states = {state: clusters.labels(state) for state in STATES}
        self._suspected = SUSPECTED.create_gauge(meters.registry)

    def update(self, census: Census, *, held: int, suspected: bool) -> None:
        values = (census.low, census.tainted, held, census.exempt, census.fleet - census.known)
        for state, value in zip(STATES, values, strict=True):
            self._states[state].set(value)
        self._suspected.set(suspected)
