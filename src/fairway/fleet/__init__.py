"""The fleet: the state of all clusters as columns, with snapshots and a journal of changes.

Data flow: ``Fleet`` receives objects (upsert and delete), compares them with the previous version, and writes the
changed cells. ``Fleet.snapshot()`` is a consistent read-only view; the fleet copies a column before it writes to one
that a snapshot shares. The ``journal`` records which columns changed in which rows, so that readers process only
changes.

- A *row* is a cluster (``hosts``), a *column* the values of one attribute (``column``), ``cells`` names the
  attributes.
- Columns are created when they are first read (``derived`` for computed ones). A ``bitmap`` is a set of rows.
- ``scores`` and ``decisions`` index AddOnPlacementScores and PlacementDecisions by row. ``instant`` has times in
  microseconds.
"""

from fairway.fleet.fleet import Fleet
from fairway.fleet.snapshot import Snapshot

__all__ = ["Fleet", "Snapshot"]
