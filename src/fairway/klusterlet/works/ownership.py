"""Owner references and records: which AppliedManifestWorks own an object, and how objects are recorded in them.

Kubernetes' garbage collector uses the same references, so applied objects are deleted with their AppliedManifestWork
even if no agent runs any more.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fairway.api.resources import APPLIED_MANIFEST_WORKS
from fairway.api.work import AppliedManifestWork, AppliedResource
from fairway.klusterlet.works.objects import ObjectId, ObjectVersion, Target, owners_of
from kubewire.client import Resource

Reference = dict[str, Any]

_KIND: Final = (APPLIED_MANIFEST_WORKS.api_version, APPLIED_MANIFEST_WORKS.kind)


def reference(record: AppliedManifestWork) -> Reference:
    api_version, kind = _KIND
    return {"apiVersion": api_version, "kind": kind, "name": record.metadata.name, "uid": record.metadata.uid}


def work_references(owners: Iterable[Mapping[str, Any]]) -> list[Reference]:
    """Return the references to AppliedManifestWorks, of any hub."""
    return [dict(owner) for owner in owners if (owner.get("apiVersion"), owner.get("kind")) == _KIND]


def has_owner(live: Mapping[str, Any], uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in owners_of(live))


def target_of(entry: AppliedResource) -> Target:
    resource: Resource[ObjectVersion] = Resource(
        group=entry.group,
        version=entry.version,
        plural=entry.resource,
        kind=entry.resource,
        namespaced=bool(entry.namespace),
        type=ObjectVersion,
    )
    return Target(resource=resource, namespace=entry.namespace, name=entry.name)


def entry_of(target: Target, *, uid: str = "") -> AppliedResource:
    return AppliedResource(
        group=target.resource.group,
        version=target.resource.version,
        resource=target.resource.plural,
        namespace=target.namespace,
        name=target.name,
        uid=uid,
    )


def identity_of(entry: AppliedResource) -> ObjectId:
    return ObjectId(group=entry.group, resource=entry.resource, namespace=entry.namespace, name=entry.name)


def sorted_entries(entries: Iterable[AppliedResource]) -> tuple[AppliedResource, ...]:
    return tuple(
        sorted(
            entries,
            key=lambda entry: (entry.group, entry.version, entry.resource, entry.namespace, entry.name),
        )
    )
