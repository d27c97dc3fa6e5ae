"""The store: every object in memory as bytes, every write in a log on disk.

A write is checked against the newest state and gets its revision (``store``), waits for the batch that commits it
(``group_commit``, one fsync each) to the SQLite file (``log``), and is then visible to readers (``index``) and to
watches (``watch_cache``). ``reader`` decodes committed objects for the rest of the hub. ``revisions`` keeps revisions
unique across restored backups; ``archive`` makes, restores and checks backups; ``lock`` admits one process.

Words: a *revision* is the resourceVersion, a rowid of the log; the *head* is the newest state of an object, which may
not be on disk yet; a *change* is what watches receive.
"""
