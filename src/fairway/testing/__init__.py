"""Support for tests of your own.

- ``hub`` runs an embedded hub in the event loop (``embedded_hub``) or in a thread (``hub_in_thread``).
- ``plugin`` has the pytest fixture ``fairway_hub``; enable it with ``pytest_plugins = ["fairway.testing.plugin"]``.
- ``builders`` creates ManagedClusters, Placements, scores and other objects with few arguments.
- ``background`` runs an asynchronous context manager in a thread.
"""

__all__ = ["background", "builders", "hub", "plugin"]
