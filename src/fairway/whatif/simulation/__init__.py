"""A synthetic fleet on a hub: clusters that renew their leases, and scores that change.

``creation`` creates the clusters of ``objects`` on a hub. ``agents`` watches them and runs one ``agent`` per cluster,
which renews the lease, reports the cluster as available and publishes scores.
"""

__all__ = ["agent", "agents", "creation", "objects"]
