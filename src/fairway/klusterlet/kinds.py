"""Kubernetes kinds that a klusterlet uses on its cluster, with the fields it needs."""

from typing import Final

from msgspec import Struct

from fairway.api.secret import Secret as Secret
from kubewire.api.meta import ObjectMeta
from kubewire.client import Resource


class Namespace(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()


class CustomResourceDefinition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: ObjectMeta = ObjectMeta()


NAMESPACES: Final = Resource(
    group="", version="v1", plural="namespaces", kind="Namespace", namespaced=False, type=Namespace
)
SECRETS: Final = Resource(
    group="", version="v1", plural="secrets", kind="Secret", namespaced=True, type=Secret
)
DEFINITIONS: Final = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    type=CustomResourceDefinition,
)
