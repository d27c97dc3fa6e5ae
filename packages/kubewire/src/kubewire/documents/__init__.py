"""YAML and JSON as text: the one reader and the one writer of documents.

`parser` turns YAML into values within limits (`Rules`), and `scalars` resolves unquoted words as kubectl does. `reader`
splits text into documents, `positions` finds the line of a field for error messages, and `writer` writes YAML that
kubectl and PyYAML read the same way.
"""
