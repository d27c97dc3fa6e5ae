"""Decisions without a hub: explanations, counterfactuals, lint and synthetic fleets.

Data flow: a ``World`` (``world``) is a fleet built from objects, and decides their Placements. ``explain`` describes
a decision; ``counterfactual`` searches the smallest change (``edits``, ``number_edits``, ``expression_edits``) that
would select a cluster, and verifies it by deciding again.

- ``lint`` finds mistakes in objects. ``conformance`` compares with recorded results.
- ``synthetic`` generates fleets, ``simulation`` simulates their agents on a hub, with scores that change.
"""

from fairway.whatif.world import World

__all__ = ["World"]
