"""Support for tests of your own.

- ``hub`` runs an embedded hub with OCM's and Fairway's kinds in the event loop (``embedded_hub``) or in a thread
  (``hub_in_thread``); ``kubehub.testing`` has the same without these kinds.
- ``plugin`` has the pytest fixture ``fairway_hub``; enable it with ``pytest_plugins = ["fairway.testing.plugin"]``.
- ``builders`` creates ManagedClusters, Placements, scores and other objects with few arguments.
"""

__all__ = ["builders", "hub", "plugin"]
