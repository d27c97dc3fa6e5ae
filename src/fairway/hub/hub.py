"""The embedded hub as a whole: opened, filled with what every hub has, served, closed."""

import asyncio
import contextlib
import copy
import ipaddress
import logging
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fairway.hub import builtin, conversion, discretion, own_service, upkeep
from fairway.hub.access import bootstrap, policy
from fairway.hub.access.authn import Authenticator
from fairway.hub.access.authz import Authorizer
from fairway.hub.access.bearer import StaticTokens
from fairway.hub.access.jwt import Key as TokenKey
from fairway.hub.access.pki import Certificates
from fairway.hub.access.tokens import Issuer
from fairway.hub.admission import acceptance
from fairway.hub.admission.control import GROUP as ADMISSION
from fairway.hub.admission.control import Admission
from fairway.hub.json_decoder import decode_object as _decode
from fairway.hub.kinds import priorities
from fairway.hub.kinds.catalog import kinds
from fairway.hub.kinds.definitions import DEFINITIONS
from fairway.hub.options import Write
from fairway.hub.registry import Registry
from fairway.hub.requests import Request
from fairway.hub.resource import Document, Resource
from fairway.hub.schemas import crds
from fairway.hub.serving.audit import Audit
from fairway.hub.serving.documents import Documents
from fairway.hub.serving.meters import Meters
from fairway.hub.serving.reads import Reader
from fairway.hub.serving.server import Server
from fairway.hub.status import Refusal
from fairway.hub.storage.facts import Facts
from fairway.hub.storage.lives import first_revision
from fairway.hub.storage.store import CHANGES_KEPT, Change, Durability, ReadOnly, Store
from fairway.hub.upkeep.accounts import Accounts, Tokens
from fairway.hub.upkeep.aggregation import Aggregation
from fairway.hub.upkeep.collector import Collector
from fairway.hub.upkeep.definitions import Definitions
from fairway.hub.upkeep.expiry import Expiry
from fairway.hub.upkeep.namespaces import Namespaces
from fairway.hub.upkeep.signer import Signer
from fairway.hub.upkeep.worker import Worker
from fairway.hub.user import MASTERS, User
from fairway.hub.writing.special import Special
from fairway.hub.writing.writes import Writer

log = logging.getLogger(__name__)

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
PROBE_SECONDS: Final = 2.0
RENEWAL_SECONDS: Final = 0.5
"""Between looks at the clock, which may be set forward by years."""
AUDIT_FILE: Final = "audit.log"
PKI: Final = "pki"
NOTED_AUTHORITY: Final = "authority"
NOTED_TOKEN_KEY: Final = "token key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    folder: Path | None = None
    """Where everything is kept; without one, only in memory."""
    host: str = "127.0.0.1"
    port: int = 0
    names: Sequence[str] = ()
    """Further names and addresses the serving certificate is for."""
    tokens: Path | None = None
    """A file of static bearer tokens."""
    audit: Path | None = None
    """Where to write the audit log; in ``folder`` unless said otherwise."""
    upkeep: frozenset[str] = upkeep.ALL
    durability: Durability = "full"
    history: int = CHANGES_KEPT
    """Changes that watches and lists of the past can go back."""
    definitions: Sequence[Document] = ()
    """Custom resource definitions that the hub brings with it."""


