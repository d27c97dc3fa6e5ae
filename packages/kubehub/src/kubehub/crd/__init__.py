"""Custom resource definitions: validated, established, and turned into served resources.

``kind`` has the hooks of the CustomResourceDefinition kind. On a write they call ``definitions``, which validates with
``validation`` (names and versions in ``parts``, schemas in ``keywords``, ``structure`` and ``defaults``, CEL rules and
their cost in ``cel_rules``), sets the conditions, and builds a ``resource.Resource`` per version. ``hub.Hub`` passes
these to the registry when the definition is committed. ``controllers.crd_cleanup`` deletes the objects of a deleted
definition.

Words: a *structural* schema states the type of every field, so that pruning and defaulting need no alternatives.
"""
