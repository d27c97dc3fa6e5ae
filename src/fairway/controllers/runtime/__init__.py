"""What every controller runs on.

- ``reconciler`` has the queue, the workers and the retries of a controller, ``scheduling_loop`` runs the scheduler of
  the engine instead.
- ``leadership`` says in which term a task may write, ``writer`` checks that before each write and counts it, and
  ``write_limiter`` says which writes go first.
- ``informer_factory`` creates one informer for each kind, and ``optional_kinds`` follows kinds that a hub may begin to
  serve at any time.
- ``slicing`` divides long computations, so that the event loop stays responsive, and ``store_changes`` holds back what
  changes while one loads a state; ``machine_memory`` is what memos of decisions may take.
"""
