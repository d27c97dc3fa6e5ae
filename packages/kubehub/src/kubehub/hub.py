"""The embedded hub: open the store, create default objects, start controllers and the server, stop them."""

import asyncio
import contextlib
import copy
import ipaddress
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kubehub import builtin, controllers, conversion, kubernetes_service
from kubehub.admission import cluster_acceptance
from kubehub.admission.control import GROUP as ADMISSION
from kubehub.admission.control import Admission
from kubehub.authn import bootstrap_account
from kubehub.authn.authenticator import Authenticator
from kubehub.authn.bearer_tokens import StaticTokens
from kubehub.authn.jwt import Key as TokenKey
from kubehub.authn.service_account_tokens import Issuer
from kubehub.controllers.controller import Controller
from kubehub.controllers.crd_cleanup import CrdCleanup
from kubehub.controllers.csr_signer import CsrSigner
from kubehub.controllers.event_expiry import EventExpiry
from kubehub.controllers.garbage_collector import GarbageCollector
from kubehub.controllers.namespaces import NamespaceController
from kubehub.controllers.role_aggregation import RoleAggregation
from kubehub.controllers.service_accounts import ServiceAccountController, TokenController
from kubehub.crd.definitions import is_established, resources_of
from kubehub.crd.kind import DEFINITIONS
from kubehub.json_decoder import decode_object as _decode
from kubehub.kinds import priorities
from kubehub.kinds.catalog import kinds
from kubehub.options import Write
from kubehub.pki.hub_certificates import Certificates
from kubehub.rbac import default_roles
from kubehub.rbac.authorizer import Authorizer
from kubehub.registry import Registry
from kubehub.resource import Document, Resource
from kubehub.safe_traceback import format_traceback
from kubehub.serving.audit import Audit
from kubehub.serving.metrics import Metrics
from kubehub.serving.nonresource import NonResourcePaths
from kubehub.serving.reads import Reader
from kubehub.serving.server import Server
from kubehub.status import Refusal
from kubehub.storage.reader import StoreReader
from kubehub.storage.revisions import first_revision
from kubehub.storage.store import CHANGES_KEPT, Change, Durability, ReadOnly, Store
from kubehub.user import MASTERS, User
from kubehub.write_request import WriteRequest
from kubehub.writing.subresources import Subresources
from kubehub.writing.writer import Writer

log = logging.getLogger(__name__)

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
PROBE_SECONDS: Final = 2.0
RENEWAL_SECONDS: Final = 0.5
"""Seconds between checks of the certificates; the system clock may be set forward by years."""
AUDIT_FILE: Final = "audit.log"
PKI: Final = "pki"
NOTED_AUTHORITY: Final = "authority"
NOTED_TOKEN_KEY: Final = "token key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    folder: Path | None = None
    """The data folder; None keeps everything in memory."""
    host: str = "127.0.0.1"
    port: int = 0
    names: Sequence[str] = ()
    """Further names and addresses of the serving certificate."""
    tokens: Path | None = None
    """A file of static bearer tokens."""
    audit: Path | None = None
    """The audit log; by default in ``folder``."""
    controllers: frozenset[str] = controllers.ALL
    durability: Durability = "full"
    history: int = CHANGES_KEPT
    """Changes that the watch cache keeps."""
    definitions: Sequence[Document] = ()
    """Custom resource definitions that the hub creates."""


