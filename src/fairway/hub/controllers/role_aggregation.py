"""Writes the rules of aggregated cluster roles.

Only readers of a role depend on this: the authorizer aggregates for itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from fairway.hub.controllers.controller import Controller, decode, metadata_of
from fairway.hub.flowcontrol.yielding import Yielder
from fairway.hub.rbac import roles
from fairway.hub.storage.store import Change

ROLES: Final = "clusterroles.rbac.authorization.k8s.io"
_LABELS: Final = b'"labels"'
_GATHERS: Final = b'"aggregationRule"'


class RoleAggregation(Controller[str]):
    """Reads all roles when an aggregated or an aggregating one changes, and ignores changes of others."""

    manager = "clusterrole-aggregation-controller"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._gathering: dict[str, roles.Role] = {}

    def resync(self) -> None:
        for item in self.items(ROLES):
            if _GATHERS in item.raw:
                self._gathering[item.key[2]] = roles.Role.of(decode(item.raw))
        self.enqueue(ROLES)

    def on_change(self, change: Change) -> None:
        if change.key[0] != ROLES:
            return
        if self._concerns(change):
            self.enqueue(ROLES)
        if change.type != "DELETED" and _GATHERS in change.raw:
            self._gathering[change.key[2]] = roles.Role.of(decode(change.raw))
        else:
            self._gathering.pop(change.key[2], None)

    def _concerns(self, change: Change) -> bool:
        for raw in (change.raw, change.previous):
            if raw is None:
                continue
            if _GATHERS in raw:
                return True
            if self._gathered(metadata_of(raw).labels):
                return True
        return False

    def _gathered(self, labels: Mapping[str, str]) -> bool:
        return any(
            selector.matches(labels) for role in self._gathering.values() for selector in role.gathers or ()
        )

    async def reconcile(self, item: str) -> None:
        found, yielder, unlabelled = {}, Yielder(), self._gathered({})
        for each in self.items(item):
            if unlabelled or _GATHERS in each.raw or _LABELS in each.raw:
                found[each.key[2]] = decode(each.raw)
            await yielder.step()
        for name, rules in roles.aggregate(found.values()).items():
            if (found[name].get("rules") or []) != rules:
                uid = found[name]["metadata"]["uid"]
                await self.merge_patch((item, "", name), {"metadata": {"uid": uid}, "rules": rules})
