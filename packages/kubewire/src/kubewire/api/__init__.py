"""Typed basics of Kubernetes objects, and what follows from their types. Everything here is pure.

- ``meta``, ``lease``, ``event`` and ``csr`` are frozen msgspec Structs with the field names of the wire; ``encoding``
  writes them. ``resource`` is the path of a kind and the type of its objects.
- ``annotation`` declares a field's rules beside the field, and ``shape`` reads them: ``schema`` and ``custom_resource``
  generate CRDs from it, ``defaults`` applies the API server's defaults.
- ``salvage`` decodes an object with an unreadable field, and ``fallback`` has the values that replace such fields.
- ``quantity``, ``selector``, ``naming``, ``jsonpath`` and ``age`` implement Kubernetes' quantities, label selectors,
  rules for names, field paths and ages.
"""

from kubewire.api.custom_resource import Column, CustomResource, Version, crd
from kubewire.api.encoding import encode
from kubewire.api.lease import Lease, LeaseSpec, MicroTime, format_micro_time
from kubewire.api.meta import (
    Condition,
    ObjectMeta,
    OwnerReference,
    find_condition,
    format_time,
    set_condition,
)
from kubewire.api.quantity import Quantity, QuantityError, quantity_float
from kubewire.api.resource import Resource
from kubewire.api.selector import (
    SELECT_EVERYTHING,
    SELECT_NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    Selector,
    SelectorError,
    compile_requirements,
    compile_selector,
)

__all__ = [
    "SELECT_EVERYTHING",
    "SELECT_NOTHING",
    "Column",
    "Condition",
    "CustomResource",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "MicroTime",
    "ObjectMeta",
    "OwnerReference",
    "Quantity",
    "QuantityError",
    "Requirement",
    "Resource",
    "Selector",
    "SelectorError",
    "Version",
    "compile_requirements",
    "compile_selector",
    "crd",
    "encode",
    "find_condition",
    "format_micro_time",
    "format_time",
    "quantity_float",
    "set_condition",
]
