"""Hub credentials of add-on agents: a Secret for each ManagedClusterAddOn with registrations.

The Secret stays while the add-on is being deleted, because its agent may have to clean up on the hub. Secrets of
add-ons that were deleted while the klusterlet did not run are found by their label.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from fairway.api.addon import INSTALL_NAMESPACE, ManagedClusterAddOn, RegistrationConfig
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS
from fairway.klusterlet import names
from fairway.klusterlet.addon_secret import AddOnSecret, remove
from fairway.klusterlet.certificates import Subject
from fairway.klusterlet.enrolment import CertificateSpec
from fairway.klusterlet.kinds import SECRETS, Secret
from fairway.klusterlet.membership import FIELD_MANAGER
from fairway.klusterlet.renewal import LEFT, Renewal
from fairway.klusterlet.state import State, kubeconfig_for
from kubewire.api.encoding import encode
from kubewire.api.meta import Condition, set_condition
from kubewire.api.resource import Key, key_of
from kubewire.client import (
    SYSTEM_CLOCK,
    Batch,
    Client,
    Clock,
    Conflict,
    Informer,
    KubeError,
    NotFound,
    Patch,
)
from kubewire.client.csr import CLIENT_SIGNER
from kubewire.client.log_throttle import LogThrottle

log: Final = logging.getLogger(__name__)

ATTEMPTS: Final = 5
RETRY_SECONDS: Final = 5.0

REGISTERED: Final = "add-on %s: stored its hub credentials in Secret %s/%s"
SECRET_DELETED: Final = "add-on %s: deleted Secret %s/%s"
UNEXPECTED_ERROR: Final = "unexpected error in %s; retrying with the next change of an add-on"
NOT_STORED: Final = "add-on %s: cannot store its hub credentials: %s"
SYNC_FAILED: Final = "cannot sync the credentials of add-ons: %s"


@dataclass(frozen=True, slots=True)
class AddOnIdentity:
    """Subject of an add-on's registration, and the Secret for its credentials."""

    add_on: str
    secret: Key
    subject: Subject
    signer: str

    @property
    def agent(self) -> str:
        """Agent name, the last part of the certificate's user."""
        return self.subject.user.rpartition(":")[2]


def install_namespace(add_on: ManagedClusterAddOn) -> str:
    return add_on.status.namespace or add_on.spec.installNamespace or INSTALL_NAMESPACE


def identities(add_on: ManagedClusterAddOn, *, cluster: str) -> dict[Key, AddOnIdentity]:
    """Identities by Secret; the first registration of a signer wins."""
    identities: dict[Key, AddOnIdentity] = {}
    for registration in add_on.status.registrations:
        identity = _identity(add_on, registration, cluster=cluster)
        identities.setdefault(identity.secret, identity)
    return identities


def _identity(
    add_on: ManagedClusterAddOn, registration: RegistrationConfig, *, cluster: str
) -> AddOnIdentity:
    name, signer, requested = add_on.metadata.name, registration.signerName, registration.subject
    own = signer == CLIENT_SIGNER
    secret = f"{name}-hub-kubeconfig" if own else f"{name}-{signer.replace('/', '-')}-client-cert"
    groups = requested.groups or ((names.group_of_add_on(cluster, name),) if own else ())
    subject = Subject(
        user=requested.user or names.user_of_add_on(cluster, name, name),
        # Every user has this group already.
        groups=tuple(group for group in groups if group != "system:authenticated"),
        units=() if own else requested.organizationUnit,
    )
    return AddOnIdentity(name, (install_namespace(add_on), secret), subject, signer)