class Hub:
    """Created by ``running``."""

    def __init__(
        self, settings: Settings, *, store: Store, certificates: Certificates, token_key: TokenKey
    ) -> None:
        self._settings = settings
        self.store, self.certificates = store, certificates
        self.registry = Registry(conversion.with_conversion(resource) for resource in builtin.resources())
        facts = StoreReader(store=store)
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
        self.metrics = Metrics(
            count=lambda: {key: store.count(key) for key in store.resources()},
            revision=lambda: store.revision,
        )
        self._audit = Audit(settings.audit or (settings.folder / AUDIT_FILE if settings.folder else None))
        self.server = Server(
            registry=self.registry,
            reader=self.reader,
            writer=self.writer,
            subresources=Subresources(
                store=store,
                writer=self.writer,
                authenticator=self.authenticator,
                authorizer=self.authorizer,
                issuer=self.issuer,
            ),
            documents=NonResourcePaths(
                registry=self.registry,
                address=lambda: self.url.removeprefix("https://"),
                faults=lambda: {"store": store.read_only} if store.read_only else {},
                metrics=self.metrics.exposition,
                keys=self.issuer.jwks,
                issuer=lambda: self.issuer.discovery(address=self.url.removeprefix("https://")),
            ),
            authenticator=self.authenticator,
            authorizer=self.authorizer,
            admission=Admission(objects=facts, registry=self.registry, authorizer=self.authorizer),
            audit=self._audit,
            metrics=self.metrics,
        )
        self._controllers: list[Controller[Any]] = []
        self._background: list[asyncio.Task[None]] = []
        self._defaults_created = False
        self.url = ""

    @property
    def authority_pem(self) -> str:
        return self.certificates.authority.identity.certificate_pem().decode()

    def kubeconfig(self) -> Document:
        """The administrator's kubeconfig."""
        return self.certificates.kubeconfig(server=self.url)

    async def _start(self) -> None:
        for item in self.store.items(DEFINITIONS).items:
            self._serve_crd(item.key[2], _decode(item.raw))
        self.store.listen(self._on_crd_change)
        await self._create_defaults()
        self._controllers = self._make_controllers()
        for controller in self._controllers:
            self.store.listen(controller.on_change)
            controller.start()
        self._audit.start()
        context = self.certificates.ssl_context()
        port = await self.server.listen(host=self._settings.host, port=self._settings.port, context=context)
        self.url = f"https://{_address(self._settings.host)}:{port}"
        await self._publish_service()
        self._background = [
            asyncio.create_task(self._probe_store()),
            asyncio.create_task(self._renew_certificates()),
        ]

    async def _stop(self) -> None:
        for task in self._background:
            task.cancel()
        for controller in self._controllers:
            await controller.stop()
        await self.server.close()
        await self._audit.stop()

    async def _probe_store(self) -> None:
        """Retry writes after the disk was full, and log while the store is read-only."""
        logged: str | None = None
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            why = self.store.read_only
            if why is not None:
                if why != logged:
                    log.error("the store is read-only: %s", why)
                if await self.store.probe():
                    log.warning("the store is writable again")
                    try:
                        await self._create_defaults()
                        await self._publish_service()
                    except Exception as error:
                        log.error("cannot create default objects:\n%s", format_traceback(error))
            logged = self.store.read_only

    async def _renew_certificates(self) -> None:
        """Renew certificates that are about to expire."""
        while True:
            await asyncio.sleep(RENEWAL_SECONDS)
            authority = self.certificates.authority.certificate
            try:
                self.certificates.renew(now=_now())
            except Exception as error:
                log.error("cannot renew certificates:\n%s", format_traceback(error))
            if self.certificates.authority.certificate != authority:
                for controller in self._controllers:
                    if isinstance(
                        controller, ServiceAccountController | TokenController
                    ):  # these publish the certificate
                        controller.resync()

    # Custom resources

    def _on_crd_change(self, change: Change) -> None:
        if change.key[0] != DEFINITIONS:
            return
        if change.type == "DELETED":
            self.registry.remove(change.key[2])
        else:
            self._serve_crd(change.key[2], _decode(change.raw))

    def _serve_crd(self, name: str, definition: Document) -> None:
        if not is_established(definition):
            self.registry.remove(name)
            return
        try:
            served = [conversion.with_conversion(resource) for resource in resources_of(definition)]
            self.registry.define(name, served)
        except Exception as error:
            log.error("cannot serve custom resource definition %s:\n%s", name, format_traceback(error))

    # Default objects

    async def _create_defaults(self) -> None:
        """Create the default objects, in one commit. If the store is read-only, ``_probe_store`` retries."""
        if not self._defaults_created:
            with contextlib.suppress(ReadOnly):
                await self._create_default_objects()
                self._defaults_created = True

    async def _create_default_objects(self) -> None:
        wanted: list[tuple[str, Document]] = [
            ("namespaces", {"metadata": {"name": name}}) for name in NAMESPACES
        ]
        wanted += [(priorities.CLASSES, dict(priority_class)) for priority_class in priorities.SYSTEM]
        await self._ensure(wanted)
        await self._ensure(list(default_roles.documents()))
        definitions = self._settings.definitions
        await self._ensure([(DEFINITIONS, dict(definition)) for definition in definitions])
        if any(definition["metadata"]["name"] == cluster_acceptance.CLUSTERS for definition in definitions):
            await self._ensure(list(cluster_acceptance.documents()))
            await self._ensure_unless_refused(list(bootstrap_account.documents()))

    async def _ensure_unless_refused(self, wanted: Sequence[tuple[str, Document]]) -> None:
        """Create objects and ignore refusals, such as in a namespace that is being deleted."""
        for refused in await asyncio.gather(
            *(self._ensure_one(key, document) for key, document in wanted), return_exceptions=True
        ):
            if isinstance(refused, BaseException) and not isinstance(refused, Refusal):
                raise refused

    async def _publish_service(self) -> None:
        """Publish the address of the hub, as soon as the store is writable."""
        address = urlsplit(self.url)
        assert address.hostname
        assert address.port
        with contextlib.suppress(ReadOnly):
            await self._ensure_unless_refused(
                list(kubernetes_service.documents(address=address.hostname, port=address.port))
            )

    async def _ensure(self, wanted: Sequence[tuple[str, Document]]) -> None:
        await asyncio.gather(*(self._ensure_one(key, document) for key, document in wanted))

    async def _ensure_one(self, key: str, document: Document) -> None:
        resource = self.registry.of_key(key)
        assert resource is not None, key
        metadata = document["metadata"]
        stored = self.store.get((key, metadata.get("namespace", ""), metadata["name"]))
        request = WriteRequest(
            user=User(name="system:fairway-hub", groups=(MASTERS,)), options=Write(manager="fairway-hub")
        )
        if stored is None:
            await self.writer.create(resource, metadata.get("namespace", ""), document, request)
            return
        changed = _upgrade(resource, _decode(stored.raw), document)
        if changed is not None:
            with contextlib.suppress(Refusal):
                await self.writer.update(
                    resource, metadata.get("namespace", ""), metadata["name"], changed, request
                )

    def _make_controllers(self) -> list[Controller[Any]]:
        shared: dict[str, Any] = {"store": self.store, "registry": self.registry, "writer": self.writer}
        enabled = self._settings.controllers
        plain: dict[str, Callable[..., Controller[Any]]] = {
            controllers.COLLECTOR: GarbageCollector,
            controllers.NAMESPACES: NamespaceController,
            controllers.TOKENS: partial(
                TokenController, issuer=self.issuer, certificate=lambda: self.authority_pem
            ),
            controllers.SIGNER: partial(CsrSigner, authority=self.certificates.authority, clock=_now),
            controllers.AGGREGATION: RoleAggregation,
            controllers.EXPIRY: EventExpiry,
            controllers.DEFINITIONS: CrdCleanup,
        }
        made = [make(**shared) for name, make in plain.items() if name in enabled]
        if enabled & {controllers.ACCOUNTS, controllers.ROOT_CA}:
            accounts = ServiceAccountController(
                certificate=lambda: self.authority_pem,
                accounts=controllers.ACCOUNTS in enabled,
                root_ca=controllers.ROOT_CA in enabled,
                **shared,
            )
            made.append(accounts)
        return made


