"""OpenAPI documents of the served resources, which kubectl uses for explain, apply and validation.

``documents`` builds one document per group version (v3) and one for all (v2) from ``published_schemas`` (the types)
and ``operations`` (the paths). ``v2_protobuf`` encodes v2 in protobuf, the only encoding that kubectl asks for.
``serving.nonresource`` caches and serves them.
"""
