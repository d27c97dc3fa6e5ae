"""Hosted control planes: how many a hosting cluster runs, and how many more fit.

    HostedClusters, nodes, pods ──▶ hosts ──▶ headroom (by size and zone) ──capacity──▶ scores and ClusterClaims

The count and four claims have the names of the hypershift add-on, so placements written for it keep working; four
more claims are read to place hosted clusters (``fairway.workloads.hosting``). ``sizing`` computes what a control plane
needs, ``load`` reads API request rates from Prometheus.
"""

from fairway.providers.hosted.capacity import RESOURCE
from fairway.providers.hosted.claims import owned_rules
from fairway.providers.hosted.provider import NAME, RULES, HostedClusters

__all__ = ["NAME", "RESOURCE", "RULES", "HostedClusters", "owned_rules"]
