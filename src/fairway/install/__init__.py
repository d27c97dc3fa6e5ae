"""What Fairway installs on a hub: one source for ``fairway install`` and the folder ``deploy``.

Data flow: an ``Installation`` (``installation``) says what is wanted. ``documents`` composes the objects from the
files in ``parts``, the rights of each controller (its ``rbac``) and the CRDs of the API types. ``fairway install``
prints them and compares them with a hub, ``fairway uninstall`` deletes them, and ``deploy/generate.py`` writes the same
objects as kustomizations.

- A *mode* is what the hub has already: nothing of OCM (``standalone``), OCM without its placement controller (``ocm``),
  or all of OCM, beside which Fairway only compares (``shadow``).
- A *part* is a file with objects that do not follow from the code.
"""

from fairway.install.installation import Installation, Mode, documents

__all__ = ["Installation", "Mode", "documents"]
