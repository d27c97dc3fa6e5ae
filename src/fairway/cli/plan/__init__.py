"""`fairway plan`: which decisions move with a change.

``run`` reads the fleet and the changes, makes the plan (``fairway.whatif.fleet``) and prints it: ``text`` for people,
``document`` as YAML and JSON.
"""
