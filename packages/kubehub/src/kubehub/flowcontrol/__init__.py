"""Flow control: which request runs next on the event loop, and for how long.

All requests share one event loop and one process, so ``turns.Turns`` grants turns from a ``fair_queue.FairQueue``, in
which each user gets an equal share of time, whatever the number of the user's requests. Long work on the event loop
calls ``yielding.Yielder`` between its parts; long recursive work runs in slices (``slicing``).

Words: a *flow* is a user's queue; a *turn* is the right to run, which ``yield_turn`` passes on after a *stride*.
"""
