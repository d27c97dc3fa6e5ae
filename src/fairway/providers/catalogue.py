"""The built-in providers, by the name that ``fairway provider run NAME`` takes.

An entry here registers a provider: name, factory and a description. Modules are imported when needed. The factory is
called as ``factory(options, context)`` and returns a Provider:

- ``options`` is the content of ``--config FILE.yaml`` as plain Python values; an empty mapping without a file. The
  factory validates it and raises ``OptionsError`` with the path of the field, also for unknown keys.
- ``context`` describes where the provider runs. It is created inside the running event loop, with open clients.
- The factory only constructs. What needs the network happens in ``Provider.running`` and ``read``.
- ``--interval`` overrides the provider's own interval afterwards.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairway.providers.provider import Provider
from kubewire.client import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from kubewire.client import Client

NEEDS_LOCAL: Final = "{name} reads the cluster it runs on: give its kubeconfig with --managed-kubeconfig"


class OptionsError(ValueError):
    """``field`` is the path of the invalid option, such as ``scores[0].query``."""

    def __init__(self, message: str, *, field: str = "") -> None:
        self.field, self.message = field, message
        super().__init__(f"{field}: {message}" if field else message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Environment of a provider: clients, cluster, folder of its options."""

    name: str
    """Name in the catalogue."""
    cluster: str | None = None
    """The only cluster to score; None on a hub, where all clusters are scored."""
    hub: "Client | None" = None
    """Open client of the hub; None without a hub."""
    local: "Client | None" = None
    """Open client of the cluster that the process runs on; None without a kubeconfig for it."""
    owner: str | None = None
    """ClusterRole on the local cluster that owns objects which the provider creates there; None: no owner."""
    folder: Path = field(default_factory=Path)
    """Folder of the options file. Relative paths in the options start here."""
    clock: Clock = SYSTEM_CLOCK
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Variables that providers read settings from."""
    dry_run: bool = False
    """Whether to report what would be published without writing anything, including files of the provider."""

    def local_client(self) -> "Client":
        """Raises OptionsError."""
        if self.local is None:
            raise OptionsError(NEEDS_LOCAL.format(name=self.name))
        return self.local


Factory = Callable[[Mapping[str, Any], Context], Provider]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """``target`` is ``module:factory``."""

    target: str
    meaning: str
    fleet: bool = False
    """Whether it scores all clusters of a hub. Such providers need options."""

    def factory(self) -> Factory:
        module, _, attribute = self.target.partition(":")
        factory: Factory = getattr(import_module(module), attribute)
        return factory


CATALOGUE: Final[dict[str, CatalogueEntry]] = {
    "health": CatalogueEntry(
        "fairway.providers.health:health",
        "Health of the cluster: nodes, API server, add-ons and restarts, combined and separately.",
    ),
    "hosted-clusters": CatalogueEntry(
        "fairway.providers.hosted.provider:hosted_clusters",
        "Hosted clusters on a hosting cluster, and how many more fit.",
    ),
    "resource-usage": CatalogueEntry(
        "fairway.providers.usage:resource_usage", "Free CPU, memory, devices and pods of the cluster."
    ),
    "prometheus": CatalogueEntry(
        "fairway.providers.prometheus.provider:create",
        "Metrics of the fleet from Prometheus or Thanos: one query per score.",
        fleet=True,
    ),
    "http-scorer": CatalogueEntry(
        "fairway.providers.http_scorer.provider:create",
        "Scores from an HTTP service that implements OCM's Dynamic Scoring contract.",
        fleet=True,
    ),
    "static": CatalogueEntry(
        "fairway.providers.static.provider:create",
        "Values from a file: cost, carbon, latency or preference, by cluster, label or hour.",
        fleet=True,
    ),
    "forecast": CatalogueEntry(
        "fairway.providers.forecast.provider:create",
        "Forecasts of another provider's values, with their past error.",
        fleet=True,
    ),
}
