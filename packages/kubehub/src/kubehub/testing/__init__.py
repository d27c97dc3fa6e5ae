"""The hub in tests: of controllers, operators and clients, without a cluster, Docker or Go.

- ``hub`` runs a hub in the event loop (``embedded_hub``) or in a thread (``hub_in_thread``).
- ``plugin`` has the pytest fixture ``kube_hub``; enable it with ``pytest_plugins = ["kubehub.testing.plugin"]``.
- ``background`` runs an asynchronous context manager in a thread.
"""

from kubehub.testing.hub import HubAddress, embedded_hub, hub_in_thread

__all__ = ["HubAddress", "embedded_hub", "hub_in_thread"]
