"""What a HostedClusterRequest needs, what is created for it, and what its status says.

``demand`` is what it takes of a host, ``refusal_groups`` are requests that are refused together, ``work`` is the
ManifestWork, ``request_status`` the status in each phase, with its ``conditions``.
"""
