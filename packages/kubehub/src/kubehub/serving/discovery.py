"""Discovery: the aggregated documents, and the older ones per group."""

import hashlib
from collections.abc import Iterable
from typing import Final

from kubehub.registry import Registry
from kubehub.resource import Document, Resource, Subresource

AGGREGATED: Final = "apidiscovery.k8s.io"

_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The order in which discovery lists the verbs of custom resources; those of others are sorted."""


def _kind(resource: Resource, sub: Subresource | None = None) -> Document:
    if sub is not None and sub.kind:
        return {"group": sub.group, "version": sub.version, "kind": sub.kind}
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _scope(resource: Resource) -> str:
    return "Namespaced" if resource.namespaced else "Cluster"


def _verbs(resource: Resource) -> list[str]:
    return sorted(resource.verbs, key=_CUSTOM_VERBS.index if resource.custom else None)


def _aggregated(resource: Resource) -> Document:
    document: Document = {
        "resource": resource.plural,
        "responseKind": _kind(resource),
        "scope": _scope(resource),
        "singularResource": resource.singular or resource.kind.lower(),
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        document["shortNames"] = list(resource.short_names)
    if resource.categories:
        document["categories"] = list(resource.categories)
    if resource.subresources:
        document["subresources"] = [
            {"subresource": sub.name, "responseKind": _kind(resource, sub), "verbs": sorted(sub.verbs)}
            for sub in sorted(resource.subresources.values(), key=lambda s: s.name)
        ]
    return document


def aggregated(registry: Registry, *, core: bool) -> Document:
    """Build the aggregated document at ``/api`` (core) or ``/apis``."""
    groups = []
    for group, versions in sorted(registry.groups.items()):
        if (group == "") is not core:
            continue
        groups.append(
            {
                "metadata": {"name": group, "creationTimestamp": None}
                if group
                else {"creationTimestamp": None},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated(r) for r in _sorted(registry.of_version(group, version))],
                        "freshness": "Current",
                    }
                    for version in versions
                ],
            }
        )
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED}/v2",
        "metadata": {},
        "items": groups,
    }


def _sorted(resources: Iterable[Resource]) -> list[Resource]:
    return sorted(resources, key=lambda r: r.plural)


def core_versions(address: str) -> Document:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _group(name: str, versions: Iterable[str]) -> Document:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def groups(registry: Registry) -> Document:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in sorted(registry.groups.items()) if name],
    }


def group(registry: Registry, name: str) -> Document | None:
    versions = registry.groups.get(name)
    if not name or not versions:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, versions)


def resources(registry: Registry, group: str, version: str) -> Document | None:
    if version not in registry.groups.get(group, ()):
        return None
    listed = []
    for resource in _sorted(registry.of_version(group, version)):
        entry: Document = {
            "name": resource.plural,
            "singularName": resource.singular or resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": _verbs(resource),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        entry["storageVersionHash"] = _storage_hash(resource)
        listed.append(entry)
        for sub in sorted(resource.subresources.values(), key=lambda s: s.name):
            child: Document = {
                "name": f"{resource.plural}/{sub.name}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": sub.kind or resource.kind,
                "verbs": sorted(sub.verbs),
            }
            if sub.kind and (sub.group, sub.version) != (group, version):
                child |= {"group": sub.group, "version": sub.version}
            listed.append(child)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": listed,
    }


def _storage_hash(resource: Resource) -> str:
    """Opaque; equal for all versions of a resource that share their storage."""
    text = f"{resource.group}/{resource.storage_version or resource.version}/{resource.kind}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
