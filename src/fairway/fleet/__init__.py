"""The table of hosts: rows, columns, bitmaps, names and a journal of changes. It knows nothing of any kind of host.

- A *row* is a host (``hosts``), a *column* the values of one attribute (``column``), a ``bitmap`` a set of rows.
- The ``journal`` records which columns changed in which rows, so that readers process only changes. ``derived`` keeps
  results that are computed from columns. ``instant`` has times in microseconds.
"""
