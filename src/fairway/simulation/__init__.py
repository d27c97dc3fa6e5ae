"""A synthetic fleet on a hub: clusters that renew their leases, and scores that change.

``creation`` creates the clusters of ``objects`` on a hub. ``agents`` watches them and runs one ``agent`` per cluster,
which renews the lease, reports the cluster as available and publishes scores. ``works`` reports ManifestWorks as
applied. ``machines`` simulates nodes with virtual machines.
"""

__all__ = ["agent", "agents", "creation", "objects"]
