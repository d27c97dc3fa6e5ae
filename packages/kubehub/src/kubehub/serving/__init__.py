"""HTTP: from a request to its response.

``server`` parses the path, authenticates, authorizes and waits for a turn (``flowcontrol``). ``reads`` answers get,
list and watch from memory; ``mutations`` decodes bodies and options for ``writing``; ``nonresource`` answers discovery,
OpenAPI, health and metrics. ``connection`` and ``traffic`` limit what slow or greedy clients can hold; ``audit``
logs requests; ``metrics`` counts them.

Words: an *exchange* is a request with its response; ``request_info.RequestInfo`` is what its path names.
"""
