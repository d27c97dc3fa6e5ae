"""Patches of all four types, and field management.

``jsonpatch``, ``mergepatch``, ``strategic`` and ``apply`` (server-side apply) each turn a live object and a patch into
a new object. ``managed_fields`` updates ``metadata.managedFields`` on every write; ``fieldset`` holds sets of field
paths (FieldsV1), ``ownership`` computes the fields that a value contains or that two values differ in, ``merge``
merges values and removes fields.

Words: a *merge schema* (``merge_schema``) is the part of a schema node that merging needs: scalar, list or map, atomic
or not, by which keys; a *manager* owns the fields that it set last.
"""
