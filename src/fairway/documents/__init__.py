"""YAML and JSON as text: the one reader and the one writer of documents.

`reader` turns text into values, `scalars` resolves unquoted YAML words as Kubernetes' tools do, `positions` finds the
line of a field for error messages, and `writer` writes YAML that kubectl and PyYAML read the same way.
"""
