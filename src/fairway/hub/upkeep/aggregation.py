"""Cluster roles made of others: their rules are shown as they are gathered.

Access never waits for this: the authorizer gathers for itself. It is for those who read a role.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fairway.hub.access import rbac
from fairway.hub.serving.pace import Pace
from fairway.hub.storage.store import Change
from fairway.hub.upkeep.worker import Worker, decode

ROLES: Final = "clusterroles.rbac.authorization.k8s.io"
_LABELS: Final = b'"labels"'
_GATHERS: Final = b'"aggregationRule"'


class _Metadata(msgspec.Struct, gc=False):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Head(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_head: Final = msgspec.json.Decoder(_Head).decode


class Aggregation(Worker[str]):
    """Looks at all roles when one changes that gathers or that a role gathers; thousands of others may."""

    manager = "clusterrole-aggregation-controller"

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._gathering: dict[str, rbac.Role] = {}

    def begin(self) -> None:
        for item in self.items(ROLES):
            if _GATHERS in item.raw:
                self._gathering[item.key[2]] = rbac.Role.of(decode(item.raw))
        self.add(ROLES)

    def see(self, change: Change) -> None:
        if change.key[0] != ROLES:
            return
        if self._concerns(change):
            self.add(ROLES)
        if change.type != "DELETED" and _GATHERS in change.raw:
            self._gathering[change.key[2]] = rbac.Role.of(decode(change.raw))
        else:
            self._gathering.pop(change.key[2], None)

    def _concerns(self, change: Change) -> bool:
        for raw in (change.raw, change.previous):
            if raw is None:
                continue
            if _GATHERS in raw:
                return True
            if self._gathered(_head(raw).metadata.labels):
                return True
        return False

    def _gathered(self, labels: Mapping[str, str]) -> bool:
        return any(
            selector.matches(labels) for role in self._gathering.values() for selector in role.gathers or ()
        )

    async def work(self, item: str) -> None:
        roles, pace, unlabelled = {}, Pace(), self._gathered({})
        for each in self.items(item):
            if unlabelled or _GATHERS in each.raw or _LABELS in each.raw:
                roles[each.key[2]] = decode(each.raw)
            await pace.step()
        for name, rules in rbac.aggregate(roles.values()).items():
            if (roles[name].get("rules") or []) != rules:
                uid = roles[name]["metadata"]["uid"]
                await self.merge((item, "", name), {"metadata": {"uid": uid}, "rules": rules})
