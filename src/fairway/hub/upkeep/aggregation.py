"""Cluster roles made of others: their rules are shown as they are gathered.

Access never waits for this: the authorizer gathers for itself. It is for those who read a role.
"""

from typing import Final

from fairway.hub.access import rbac
from fairway.hub.storage.store import Change
from fairway.hub.upkeep.worker import Worker, decode

ROLES: Final = "clusterroles.rbac.authorization.k8s.io"


class Aggregation(Worker[str]):
    manager = "clusterrole-aggregation-controller"

    def begin(self) -> None:
        self.add(ROLES)

    def see(self, change: Change) -> None:
        if change.key[0] == ROLES:
            self.add(ROLES)

    async def work(self, item: str) -> None:
        roles = {each.key[2]: decode(each.raw) for each in self.items(item)}
        for name, rules in rbac.aggregate(roles.values()).items():
            if (roles[name].get("rules") or []) != rules:
                uid = roles[name]["metadata"]["uid"]
                await self.merge((item, "", name), {"metadata": {"uid": uid}, "rules": rules})
