"""Decisions without a hub: explanations, counterfactuals, lint and synthetic fleets.

Data flow: a ``World`` (``world``) is a fleet built from objects, and decides their Placements. ``explain`` describes
a decision; ``counterfactual`` searches the smallest change that would select a cluster, and verifies it by deciding
again. ``barriers`` finds what keeps the cluster out and asks its plugin for remedies, which ``proposals`` converts to
edits of objects (``edits``, ``number_edits``, ``field_edits``).

- ``fleet`` plans changes: which decisions of all placements move.
- ``hosting`` and ``machines`` answer the same questions for hosted clusters and for pods.
- ``advice`` explains what a Placement waits for, ``names`` finds objects by name.
- ``lint`` finds mistakes in objects. ``conformance`` compares with recorded results.
- ``synthetic`` generates fleets, ``simulation`` simulates their agents on a hub, with scores that change.
"""

from fairway.whatif.world import World

__all__ = ["World"]