class Hub:
    """Open with ``running``."""

    def __init__(
        self, settings: Settings, *, store: Store, certificates: Certificates, token_key: TokenKey
    ) -> None:
        self._settings = settings
        self.store, self.certificates = store, certificates
        self.registry = Registry(conversion.unified(each) for each in builtin.resources())
        facts = Facts(store=store)
        self.authorizer = Authorizer(facts)
        self.issuer = Issuer(key=token_key, objects=facts)
        static = StaticTokens.read(settings.tokens) if settings.tokens else None
        self.authenticator = Authenticator(
            authority=certificates.authority, issuer=self.issuer, objects=facts, static=static
        )
        self.writer = Writer(
            store=store,
            registry=self.registry,
            kinds=kinds(authorizer=self.authorizer, registry=self.registry, objects=facts, clock=_now),
            clock=_now,
        )
        self.reader = Reader(store=store)
        self.meters = Meters(
            count=lambda: {key: store.count(key) for key in store.resources()},
            revision=lambda: store.revision,
        )
        self._audit = Audit(settings.audit or (settings.folder / AUDIT_FILE if settings.folder else None))
        self.server = Server(
            registry=self.registry,
            reader=self.reader,
            writer=self.writer,
            special=Special(
                store=store,
                writer=self.writer,
                authenticator=self.authenticator,
                authorizer=self.authorizer,
                issuer=self.issuer,
            ),
            documents=Documents(
                registry=self.registry,
                address=lambda: self.url.removeprefix("https://"),
                faults=lambda: {"store": store.read_only} if store.read_only else {},
                metrics=self.meters.exposition,
                keys=self.issuer.jwks,
                issuer=lambda: self.issuer.discovery(address=self.url.removeprefix("https://")),
            ),
            authenticator=self.authenticator,
            authorizer=self.authorizer,
            admission=Admission(objects=facts, registry=self.registry, authorizer=self.authorizer),
            audit=self._audit,
            meters=self.meters,
        )
        self._workers: list[Worker[Any]] = []
        self._background: list[asyncio.Task[None]] = []
        self._furnished = False
        self.url = ""

    @property
    def authority_pem(self) -> str:
        return self.certificates.authority.identity.certificate_pem().decode()

    def kubeconfig(self) -> Document:
        """For the administrator."""
        return self.certificates.kubeconfig(server=self.url)

    async def _start(self) -> None:
        for item in self.store.items(DEFINITIONS).items:
            self._define(item.key[2], _decode(item.raw))
        self.store.listen(self._redefine)
        await self._furnish()
        self._workers = self._hire()
        for worker in self._workers:
            self.store.listen(worker.see)
            worker.start()
        self._audit.start()
        context = self.certificates.ssl_context()
        port = await self.server.listen(host=self._settings.host, port=self._settings.port, context=context)
        self.url = f"https://{_address(self._settings.host)}:{port}"
        await self._publish()
        self._background = [asyncio.create_task(self._probe()), asyncio.create_task(self._renew())]

    async def _stop(self) -> None:
        for task in self._background:
            task.cancel()
        for worker in self._workers:
            await worker.stop()
        await self.server.close()
        await self._audit.stop()

    async def _probe(self) -> None:
        """A disk that was full may have room again; whoever is to make some must hear of it."""
        told: str | None = None
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            why = self.store.read_only
            if why is not None:
                if why != told:
                    log.error("the store accepts no writes: %s", why)
                if await self.store.probe():
                    log.warning("the store accepts writes again")
                    try:
                        await self._furnish()
                        await self._publish()
                    except Exception as error:
                        log.error("cannot create what every hub has:\n%s", discretion.told(error))
            told = self.store.read_only

    async def _renew(self) -> None:
        """Certificates expire while the hub runs."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            authority = self.certificates.authority.certificate
            try:
                self.certificates.renew(now=_now())
            except Exception as error:
                log.error("cannot renew certificates:\n%s", discretion.told(error))
            if self.certificates.authority.certificate != authority:
                for worker in self._workers:
                    if isinstance(worker, Accounts | Tokens):  # they publish the certificate
                        worker.begin()

    # Custom resources

    def _redefine(self, change: Change) -> None:
        if change.key[0] != DEFINITIONS:
            return
        if change.type == "DELETED":
            self.registry.forget(change.key[2])
        else:
            self._define(change.key[2], _decode(change.raw))

    def _define(self, name: str, definition: Document) -> None:
        if not crds.established(definition):
            self.registry.forget(name)
            return
        try:
            served = [conversion.unified(each) for each in crds.resources_of(definition)]
            self.registry.define(name, served)
        except Exception as error:
            log.error("the definition %s cannot be served:\n%s", name, discretion.told(error))

    # What every hub has

    async def _furnish(self) -> None:
        """All at once, so that it is one commit. A store that is read-only gets it when it no longer is."""
        if not self._furnished:
            with contextlib.suppress(ReadOnly):
                await self._create_defaults()
                self._furnished = True

    async def _create_defaults(self) -> None:
        wanted: list[tuple[str, Document]] = [
            ("namespaces", {"metadata": {"name": name}}) for name in NAMESPACES
        ]
        wanted += [(priorities.CLASSES, dict(each)) for each in priorities.SYSTEM]
        await self._ensure(wanted)
        await self._ensure(list(policy.documents()))
        definitions = self._settings.definitions
        await self._ensure([(DEFINITIONS, dict(each)) for each in definitions])
        if any(each["metadata"]["name"] == acceptance.CLUSTERS for each in definitions):
            await self._ensure(list(acceptance.documents()))
            await self._offer(list(bootstrap.documents()))

    async def _offer(self, wanted: Sequence[tuple[str, Document]]) -> None:
        """The hub also starts where these are refused, such as in a namespace that is being deleted."""
        for refused in await asyncio.gather(
            *(self._ensure_one(key, document) for key, document in wanted), return_exceptions=True
        ):
            if isinstance(refused, BaseException) and not isinstance(refused, Refusal):
                raise refused

    async def _publish(self) -> None:
        """Tell programs where the hub listens, as soon as the store takes it."""
        address = urlsplit(self.url)
        assert address.hostname
        assert address.port
        with contextlib.suppress(ReadOnly):
            await self._offer(list(own_service.documents(address=address.hostname, port=address.port)))

    async def _ensure(self, wanted: Sequence[tuple[str, Document]]) -> None:
        await asyncio.gather(*(self._ensure_one(key, document) for key, document in wanted))

    async def _ensure_one(self, key: str, document: Document) -> None:
        resource = self.registry.of_key(key)
        assert resource is not None, key
        metadata = document["metadata"]
        kept = self.store.get((key, metadata.get("namespace", ""), metadata["name"]))
        request = Request(
            user=User(name="system:fairway-hub", groups=(MASTERS,)), options=Write(manager="fairway-hub")
        )
        if kept is None:
            await self.writer.create(resource, metadata.get("namespace", ""), document, request)
            return
        changed = _renewed(resource, _decode(kept.raw), document)
        if changed is not None:
            with contextlib.suppress(Refusal):
                await self.writer.update(
                    resource, metadata.get("namespace", ""), metadata["name"], changed, request
                )

    def _hire(self) -> list[Worker[Any]]:
        parts: dict[str, Any] = {"store": self.store, "registry": self.registry, "writer": self.writer}
        on = self._settings.upkeep
        workers: list[Worker[Any]] = []
        if upkeep.COLLECTOR in on:
            workers.append(Collector(**parts))
        if upkeep.NAMESPACES in on:
            workers.append(Namespaces(**parts))
        if on & {upkeep.ACCOUNTS, upkeep.ROOT_CA}:
            workers.append(
                Accounts(
                    certificate=lambda: self.authority_pem,
                    accounts=upkeep.ACCOUNTS in on,
                    root_ca=upkeep.ROOT_CA in on,
                    **parts,
                )
            )
        if upkeep.TOKENS in on:
            workers.append(Tokens(issuer=self.issuer, certificate=lambda: self.authority_pem, **parts))
        if upkeep.SIGNER in on:
            workers.append(Signer(authority=self.certificates.authority, clock=_now, **parts))
        if upkeep.AGGREGATION in on:
            workers.append(Aggregation(**parts))
        if upkeep.EXPIRY in on:
            workers.append(Expiry(**parts))
        if upkeep.DEFINITIONS in on:
            workers.append(Definitions(**parts))
        return workers


def _now() -> datetime:
    return datetime.now(UTC)


def _renewed(resource: Resource, kept: Document, wanted: Document) -> Document | None:
    """What a newer Fairway brings for an object that is already there; None when nothing."""
    if resource.group == "rbac.authorization.k8s.io":
        return policy.reconciled(kept, wanted)
    if resource.group == ADMISSION:
        return acceptance.reconciled(kept, wanted)
    if resource.key in own_service.KEYS:
        return own_service.reconciled(kept, wanted)
    if resource.key == DEFINITIONS and any(
        kept.get("spec", {}).get(k) != v for k, v in wanted["spec"].items()
    ):
        return copy.deepcopy(kept) | {"spec": {**kept["spec"], **wanted["spec"]}}
    return None


async def _open_keys(settings: Settings, store: Store) -> tuple[Certificates, TokenKey]:
    """Those that the data was used with: others would be rejected by every client. Raises CertificateFault."""
    folder = None if settings.folder is None else settings.folder / PKI
    expected, trusted = not store.empty, store.noted
    certificates = Certificates.open(
        folder,
        names=[settings.host, *settings.names],
        now=_now(),
        expected=expected,
        trusted=trusted(NOTED_AUTHORITY),
    )
    token_key = TokenKey.open(folder, expected=expected, trusted=trusted(NOTED_TOKEN_KEY))
    with contextlib.suppress(sqlite3.OperationalError):  # on a full disk the next start does it
        await store.note(NOTED_AUTHORITY, certificates.fingerprint)
        await store.note(NOTED_TOKEN_KEY, token_key.id)
    return certificates, token_key


def _address(host: str) -> str:
    """Where clients on this machine reach a server that listens there."""
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:
            return f"[{host}]"
    return host


@asynccontextmanager
async def running(settings: Settings | None = None) -> AsyncIterator[Hub]:
    """A hub that answers, until the block is left."""
    settings = settings or Settings()
    if settings.folder is not None:
        settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = await Store.open(
        settings.folder, durability=settings.durability, changes=settings.history, first=first_revision
    )
    try:
        certificates, token_key = await _open_keys(settings, store)
        hub = Hub(settings, store=store, certificates=certificates, token_key=token_key)
        try:
            await hub._start()
            yield hub
        finally:
            await hub._stop()
    finally:
        with contextlib.suppress(ReadOnly):
            await store.close()
