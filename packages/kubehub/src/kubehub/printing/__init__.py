"""Server-side printing: the tables that ``kubectl get`` shows.

``tables`` builds a Table from objects. The cells of custom resources come from the JSONPaths of their columns, those
of built-in kinds from the functions in ``cells``, by kind and column name. ``kubewire.api.age`` formats durations.
"""
