"""Writes the rules of aggregated cluster roles.

Only readers of a role depend on this: the authorizer aggregates for itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from kubehub.controllers.controller import Controller, decode, metadata_of
from kubehub.flowcontrol.yielding import Yielder
from kubehub.rbac import roles
from kubehub.storage.store import Change

ROLES: Final = "clusterroles.rbac.authorization.k8s.io"
_LABELS: Final = b'"labels"'
_AGGREGATES: Final = b'"aggregationRule"'


class RoleAggregation(Controller[str]):
    """Reads all roles when an aggregated or an aggregating one changes, and ignores changes of others."""

    manager = "clusterrole-aggregation-controller"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._aggregating: dict[str, roles.Role] = {}

    def resync(self) -> None:
        for item in self.items(ROLES):
            if _AGGREGATES in item.raw:
                self._aggregating[item.key[2]] = roles.Role.of(decode(item.raw))
        self.enqueue(ROLES)

    def on_change(self, change: Change) -> None:
        if change.key[0] != ROLES:
            return
        if self._affects_aggregation(change):
            self.enqueue(ROLES)
        if change.type != "DELETED" and _AGGREGATES in change.raw:
            self._aggregating[change.key[2]] = roles.Role.of(decode(change.raw))
        else:
            self._aggregating.pop(change.key[2], None)

    def _affects_aggregation(self, change: Change) -> bool:
        for raw in (change.raw, change.previous):
            if raw is None:
                continue
            if _AGGREGATES in raw:
                return True
            if self._is_aggregated(metadata_of(raw).labels):
                return True
        return False

    def _is_aggregated(self, labels: Mapping[str, str]) -> bool:
        return any(
            selector.matches(labels)
            for role in self._aggregating.values()
            for selector in role.selectors or ()
        )

    async def reconcile(self, item: str) -> None:
        documents, yielder, unlabelled = {}, Yielder(), self._is_aggregated({})
        for stored in self.items(item):
            if unlabelled or _AGGREGATES in stored.raw or _LABELS in stored.raw:
                documents[stored.key[2]] = decode(stored.raw)
            await yielder.step()
        for name, rules in roles.aggregate(documents.values()).items():
            if (documents[name].get("rules") or []) != rules:
                uid = documents[name]["metadata"]["uid"]
                await self.merge_patch((item, "", name), {"metadata": {"uid": uid}, "rules": rules})
