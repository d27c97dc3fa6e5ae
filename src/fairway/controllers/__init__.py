"""The controllers: they watch a hub, decide, and write the result back.

    informers ──▶ a controller's queue ──▶ reconcile(key) ──▶ fenced writer ──▶ hub

One package per controller: ``placement``, ``clustersets``, ``acceptance``, ``availability``, ``addons``, ``recovery``,
``bridge``, ``scores``, ``hosting``, ``machines``. Each has ``controller`` (watches and writes), ``rbac`` (the rights it
needs), and modules without I/O that decide. Controllers do not import each other; only ``machines`` runs the scheduler
of ``pods``, which share the nodes with virtual machines. What several need is in this package: ``settings`` (their
names and settings), ``controller_factory`` (creates them), ``manager`` (runs them), ``runtime`` (queues, leadership,
writes), ``unreadable`` (events about fields that cannot be decoded), ``csr_approval``, ``cluster_names``, ``kinds``.
``serving`` has the health, metrics and debug endpoints.

Reconciliation is level-based: an event only names the object to reconcile. So the number, the order and the delay of
events do not matter, nor where an earlier process stopped.

Words: a *key* is (namespace, name); an *epoch* lasts until a hub's history goes back, as after a restored backup.
"""
