"""The embedded hub: a Kubernetes API server for development, tests, demos and small installations.

One process, one SQLite file. Objects are plain JSON documents here, never typed Structs: an API server must keep
every field it is given. Vocabulary: a *resource* is one served (group, version, plural); a *schema node*
(``schema.Node``) says what a field may hold and how it merges; the *store* is the log of all changes, whose rowid
is the resourceVersion; a *refusal* is an answer that is a ``Status``.

A request comes in through ``serving``, is let through by ``access``, and is read from ``storage`` or goes on to
``writing``, which asks ``schemas`` and ``kinds`` what the document may hold and ``patches`` what it becomes.
``builtin`` describes Kubernetes' own kinds, ``upkeep`` is what the hub does by itself, ``hub`` puts it all together.
"""
