"""The built-in kinds: hooks (``kind.Kind``) for what their schemas can't express, such as defaults and immutability.

``catalog.kinds`` maps resources to hooks. Kinds that belong to a subsystem are in its package: ``rbac.kinds``,
``csr.kind``, ``crd.kind``, ``admission.kinds``. No controller runs workloads, assigns addresses or provides volumes;
the objects are stored and defaulted. ``templates`` has what pods and pod templates share.
"""
