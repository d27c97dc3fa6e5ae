"""The score SDK, the providers built on it, and the agent that runs them on a managed cluster.

May import ``fairway.kube``, ``fairway.api`` and ``fairway.observe``, and nothing beside or above it.
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
from fairway.providers.scales import (
    Direct,
    FleetScale,
    Inverted,
    Linear,
    Logarithmic,
    Quantile,
    Spread,
)

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
