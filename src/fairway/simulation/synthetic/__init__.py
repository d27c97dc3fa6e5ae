"""Synthetic fleets: realistic clusters, scores and placements, the same for the same seed.

``clusters`` generates clusters with their sets, bindings and scores, ``scores`` computes scores with the code of the
providers, and ``placements`` generates placements of a dozen kinds.
"""

from fairway.simulation.synthetic.clusters import BASE_TIME, NAMESPACES, generate

__all__ = ["BASE_TIME", "NAMESPACES", "generate"]
