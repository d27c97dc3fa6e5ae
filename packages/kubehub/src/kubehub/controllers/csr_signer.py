"""Signs approved certificate signing requests."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from kubehub.controllers.controller import Controller
from kubehub.csr import signing
from kubehub.pki.certificates import Authority
from kubehub.storage.store import Change

REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"


class CsrSigner(Controller[str]):
    manager = "csr-signing-controller"

    def __init__(self, *, authority: Authority, clock: Callable[[], datetime], **parts: Any) -> None:
        super().__init__(**parts)
        self._authority, self._clock = authority, clock

    def resync(self) -> None:
        for item in self.items(REQUESTS):
            self.enqueue(item.key[2])

    def on_change(self, change: Change) -> None:
        if change.key[0] == REQUESTS and change.type != "DELETED":
            self.enqueue(change.key[2])

    async def reconcile(self, item: str) -> None:
        request = self.document((REQUESTS, "", item))
        if request is None:
            return
        signed = signing.sign(request, authority=self._authority, now=self._clock())
        if signed is not None:
            await self.merge_patch(
                (REQUESTS, "", item),
                {"metadata": {"uid": request["metadata"]["uid"]}, "status": signed["status"]},
                subresource="status",
            )
