"""Bodies of requests and responses.

In: ``body`` turns JSON, YAML or protobuf (``protobuf``) into a document and enforces limits on size,
depth and number of values. Out: ``representation`` negotiates the response format (JSON or YAML; object, table or
metadata only) and encodes objects, lists and watch events from the stored bytes.

Words: a *document* is a decoded JSON object; *raw* is its encoding as the store keeps it.
"""
