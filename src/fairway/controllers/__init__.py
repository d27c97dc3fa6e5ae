"""The controllers: they watch a hub, decide, and write the result back.

    informers (informer_factory) ──▶ a controller's queue ──▶ reconcile(key) ──▶ fenced_writer ──▶ hub

One package per controller: ``placement``, ``clustersets``, ``acceptance``, ``availability``, ``addons``, ``recovery``,
``bridge``, ``scores``, ``hosting``, ``machines``. Each has ``controller`` (watches and writes), ``rbac`` (the rights it
needs), and modules without I/O that decide. Controllers do not import each other; what several need is in this package:
``settings`` (their names and settings), ``controller_factory`` (creates them), ``manager`` (runs them), ``reconciler``
(queue, workers, retries), ``leadership`` and ``fenced_writer`` (write only while leading), ``write_limiter`` (which
writes go first), ``slicing`` (long computations), ``scheduling_loop`` (runs the scheduler of the engine),
``unreadable`` (events about fields that cannot be decoded), ``csr_approval``, ``cluster_names``, ``kinds``,
``optional_kinds`` (kinds that the hub may begin to serve at any time). ``serving`` has the health, metrics and debug
endpoints.

Reconciliation is level-based: an event only names the object to reconcile. So the number, the order and the delay of
events do not matter, nor where an earlier process stopped.

Words: a *key* is (namespace, name); an *epoch* lasts until a hub's history goes back, as after a restored backup.
"""
