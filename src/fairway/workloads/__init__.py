"""The kinds of work, one folder each: what is placed, and the policy by which.

- ``placement``: a Placement chooses managed clusters.
- ``hosting``: a HostedClusterRequest gets one hosting cluster.
- ``pods``: a pod gets a node.
- ``machines``: a virtual machine gets permits to grow, and migrations that make room for it.

Each has a ``workload`` (its identity, demand and spec for the engine), a ``profile`` (the plugins that decide it),
``plugins`` (one file each), and rules in modules of their own. Only ``machines`` has none of the first three: the
pods of virtual machines are placed by the profile of ``pods``. Each package describes itself under the headings Work,
Data flow, Modules, Words and Laws. None does I/O: the controllers of the same names watch and write. The folders are
siblings and do not import each other, except that ``hosting`` uses filters of ``placement``.
"""
