"""The embedded hub: a Kubernetes API server for development, tests, demos and small installations.

One process, one SQLite file. Objects are plain JSON documents here, never typed Structs: an API server must keep
every field it is given. Vocabulary: a *resource* is one served (group, version, plural); a *schema node*
(``schema.Node``) says what a field may hold and how it merges; the *store* is the log of all changes, whose rowid
is the resourceVersion; a *refusal* is an answer that is a ``Status``.
"""
