"""The table of hosts: rows, columns, bitmaps, names and a journal of changes. ``clusters`` and ``nodes`` are its kinds.

Data flow: a kind of host derives from ``Table`` and writes the cells in which two versions of its objects differ.
``Table.snapshot()`` is a consistent read-only view; the table copies a column before it writes to one that a snapshot
shares. Columns are created when they are first read, with the ``schema`` of the kind. The modules of this folder know
no kind of host.

- A *row* is a host (``hosts``), a *column* the values of one attribute (``column``), a ``bitmap`` a set of rows.
- The ``journal`` records which columns changed in which rows, so that readers process only changes. ``derived`` keeps
  results that are computed from columns. ``selection`` evaluates label selectors, ``resources`` names the columns of
  amounts. ``protection`` makes a snapshot read-only for third-party code; ``direction`` is whether a cell went up or
  down, ``instant`` a time in microseconds, and ``steps`` divides long computations.
"""

from fairway.hosts.snapshot import Snapshot
from fairway.hosts.table import Table

__all__ = ["Snapshot", "Table"]
