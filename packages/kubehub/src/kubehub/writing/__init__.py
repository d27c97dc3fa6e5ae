"""Writes: from a decoded request to a commit.

``writer.Writer`` has the verbs: create, update, patch, apply, delete. Each decodes its request (``decoding``,
``patching``), checks preconditions and builds a ``Proposal``; ``pipeline`` takes the steps that all have in common and
lists the order of a kind's hooks; ``validation`` collects the faults; ``commit`` hands the object to the store.
``deletion`` deletes or marks for deletion. ``subresources`` serves ``scale``, ``eviction``, bindings, tokens and
reviews.

Words: the *view* is the resource in the client's API version; *live* and *old* are the stored object, as an item and
decoded.
"""
