"""Certificate signing requests: signed once they are approved."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from fairway.hub.access import signer
from fairway.hub.access.certs import Authority
from fairway.hub.storage.store import Change
from fairway.hub.upkeep.worker import Worker

REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"


class Signer(Worker[str]):
    manager = "csr-signing-controller"

    def __init__(self, *, authority: Authority, clock: Callable[[], datetime], **parts: Any) -> None:
        super().__init__(**parts)
        self._authority, self._clock = authority, clock

    def begin(self) -> None:
        for item in self.items(REQUESTS):
            self.add(item.key[2])

    def see(self, change: Change) -> None:
        if change.key[0] == REQUESTS and change.type != "DELETED":
            self.add(change.key[2])

    async def work(self, item: str) -> None:
        request = self.document((REQUESTS, "", item))
        if request is None:
            return
        signed = signer.signed(request, authority=self._authority, now=self._clock())
        if signed is not None:
            await self.merge(
                (REQUESTS, "", item),
                {"metadata": {"uid": request["metadata"]["uid"]}, "status": signed["status"]},
                subresource="status",
            )
