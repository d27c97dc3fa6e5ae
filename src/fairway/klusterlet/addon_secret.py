"""The Secret with an add-on agent's hub credentials."""

from collections.abc import Mapping
from typing import Final

from fairway.klusterlet import names
from fairway.klusterlet.bootstrap import ensure_namespace
from fairway.klusterlet.errors import KlusterletError
from fairway.klusterlet.kinds import SECRETS
from fairway.klusterlet.membership import FIELD_MANAGER
from kubewire.api.resource import Key
from kubewire.client import AlreadyExists, Client, NotFound, Patch

OPAQUE: Final = "Opaque"

FOREIGN_SECRET: Final = (
    "Secret {namespace}/{name} has no label {label}={cluster}, so it has another owner, perhaps another hub; "
    "install the add-on in another namespace, or delete that Secret"
)


class ForeignSecret(KlusterletError):
    """The Secret of an add-on's identity has another owner."""


class AddOnSecret:
    """CredentialStore in a Secret. Creates the namespace, because the works that create it may need the Secret first.

    The hub chooses the namespace, so a Secret with another owner is not changed.
    """

    def __init__(self, cluster: Client, key: Key, *, joined_as: str, add_on: str) -> None:
        self._cluster, self._key, self._joined_as, self._add_on = cluster, key, joined_as, add_on

    async def read(self) -> Mapping[str, bytes]:
        """Raises ForeignSecret."""
        namespace, name = self._key
        try:
            secret = await self._cluster.get(SECRETS, name, namespace=namespace)
        except NotFound:
            return {}
        if secret.metadata.labels.get(names.JOINED_LABEL) != self._joined_as:
            raise ForeignSecret(
                FOREIGN_SECRET.format(
                    namespace=namespace, name=name, label=names.JOINED_LABEL, cluster=self._joined_as
                )
            )
        return secret.data

    async def write(self, files: Mapping[str, bytes]) -> None:
        namespace, name = self._key
        labels = {names.JOINED_LABEL: self._joined_as, names.ADD_ON_LABEL: self._add_on}
        body = {"metadata": {"name": name, "labels": labels}, "type": OPAQUE, "data": dict(files)}
        try:
            await self._cluster.create(SECRETS, body, namespace=namespace, field_manager=FIELD_MANAGER)
            return
        except NotFound:
            await ensure_namespace(self._cluster, namespace, name=self._joined_as)
            await self._cluster.create(SECRETS, body, namespace=namespace, field_manager=FIELD_MANAGER)
            return
        except AlreadyExists:
            await self.read()
        change = {"metadata": {"labels": labels}, "data": dict(files)}
        await self._cluster.patch(
            SECRETS, name, change, kind=Patch.MERGE, namespace=namespace, field_manager=FIELD_MANAGER
        )


async def remove(cluster: Client, key: Key, *, joined_as: str) -> bool:
    """Return whether an own Secret was deleted."""
    namespace, name = key
    try:
        secret = await cluster.get(SECRETS, name, namespace=namespace)
        if secret.metadata.labels.get(names.JOINED_LABEL) != joined_as:
            return False
        await cluster.delete(SECRETS, name, namespace=namespace, uid=secret.metadata.uid)
    except NotFound:
        return False
    return True
