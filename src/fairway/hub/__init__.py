"""The embedded hub: a Kubernetes API server for development, tests, demos and small installations.

One process, one SQLite file. A request enters through ``serving``, is authenticated (``authn``, ``pki``) and
authorized (``rbac``), and is answered from ``storage`` or passed on to ``writing``. That validates the document with
``schemas`` and the hooks in ``kinds``, computes patches with ``patches``, asks ``admission`` and commits. ``builtin``
describes the fields of Kubernetes' own kinds, ``crd`` turns definitions into resources, ``csr`` signs certificates,
``controllers`` run in the background. ``serialization``, ``printing`` and ``openapi`` produce what clients read.
``hub.Hub`` assembles all.

Words: a *resource* is one served (group, version, plural). A *document* is an object as plain JSON, never a typed
Struct, because an API server must keep every field. A *schema node* says what a field may hold and how it merges. A
*refusal* is an error response, a ``Status``.
"""
