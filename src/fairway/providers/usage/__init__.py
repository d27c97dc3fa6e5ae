"""Resource usage: free resources of a cluster, by requests and by actual use.

    nodes, pods (objects) ──policy──▶ accounting (sums per node) ──▶ measures ──▶ readings
    metrics.k8s.io ──metrics──▶ actual use

``policy`` selects the nodes and pods that count, ``options`` is the configuration.
"""

from fairway.providers.usage.options import UsageOptions
from fairway.providers.usage.provider import RULES, ResourceUsage, resource_usage

__all__ = ["RULES", "ResourceUsage", "UsageOptions", "resource_usage"]
