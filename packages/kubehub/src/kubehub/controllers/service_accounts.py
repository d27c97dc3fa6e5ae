"""Default service accounts, the ConfigMap with the hub's CA, and token secrets."""

import base64
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from kubehub.authn.service_account_tokens import Issuer, secret_data
from kubehub.controllers.controller import Controller, decode, metadata_of
from kubehub.kinds.core import ACCOUNT_TOKEN
from kubehub.resource import Document
from kubehub.status import Refusal
from kubehub.storage.store import Change, Key

ROOT_CA: Final = "kube-root-ca.crt"
ACCOUNT: Final = "kubernetes.io/service-account.name"
_TOKEN: Final = ACCOUNT_TOKEN.encode()
_WATCHED: Final = frozenset({"namespaces", "serviceaccounts", "configmaps"})


class ServiceAccountController(Controller[str]):
    """Creates the default service account and the CA ConfigMap in every namespace."""

    manager = "service-account-controller"

    def __init__(
        self, *, certificate: Callable[[], str], accounts: bool, root_ca: bool, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self._certificate, self._accounts, self._root_ca = certificate, accounts, root_ca

    def _expected_objects(self) -> Iterator[tuple[str, Document]]:
        if self._accounts:
            yield "serviceaccounts", {"metadata": {"name": "default"}}
        if self._root_ca:
            note = {"kubernetes.io/description": "The certificate authority of this hub."}
            data = {"ca.crt": self._certificate()}
            yield "configmaps", {"metadata": {"name": ROOT_CA, "annotations": note}, "data": data}

    def resync(self) -> None:
        for item in self.items("namespaces"):
            self.enqueue(item.key[2])

    def on_change(self, change: Change) -> None:
        if change.key[0] not in _WATCHED:
            return
        if change.key[0] == "namespaces":
            if change.type != "DELETED":
                self.enqueue(change.key[2])
        elif change.key[2] in ("default", ROOT_CA) and change.type != "ADDED":
            self.enqueue(change.key[1])

    async def reconcile(self, item: str) -> None:
        namespace = self.document(("namespaces", "", item))
        if namespace is None or namespace["metadata"].get("deletionTimestamp"):
            return
        for key, wanted in self._expected_objects():
            name = wanted["metadata"]["name"]
            stored = self.document((key, item, name))
            resource = self.resource(key)
            if resource is None:
                continue
            if stored is None:
                with contextlib.suppress(Refusal):
                    await self.writer.create(resource, item, wanted, self.request())
            elif "data" in wanted and stored.get("data") != wanted["data"]:
                await self.merge_patch((key, item, name), {"data": wanted["data"]})


class TokenController(Controller[Key]):
    """Fills secrets of type service-account-token and deletes them with their account.

    Updates them when the token key was replaced, or the authority's certificate renewed.
    """

    manager = "tokens-controller"

    def __init__(self, *, issuer: Issuer, certificate: Callable[[], str], **parts: Any) -> None:
        super().__init__(**parts)
        self._issuer, self._certificate = issuer, certificate
        self._of_account: dict[tuple[str, str], set[Key]] = {}
        """Token secrets by namespace and account."""
        self._accounts: dict[Key, tuple[str, str]] = {}

    def resync(self) -> None:
        for item in self.items("secrets"):
            self._track(item.key, item.raw)

    def on_change(self, change: Change) -> None:
        if change.key[0] == "secrets":
            self._track(change.key, b"" if change.type == "DELETED" else change.raw)
        elif change.key[0] == "serviceaccounts" and change.type == "DELETED":
            for key in self._of_account.get((change.key[1], change.key[2]), ()):
                self.enqueue(key)

    def _track(self, key: Key, raw: bytes) -> None:
        if (before := self._accounts.pop(key, None)) is not None:
            self._of_account[before].discard(key)
            if not self._of_account[before]:
                del self._of_account[before]
        if _TOKEN in raw:
            account = (key[1], metadata_of(raw).annotations.get(ACCOUNT, ""))
            self._accounts[key] = account
            self._of_account.setdefault(account, set()).add(key)
            self.enqueue(key)

    async def reconcile(self, item: Key) -> None:
        stored = self.store.get(item)
        if stored is None:
            return
        secret = decode(stored.raw)
        if secret.get("type") != ACCOUNT_TOKEN:
            return
        annotations = secret["metadata"].get("annotations") or {}
        name = annotations.get(ACCOUNT, "")
        account = self.document(("serviceaccounts", item[1], name))
        uid = annotations.get("kubernetes.io/service-account.uid")
        if account is None or (uid and uid != account["metadata"]["uid"]):
            await self.delete(item, uid=secret["metadata"]["uid"])
            return
        token, certificate = secret_data(secret, "token").decode(errors="replace"), self._certificate()
        if not token or self._issuer.is_outdated(token):
            token = self._issuer.secret_token(account=account, secret=secret)
        elif secret_data(secret, "ca.crt") == certificate.encode():
            return
        values = {"token": token, "ca.crt": certificate, "namespace": item[1]}
        await self.merge_patch(
            item,
            {
                "metadata": {
                    "annotations": {"kubernetes.io/service-account.uid": account["metadata"]["uid"]}
                },
                "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
            },
        )
