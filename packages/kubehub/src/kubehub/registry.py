"""The served resources: built-in ones and those of custom resource definitions."""

from collections.abc import Iterable, Sequence

from kubehub.resource import Resource, version_priority


class Registry:
    """``generation`` increases with every change, so that derived documents can be cached."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._fixed = tuple(resources)
        self._custom: dict[str, tuple[Resource, ...]] = {}
        self.generation = 0
        self._rebuild()

    def _rebuild(self) -> None:
        self.generation += 1
        custom = [resource for resources in self._custom.values() for resource in resources]
        self.resources: tuple[Resource, ...] = (*self._fixed, *custom)
        self._by_path = {(r.group, r.version, r.plural): r for r in self.resources}
        self._by_kind = {(r.group, r.version, r.kind): r for r in self.resources}
        self._by_key: dict[str, Resource] = {}
        for resource in self.resources:
            if resource.conversion is None and resource.storage_version in ("", resource.version):
                self._by_key.setdefault(resource.key, resource)
        for resource in self.resources:
            self._by_key.setdefault(resource.key, resource)
        versions: dict[str, list[str]] = {}
        for resource in self.resources:
            listed = versions.setdefault(resource.group, [])
            if resource.version not in listed:
                listed.append(resource.version)
        self.groups: dict[str, tuple[str, ...]] = {
            group: tuple(sorted(listed, key=version_priority, reverse=True))
            for group, listed in versions.items()
        }

    def define(self, name: str, resources: Sequence[Resource]) -> None:
        """Serve all versions of a custom resource; replaces the earlier ones of the same definition."""
        self._custom[name] = tuple(resources)
        self._rebuild()

    def remove(self, name: str) -> None:
        if self._custom.pop(name, None) is not None:
            self._rebuild()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def of_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return self._by_kind.get((group, version, kind))

    def of_key(self, key: str) -> Resource | None:
        """Return the storage version of the resource with that key."""
        return self._by_key.get(key)

    def storage_version_of(self, resource: Resource) -> Resource:
        """Return the storage version of a resource."""
        return self._by_key[resource.key] if resource.conversion is not None else resource

    def keys(self) -> Iterable[str]:
        return self._by_key.keys()

    def of_version(self, group: str, version: str) -> tuple[Resource, ...]:
        return tuple(r for r in self.resources if r.group == group and r.version == version)
