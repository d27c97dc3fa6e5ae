"""The Secret an add-on's agent finds its identity on the hub in."""

from collections.abc import Mapping
from typing import Final

from fairway.klusterlet import names
from fairway.klusterlet.grounds import make_room
from fairway.klusterlet.kinds import SECRETS
from fairway.klusterlet.membership import FIELD_MANAGER
from fairway.kube import AlreadyExists, Client, NotFound, Patch
from fairway.kube.resource import Key

OPAQUE: Final = "Opaque"


class AddOnSecret:
    """A Vault. The namespace is made if it is missing: the works that would make it may need the Secret first."""

    def __init__(self, cluster: Client, key: Key, *, joined_as: str, add_on: str) -> None:
        self._cluster, self._key, self._joined_as, self._add_on = cluster, key, joined_as, add_on

    async def read(self) -> Mapping[str, bytes]:
        namespace, name = self._key
        try:
            return (await self._cluster.get(SECRETS, name, namespace=namespace)).data
        except NotFound:
            return {}

    async def write(self, files: Mapping[str, bytes]) -> None:
        namespace, name = self._key
        labels = {names.JOINED_LABEL: self._joined_as, names.ADD_ON_LABEL: self._add_on}
        body = {"metadata": {"name": name, "labels": labels}, "type": OPAQUE, "data": dict(files)}
        try:
            await self._cluster.create(SECRETS, body, namespace=namespace, field_manager=FIELD_MANAGER)
            return
        except NotFound:
            await make_room(self._cluster, namespace, name=self._joined_as)
            await self._cluster.create(SECRETS, body, namespace=namespace, field_manager=FIELD_MANAGER)
            return
        except AlreadyExists:
            pass
        change = {"metadata": {"labels": labels}, "data": dict(files)}
        await self._cluster.patch(
            SECRETS, name, change, kind=Patch.MERGE, namespace=namespace, field_manager=FIELD_MANAGER
        )


async def remove(cluster: Client, key: Key, *, joined_as: str) -> bool:
    """Whether there was one that was made here."""
    namespace, name = key
    try:
        found = await cluster.get(SECRETS, name, namespace=namespace)
        if found.metadata.labels.get(names.JOINED_LABEL) != joined_as:
            return False
        await cluster.delete(SECRETS, name, namespace=namespace, uid=found.metadata.uid)
    except NotFound:
        return False
    return True
