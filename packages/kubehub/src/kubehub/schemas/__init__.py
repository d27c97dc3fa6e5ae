"""Validation of documents against schemas.

``structural.Checker`` is compiled once per schema node and prunes, defaults and checks a document: ``pruning``,
``constraints`` and ``scalars`` (types, bounds, patterns, ``formats``), ``uniqueness``, ``embedded_resources``, and CEL
rules in ``cel_validation``. ``metadata`` and ``object_meta`` check ``metadata`` of every kind.

Words: a *fault* is a violated constraint; ``status.Cause`` is its form in the response. *Correlation* finds the old
value that a new one replaces, for transition rules.
"""
