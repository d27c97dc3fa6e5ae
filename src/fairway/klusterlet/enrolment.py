"""Obtain a certificate: create a key and a CertificateSigningRequest, and wait until it is approved and signed.

Key and request name are stored while the request is pending, so that a restarted klusterlet does not create another
one: an administrator could not distinguish ten requests of one cluster.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from fairway.klusterlet.atomic_directory import replace_private
from fairway.klusterlet.certificates import CertificateError, KeyPair, Subject, new_key, request_for
from fairway.klusterlet.errors import Refused
from fairway.klusterlet.names import random_suffix
from kubewire.client import AlreadyExists, Client, Expired, KubeError, NotFound
from kubewire.client.csr import (
    APPROVED,
    CLIENT_SIGNER,
    DENIED,
    FAILED,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
)

log: Final = logging.getLogger(__name__)

USAGES: Final = ("digital signature", "key encipherment", "client auth")
WATCH_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 2.0
"""Pause before the next request to an unreachable hub."""

REQUEST_DENIED: Final = "the hub denied certificate request {name}{why}"
SIGNING_FAILED: Final = "the hub could not sign certificate request {name}{why}"
REQUEST_DELETED: Final = "certificate request %s was deleted; creating another one"
UNUSABLE: Final = "the certificate of request %s is not usable (%s); requesting another one"
GET_FAILED: Final = "cannot get certificate request %s: %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSpec:
    """``prefix`` starts the request's name; ``seconds`` is the requested validity."""

    subject: Subject
    prefix: str
    labels: dict[str, str] = field(default_factory=dict)
    signer: str = CLIENT_SIGNER
    hosts: tuple[str, ...] = ()
    seconds: int | None = None


class SubmittedRequest(Struct, frozen=True, kw_only=True):
    """A pending request."""

    name: str
    key: bytes
    user: str

    def __repr__(self) -> str:
        return f"<SubmittedRequest {self.name}>"


class PendingCertificate:
    """A pending request in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> SubmittedRequest | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=SubmittedRequest)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            return None  #  invalid content; another request costs little

    def write(self, request: SubmittedRequest) -> None:
        replace_private(self._file, msgspec.json.encode(request))

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)


OnWaiting = Callable[[str], None]
"""Called with the name of a request that waits for approval."""


class Enrolment:
    def __init__(self, client: Client, wanted: CertificateSpec, *, pending: PendingCertificate) -> None:
        self._client, self._wanted, self._pending = client, wanted, pending

    async def obtain(self, *, waiting: OnWaiting | None = None) -> KeyPair:
        """Wait until the request is signed. Until ``mark_stored``, the same pair is returned again.

        Raises Refused, and KubeErrors that are not retryable.
        """
        while True:
            request = self._pending.read()
            # A pending request of another user is from before the agent registered again: its certificate is of no use.
            if request is None or request.user != self._wanted.subject.user:
                request = await self._submit()
            try:
                chain = await self._wait_for_certificate(request.name, waiting)
            except NotFound:
                log.info(REQUEST_DELETED, request.name)
                self._pending.clear()
                continue
            except Refused:
                self._pending.clear()
                raise
            pair = KeyPair(request.key, chain)
            try:
                pair.check()
            except CertificateError as fault:
                self._pending.clear()
                log.warning(UNUSABLE, request.name, fault)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            return pair

    def mark_stored(self) -> None:
        """Drop the pending request. Call it after storing the pair: a full disk must not cost an approved request."""
        self._pending.clear()

    async def _submit(self) -> SubmittedRequest:
        """Store the key before the request is created, so that it cannot be lost. An uncreated request is found missing
        later."""
        wanted = self._wanted
        key = new_key()
        while True:
            request = SubmittedRequest(
                name=f"{wanted.prefix}{random_suffix()}", key=key, user=wanted.subject.user
            )
            # Key first, request second. A process that is killed in between repeats only the create; in the other order
            # it would lose the key of a request that an administrator may approve, who then has to approve another one.
            self._pending.write(request)
            spec: dict[str, object] = {
                "request": request_for(key, wanted.subject, hosts=wanted.hosts),
                "signerName": wanted.signer,
                "usages": USAGES,
            }
            if wanted.seconds is not None:
                spec["expirationSeconds"] = wanted.seconds
            body = {"metadata": {"name": request.name, "labels": wanted.labels}, "spec": spec}
            try:
                await self._client.create(SIGNING_REQUESTS, body)
            except AlreadyExists:
                continue
            return request

    async def _wait_for_certificate(self, name: str, waiting: OnWaiting | None) -> bytes:
        """Raises NotFound if the request was deleted."""
        while True:
            try:
                request = await self._client.get(SIGNING_REQUESTS, name)
                if (chain := _certificate_of(request)) is not None:
                    return chain
                if waiting is not None and request.condition(APPROVED) is None:
                    waiting(name)
                    waiting = None
                # A watch instead of polling: an approval takes a person minutes to days, and then the agent should join
                # at once.
                await self._wait_for_change(request)
            except KubeError as error:
                if not error.retryable:
                    raise
                log.warning(GET_FAILED, name, error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _wait_for_change(self, seen: CertificateSigningRequest) -> None:
        """Wait until the request may have changed."""
        meta = seen.metadata
        events = self._client.watch(
            SIGNING_REQUESTS,
            fields=f"metadata.name={meta.name}",
            resource_version=meta.resourceVersion,
            bookmarks=False,
            timeout=WATCH_SECONDS,
        )
        try:
            async with aclosing(events):
                async for _ in events:
                    return
        except Expired:
            return  #  the hub has compacted this version; get the request again


def _certificate_of(request: CertificateSigningRequest) -> bytes | None:
    name = request.metadata.name
    for kind, text in ((DENIED, REQUEST_DENIED), (FAILED, SIGNING_FAILED)):
        condition = request.condition(kind)
        if condition is not None:
            why = condition.message or condition.reason
            raise Refused(text.format(name=name, why=f": {why}" if why else ""))
    return request.status.certificate or None
