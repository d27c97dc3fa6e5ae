"""Certificate signing requests: signed once they are approved."""

from typing import Any, Final

from fairway.hub.signing import Signing
from fairway.hub.store import Change
from fairway.hub.upkeep.worker import Worker

REQUESTS: Final = "certificatesigningrequests.certificates.k8s.io"


class Signer(Worker[str]):
    manager = "csr-signing-controller"

    def __init__(self, *, signing: Signing, **parts: Any) -> None:
        super().__init__(**parts)
        self._signing = signing

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
        status = self._signing.sign(request)
        if status is not None:
            await self.merge(
                (REQUESTS, "", item),
                {"metadata": {"uid": request["metadata"]["uid"]}, "status": status},
                subresource="status",
            )
