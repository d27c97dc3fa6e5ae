"""Obtain a certificate: create a key and a CertificateSigningRequest, and wait until it is approved and signed.

Key and request name are stored while the request is pending, so that a restarted klusterlet does not create another
one: an administrator could not tell ten requests of one cluster apart.
"""

import asyncio
import logging
import secrets
import string
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
from fairway.kube import AlreadyExists, Client, Expired, KubeError, NotFound
from fairway.kube.signing import (
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
"""Between attempts to hear of a request from a hub that is out of reach."""

WAS_DENIED: Final = "the hub denied certificate request {name}{why}"
HAS_FAILED: Final = "the hub could not sign certificate request {name}{why}"
VANISHED: Final = "certificate request %s was deleted; creating another one"
UNUSABLE: Final = "the certificate of request %s is not usable (%s); requesting another one"
OUT_OF_REACH: Final = "cannot get certificate request %s: %s"

_LETTERS: Final = string.ascii_lowercase + string.digits


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSpec:
    """``prefix`` begins the request's name; ``seconds`` is how long the certificate shall live, if that matters."""

    subject: Subject
    prefix: str
    labels: dict[str, str] = field(default_factory=dict)
    signer: str = CLIENT_SIGNER
    hosts: tuple[str, ...] = ()
    seconds: int | None = None


class SubmittedRequest(Struct, frozen=True, kw_only=True):
    """A request that may still be answered."""

    name: str
    key: bytes
    user: str

    def __repr__(self) -> str:
        return f"<Asked {self.name}>"


class PendingCertificate:
    """What was asked for and not yet answered, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> SubmittedRequest | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=SubmittedRequest)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            return None  # somebody's text; asking once more costs little

    def write(self, asked: SubmittedRequest) -> None:
        replace_private(self._file, msgspec.json.encode(asked))

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)


Told = Callable[[str], None]
"""Is called with the name of a request that waits for somebody's approval."""


class Enrolment:
    def __init__(self, client: Client, wanted: CertificateSpec, *, pending: PendingCertificate) -> None:
        self._client, self._wanted, self._pending = client, wanted, pending

    async def pair(self, *, waiting: Told | None = None) -> KeyPair:
        """Waits as long as it takes. Until it is ``kept``, the same one can be had again without asking anew.

        Raises Refused, and KubeErrors of a hub that does not let us ask.
        """
        while True:
            asked = self._pending.read()
            if asked is None or asked.user != self._wanted.subject.user:
                asked = await self._ask()
            try:
                chain = await self._answer(asked.name, waiting)
            except NotFound:
                log.info(VANISHED, asked.name)
                self._pending.clear()
                continue
            except Refused:
                self._pending.clear()
                raise
            made = KeyPair(asked.key, chain)
            try:
                made.check()
            except CertificateError as fault:
                self._pending.clear()
                log.warning(UNUSABLE, asked.name, fault)
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            return made

    def kept(self) -> None:
        """What was asked for is where it belongs. Not before: a full disk must not cost what somebody approved."""
        self._pending.clear()

    async def _ask(self) -> SubmittedRequest:
        """The key is kept before the hub hears of the request: the other way round it could be lost. A request that
        did not get there is found missing the next time."""
        wanted = self._wanted
        key = new_key()
        while True:
            suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
            asked = SubmittedRequest(name=f"{wanted.prefix}{suffix}", key=key, user=wanted.subject.user)
            self._pending.write(asked)
            spec: dict[str, object] = {
                "request": request_for(key, wanted.subject, hosts=wanted.hosts),
                "signerName": wanted.signer,
                "usages": USAGES,
            }
            if wanted.seconds is not None:
                spec["expirationSeconds"] = wanted.seconds
            body = {"metadata": {"name": asked.name, "labels": wanted.labels}, "spec": spec}
            try:
                await self._client.create(SIGNING_REQUESTS, body)
            except AlreadyExists:
                continue
            return asked

    async def _answer(self, name: str, waiting: Told | None) -> bytes:
        """Raises NotFound once the request is gone."""
        while True:
            try:
                found = await self._client.get(SIGNING_REQUESTS, name)
                if (chain := _judged(found)) is not None:
                    return chain
                if waiting is not None and found.condition(APPROVED) is None:
                    waiting(name)
                    waiting = None
                await self._changed(found)
            except KubeError as error:
                if not error.retryable:
                    raise
                log.warning(OUT_OF_REACH, name, error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _changed(self, seen: CertificateSigningRequest) -> None:
        """Until something may have happened to the request."""
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
            return  # the hub forgot what it was like: then it is looked at anew


def _judged(request: CertificateSigningRequest) -> bytes | None:
    name = request.metadata.name
    for kind, text in ((DENIED, WAS_DENIED), (FAILED, HAS_FAILED)):
        found = request.condition(kind)
        if found is not None:
            why = found.message or found.reason
            raise Refused(text.format(name=name, why=f": {why}" if why else ""))
    return request.status.certificate or None
