"""The score SDK and the providers built on it.

    read ──sandbox──▶ reading_check ──▶ assessor (scales, smoothing) ──▶ publisher (when to write) ──▶ sink ──▶ hub

A provider reads raw *readings* of clusters; a *scale* turns each value into a *score* from 0 to 100; a *publication* is
what the hub stores, with ``validUntil``. ``runner`` runs any number of providers, each in its own ``provider_loop``;
``sandbox`` bounds what a provider's code can block. Sinks: ``placement_scores``, ``managed_cluster_score``, ``fan_out``
(both), ``dry_run`` (neither). ``catalogue`` lists the built-in ones: ``usage``, ``health``, ``hosted``, ``static``,
``prometheus``, ``http_scorer``, ``forecast``. ``loading`` finds others, and ``functions`` makes providers of functions.

``document`` reads configuration files, ``declared`` the scores in them; ``endpoint`` sends requests of hub-side
providers. ``report`` and ``freshness`` describe published scores for `fairway get providers`. ``addon`` has the objects
of Fairway's add-on, ``agent_lease`` the Lease of its agent.

May import ``kubewire``, ``fairway.hosts.clusters``, ``fairway.api`` and ``fairway.observe`` only.
"""

from fairway.providers.catalogue import Context, OptionsError
from fairway.providers.definition import DefinitionError
from fairway.providers.functions import fleet_provider, provider
from fairway.providers.provider import (
    ClusterProvider,
    FleetProvider,
    Provider,
    ProviderError,
    Reading,
    Scale,
    Score,
    Wake,
)
from fairway.providers.runner import Runner, Settings, running
from fairway.providers.scales import Direct, FleetScale, Inverted, Linear, Logarithmic, Quantile, Spread

__all__ = [
    "ClusterProvider",
    "Context",
    "DefinitionError",
    "Direct",
    "FleetProvider",
    "FleetScale",
    "Inverted",
    "Linear",
    "Logarithmic",
    "OptionsError",
    "Provider",
    "ProviderError",
    "Quantile",
    "Reading",
    "Runner",
    "Scale",
    "Score",
    "Settings",
    "Spread",
    "Wake",
    "fleet_provider",
    "provider",
    "running",
]
