"""What a change does to all placements of a fleet.

Data flow: ``changes`` makes the changed objects (a drained cluster, a lost region, another weight, more clusters), and
``plan`` decides the placements that the changes concern, in a ``World``, and compares with the recorded decisions.
``consequences`` names what follows from a decision that moves: add-ons and hosted clusters.

Nothing is written: a plan works on objects in memory, which are immutable.
"""

from fairway.whatif.fleet.plan import FleetPlan, Move, make

__all__ = ["FleetPlan", "Move", "make"]