def _now() -> datetime:
    return datetime.now(UTC)


def _upgrade(resource: Resource, stored: Document, wanted: Document) -> Document | None:
    """Return the stored object with what this Fairway version adds or changes; None if nothing."""
    if resource.group == "rbac.authorization.k8s.io":
        return default_roles.reconcile(stored, wanted)
    if resource.group == ADMISSION:
        return cluster_acceptance.reconcile(stored, wanted)
    if resource.key in kubernetes_service.KEYS:
        return kubernetes_service.reconcile(stored, wanted)
    if resource.key == DEFINITIONS and any(
        stored.get("spec", {}).get(k) != v for k, v in wanted["spec"].items()
    ):
        return copy.deepcopy(stored) | {"spec": {**stored["spec"], **wanted["spec"]}}
    return None


async def _open_keys(settings: Settings, store: Store) -> tuple[Certificates, TokenKey]:
    """Open the keys that belong to the data: clients would reject others. Raises CertificateFault."""
    folder = None if settings.folder is None else settings.folder / PKI
    expected, trusted = not store.empty, store.read_note
    certificates = Certificates.open(
        folder,
        names=[settings.host, *settings.names],
        now=_now(),
        expected=expected,
        trusted=trusted(NOTED_AUTHORITY),
    )
    token_key = TokenKey.open(folder, expected=expected, trusted=trusted(NOTED_TOKEN_KEY))
    with contextlib.suppress(sqlite3.OperationalError):  # on a full disk the next start retries
        await store.note(NOTED_AUTHORITY, certificates.fingerprint)
        await store.note(NOTED_TOKEN_KEY, token_key.id)
    return certificates, token_key


def _address(host: str) -> str:
    """Return the address at which local clients reach a server that listens on ``host``."""
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).version == 6:
            return f"[{host}]"
    return host


@asynccontextmanager
async def running(settings: Settings | None = None) -> AsyncIterator[Hub]:
    """Run a hub until the block is left."""
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
