"""Resource usage: what is free on a cluster, by requests as Kubernetes reckons them and by what is really used.

``brief`` is what is kept of pods and nodes, ``policy`` which of them count, ``accounting`` the sums, ``metrics`` the
actual use, ``measures`` the scores, ``options`` what people may say about all that, ``provider`` what runs.
"""

from fairway.providers.usage.options import UsageOptions
from fairway.providers.usage.provider import RULES, ResourceUsage, resource_usage

__all__ = ["RULES", "ResourceUsage", "UsageOptions", "resource_usage"]