class AddOnCredentials:
    """``left``: share of a certificate's validity at which it is renewed. ``seconds``: requested validity."""

    def __init__(
        self,
        hub: Client,
        cluster: Client,
        state: State,
        *,
        left: float = LEFT,
        seconds: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._hub, self._cluster, self._state, self._clock = hub, cluster, state, clock
        self._left, self._seconds = left, seconds
        self._name = state.cluster
        self.informer = Informer(hub, MANAGED_CLUSTER_ADD_ONS, namespace=self._name)
        self._secrets = Informer(cluster, SECRETS, labels=f"{names.JOINED_LABEL}={self._name}")
        self._throttle = LogThrottle(log)
        self._woken = asyncio.Event()
        self._running: dict[Key, tuple[AddOnIdentity, Renewal, asyncio.Task[None]]] = {}
        self.informer.subscribe(lambda _: self._woken.set())
        self._secrets.subscribe(self._on_secrets)

    def _on_secrets(self, batch: Batch[Secret]) -> None:
        for change in batch.changes:
            secret = change.object
            running = self._running.get(key_of(secret))
            if running is None:
                self._woken.set()  #  it may not be needed any more
            else:
                running[1].wake()

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            for informer in (self.informer, self._secrets):
                await stack.enter_async_context(informer)
            await self.informer.synced.wait()
            await self._secrets.synced.wait()
            try:
                while True:
                    self._woken.clear()
                    pause: float | None = None
                    try:
                        await self._sync()
                    except KubeError as error:
                        log.warning(SYNC_FAILED, error)
                        pause = RETRY_SECONDS
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await self._woken.wait()
            finally:
                await self._stop(*list(self._running))

    async def _sync(self) -> None:
        wanted = self._expected_identities()
        for key in [key for key, (identity, *_) in self._running.items() if wanted.get(key) != identity]:
            await self._stop(key)
        for key, identity in wanted.items():
            if key not in self._running:
                self._start(key, identity)
        for key, secret in list(self._secrets.store.items()):
            add_on = secret.metadata.labels.get(names.ADD_ON_LABEL, "")
            unwanted = add_on and key not in wanted and not self._is_terminating(add_on)
            if unwanted and await remove(self._cluster, key, joined_as=self._name):
                log.info(SECRET_DELETED, add_on, *key)

    def _expected_identities(self) -> Mapping[Key, AddOnIdentity]:
        expected: dict[Key, AddOnIdentity] = {}
        for add_on in self.informer.store.values():
            for key, identity in identities(add_on, cluster=self._name).items():
                try:
                    SECRETS.path(namespace=key[0], name=key[1])
                except ValueError as error:  #  the hub chooses the namespace
                    self._throttle.log(logging.WARNING, key, NOT_STORED, add_on.metadata.name, error)
                    continue
                expected.setdefault(key, identity)
        return expected

    def _is_terminating(self, name: str) -> bool:
        """Registrations of a terminating add-on may be removed before the add-on."""
        add_on = self.informer.get(name, namespace=self._name)
        return add_on is not None and add_on.metadata.deletionTimestamp is not None

    def _start(self, key: Key, identity: AddOnIdentity) -> None:
        add_on = identity.add_on
        wanted = CertificateSpec(
            subject=identity.subject,
            prefix=f"addon-{self._name}-{add_on}-",
            labels={names.CLUSTER_LABEL: self._name, names.ADD_ON_LABEL: add_on},
            signer=identity.signer,
            hosts=(f"{add_on}.addon.open-cluster-management.io",),
            seconds=self._seconds,
        )
        beside = {names.CLUSTER_NAME: self._name.encode(), names.AGENT_NAME: identity.agent.encode()}
        if identity.signer == CLIENT_SIGNER:
            beside[names.KUBECONFIG] = kubeconfig_for(self._hub.connection)

        async def report(condition: Condition) -> None:
            await report_condition(self._hub, self._name, add_on, condition, clock=self._clock)

        renewal = Renewal(
            self._hub,
            wanted,
            AddOnSecret(self._cluster, key, joined_as=self._name, add_on=add_on),
            pending=self._state.pending(f"{add_on}-{identity.signer}"),
            report=report,
            beside=beside,
            left=self._left,
            clock=self._clock,
        )
        task = asyncio.create_task(renewal.run(), name=f"identity of add-on {add_on}")
        task.add_done_callback(self._on_done)
        self._running[key] = (identity, renewal, task)
        log.info(REGISTERED, add_on, *key)

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(UNEXPECTED_ERROR, task.get_name(), exc_info=error)
            self._running = {key: running for key, running in self._running.items() if running[2] is not task}

    async def _stop(self, *keys: Key) -> None:
        tasks = [self._running.pop(key)[2] for key in keys if key in self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def report_condition(
    hub: Client, cluster: str, add_on: str, condition: Condition, *, clock: Clock
) -> None:
    """Set a condition in the status of a ManagedClusterAddOn, and keep the conditions of other writers."""
    for _ in range(ATTEMPTS):
        try:
            live = await hub.get(MANAGED_CLUSTER_ADD_ONS, add_on, namespace=cluster)
        except NotFound:
            return
        wanted = set_condition(live.status.conditions, condition, now=clock.wall())
        if wanted == live.status.conditions:
            return
        meta = {"uid": live.metadata.uid, "resourceVersion": live.metadata.resourceVersion}
        with suppress(Conflict):
            await hub.patch(
                MANAGED_CLUSTER_ADD_ONS,
                add_on,
                {"metadata": meta, "status": {"conditions": [encode(entry) for entry in wanted]}},
                kind=Patch.MERGE,
                namespace=cluster,
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
            return
