"""Which pods belong together: the selectors of Services, and of the controllers that own pods.

PodTopologySpread spreads such pods by default. As in kube-scheduler, the selector of a pod merges those of all Services
that select it and that of its ReplicationController, ReplicaSet or StatefulSet.
"""

from collections.abc import Mapping
from typing import Final

from fairway.api.pod import Pod
from fairway.api.pod_owner import PodOwner, ReplicationController, Service
from fairway.hosts.column import Key
from kubewire.api.meta import ObjectMeta, OwnerReference
from kubewire.api.selector import IN, Requirement, Selector, SelectorError, compile_selector

POD_OWNERS: Key = ("pod-owners",)
"""The selectors of Services and of controllers. Never a column, only reported."""
KEPT: Final = 4096
"""Maximum number of selectors that are cached."""

_CONTROLLERS: Final = frozenset(
    {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}
)

_Labels = Mapping[str, str]


class PodOwners:
    """Kept up to date by upserts and deletes; indexed by namespace."""

    def __init__(self) -> None:
        self._services: dict[str, dict[str, _Labels]] = {}
        """Selectors by namespace and name."""
        self._controllers: dict[tuple[str, str, str], _Labels | Selector] = {}
        """Selectors by kind, namespace and name."""
        self._found: dict[tuple[str, frozenset[tuple[str, str]], tuple[str, str]], Selector | None] = {}

    def upsert(self, owner: PodOwner) -> bool:
        """Add or update an object. Return whether its selector changed."""
        namespace, name = owner.metadata.namespace, owner.metadata.name
        if isinstance(owner, Service):
            # A Service without a selector selects no pods, and an empty one adds nothing.
            services = self._services.setdefault(namespace, {})
            old: object = services.pop(name, None)
            new: object = owner.spec.selector or None
            if owner.spec.selector:
                services[name] = owner.spec.selector
            elif not services:
                del self._services[namespace]
        else:
            key = (owner.kind, namespace, name)
            old = self._controllers.get(key)
            new = self._controllers[key] = _selector_of(owner)
        return self._changed(old != new)

    def delete(self, owner: PodOwner) -> bool:
        """Delete an object. Return whether it had a selector."""
        namespace, name = owner.metadata.namespace, owner.metadata.name
        if not isinstance(owner, Service):
            return self._changed(self._controllers.pop((owner.kind, namespace, name), None) is not None)
        services = self._services.get(namespace, {})
        existed = services.pop(name, None) is not None
        if existed and not services:
            del self._services[namespace]
        return self._changed(existed)

    def _changed(self, changed: bool) -> bool:
        if changed:
            self._found.clear()
        return changed

    def selector_of(self, pod: Pod) -> Selector | None:
        """Return the merged selector of the objects that a pod belongs to; None if there are none."""
        if not self._services and not self._controllers:
            return None
        meta = pod.metadata
        owner = owner_of(meta)
        named = ("", "") if owner is None else (owner.kind, owner.name)
        key = (meta.namespace, frozenset(meta.labels.items()), named)
        if key not in self._found:
            if len(self._found) >= KEPT:
                self._found.clear()
            self._found[key] = self._merge(meta, named)
        return self._found[key]

    def _merge(self, meta: ObjectMeta, owner: tuple[str, str]) -> Selector | None:
        labels: dict[str, str] = {}
        for selector in self._services.get(meta.namespace, {}).values():
            if selector.items() <= meta.labels.items():
                labels.update(selector)
        kind, name = owner
        own = self._controllers.get((kind, meta.namespace, name))
        if own is not None and not isinstance(own, Selector):
            labels.update(own)
        requirements = [Requirement(key, IN, frozenset({value})) for key, value in sorted(labels.items())]
        if isinstance(own, Selector):
            requirements += own.requirements
        return Selector(tuple(dict.fromkeys(requirements))) if requirements else None


def owner_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the controller of a pod if its selector counts."""
    controller = next((owner for owner in meta.ownerReferences if owner.controller), None)
    if controller is None or (controller.apiVersion, controller.kind) not in _CONTROLLERS:
        return None
    return controller


def _selector_of(owner: PodOwner) -> _Labels | Selector:
    if isinstance(owner, Service | ReplicationController):
        return owner.spec.selector or {}
    try:
        return compile_selector(owner.spec.selector)
    except SelectorError:
        return Selector()
