"""A hub and a managed cluster for one test, with an agent between them that can be killed and started again."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final

import msgspec
import pytest
from msgspec import Struct, field

from fairway.api.resources import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS
from fairway.api.work import AppliedManifestWork, ManifestWork
from fairway.klusterlet.works import WorkAgent, hub_hash
from kubewire.api.meta import Condition, ObjectMeta, find_condition
from kubewire.client import (
    SYSTEM_CLOCK,
    AlreadyExists,
    Backoff,
    Batch,
    Client,
    Clock,
    Connection,
    Informer,
    NotFound,
    Patch,
    Resource,
)
from kubewire.client.rbac import Rule
from kubewire.client.transport import Response
from rights import grant

DEADLINE: Final = 120.0
IN_VAIN: Final = "waited {seconds} seconds in vain; there is\n{seen}"
QUICK: Final = Backoff(base=0.01, cap=0.2)
SHOWN: Final = 4000
MERGE: Final = Patch.MERGE.value

Document = dict[str, Any]


class Entries(Struct, frozen=True, kw_only=True):
    """A ConfigMap."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = field(default_factory=dict)


CONFIG_MAPS: Final[Resource[Entries]] = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, type=Entries
)


class Finishing(Client):
    """Completes started writes, also those of an agent that was killed: later they could overwrite newer state."""

    def __init__(self, connection: Connection, *, field_manager: str) -> None:
        super().__init__(connection, field_manager=field_manager)
        self._begun: set[asyncio.Task[Response]] = set()
        ask = self._transport.request

        async def request(method: str, path: str, **options: Any) -> Response:
            if method == "GET":
                return await ask(method, path, **options)
            begun = asyncio.create_task(ask(method, path, **options))
            self._begun.add(begun)
            begun.add_done_callback(self._ended)
            return await asyncio.shield(begun)

        vars(self._transport)["request"] = request

    def _ended(self, begun: asyncio.Task[Response]) -> None:
        self._begun.discard(begun)
        if not begun.cancelled():
            begun.exception()  #  its writer has ended

    async def finished(self) -> None:
        await asyncio.gather(*self._begun, return_exceptions=True)


class WorksHarness:
    """Names of works get a prefix, because all tests share the cluster-wide names of AppliedManifestWorks."""

    def __init__(self, hub: Connection, cluster: Connection) -> None:
        self.name = f"w{uuid.uuid4().hex[:8]}"
        self.hub = Finishing(hub, field_manager="somebody")
        self.cluster = Finishing(cluster, field_manager="somebody")
        self._news = asyncio.Event()
        self._works: Informer[ManifestWork] = Informer(self.hub, MANIFEST_WORKS, namespace=self.name)
        self._records: Informer[AppliedManifestWork] = Informer(self.cluster, APPLIED_MANIFEST_WORKS)
        self._maps: Informer[Entries] = Informer(self.cluster, CONFIG_MAPS)
        self._stack = AsyncExitStack()
        self.address = ""
        """The address of the hub in the kubeconfig of the next agents; empty: the one of this harness."""
        self.ever_recorded: set[str] = set()
        """Names of objects that an AppliedManifestWork of this test has had in its status."""

    async def __aenter__(self) -> "WorksHarness":
        await self._stack.enter_async_context(self.hub)
        await self._stack.enter_async_context(self.cluster)
        for client in (self.hub, self.cluster):
            await self.space(self.name, client=client)
        for informer in (self._works, self._records, self._maps):
            informer.subscribe(lambda _: self._news.set())
            await self._stack.enter_async_context(informer)
        self._records.subscribe(self._note_records)
        return self

    def _note_records(self, batch: Batch[AppliedManifestWork]) -> None:
        changed = (change.object for change in batch.changes)
        for record in changed:
            if record.spec.manifestWorkName.startswith(self.name):
                self.ever_recorded.update(entry.name for entry in record.status.appliedResources)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def space(self, name: str, *, client: Client | None = None) -> str:
        with suppress(AlreadyExists):
            await (client or self.cluster).request(
                "POST", "/api/v1/namespaces", body={"metadata": {"name": name}}
            )
        return name

    @asynccontextmanager
    async def agent(
        self,
        *,
        clock: Clock = SYSTEM_CLOCK,
        hub: Client | None = None,
        cluster: Client | None = None,
        **options: Any,
    ) -> AsyncIterator[WorkAgent]:
        """Run an agent that is killed at the end of the block; with administrator rights by default."""
        moved = Finishing(self._connection(), field_manager="somebody")
        async with moved:
            agent = WorkAgent(
                hub or (moved if self.address else self.hub),
                cluster or self.cluster,
                self.name,
                clock=clock,
                **{"agent_id": self.name, "backoff": QUICK, **options},
            )
            task = asyncio.create_task(agent.run())
            try:
                yield agent
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                await self.hub.finished()
                await moved.finished()
                await self.cluster.finished()

    def _connection(self) -> Connection:
        return replace(self.hub.connection, host=self.address)

    async def restricted(self, client: Client, rights: Iterable[Rule], *, namespace: str = "") -> Connection:
        """A client with these rights only, in one namespace or everywhere."""
        return await grant(client, f"{self.name}-agent", rights, namespace=namespace)

    # Works

    def full(self, word: str) -> str:
        return f"{self.name}-{word}"

    async def give(self, word: str, *manifests: Any, **spec: Any) -> ManifestWork:
        """Create or update a work, and wait until this harness observes it."""
        body = {"workload": {"manifests": list(manifests)}, **spec}
        meta = {"name": self.full(word), "namespace": self.name}
        try:
            given = await self.hub.create(
                MANIFEST_WORKS, {"metadata": meta, "spec": body}, namespace=self.name
            )
        except AlreadyExists:
            path = MANIFEST_WORKS.path(namespace=self.name, name=self.full(word))
            patch = [{"op": "replace", "path": "/spec", "value": body}]
            answer = await self.hub.request("PATCH", path, body=patch, content_type=Patch.JSON.value)
            given = msgspec.json.decode(answer.body, type=ManifestWork)
        version = int(given.metadata.resourceVersion)
        await self.eventually(lambda: int(self._works.resource_version or 0) >= version)
        return given

    async def take_back(self, word: str) -> None:
        with suppress(NotFound):
            await self.hub.delete(MANIFEST_WORKS, self.full(word), namespace=self.name)

    def work(self, word: str) -> ManifestWork | None:
        return self._works.get(self.full(word), namespace=self.name)

    def names(self) -> set[str]:
        """Of all works there are, in full."""
        return {work.metadata.name for work in self._works.store.values()}

    def condition(self, word: str, type_: str, *, manifest: int | None = None) -> Condition | None:
        """One of the work as it is now, or of one of its manifests; None if it is about an older one."""
        work = self.work(word)
        if work is None:
            return None
        condition = find_condition(work.status.conditions, type_)
        if condition is None or condition.observedGeneration != work.metadata.generation:
            return None
        if manifest is None:
            return condition
        return find_condition(work.status.resourceStatus.manifests[manifest].conditions, type_)

    def has_condition(self, word: str, type_: str, status: str, *, manifest: int | None = None) -> bool:
        condition = self.condition(word, type_, manifest=manifest)
        return condition is not None and condition.status == status

    def values(self, word: str, manifest: int = 0) -> dict[str, Any]:
        """What was reported of an object's status."""
        work = self.work(word)
        manifests = work.status.resourceStatus.manifests if work else ()
        given = manifests[manifest].statusFeedback if manifest < len(manifests) else None
        return {value.name: _plain(value.fieldValue) for value in (given.values if given else ())}

    def record(self, word: str) -> AppliedManifestWork | None:
        """Resource version when last read, possibly long after the work was reported."""
        return self._records.get(self._record_name(word))

    async def written_record(self, word: str) -> AppliedManifestWork:
        """Read the record from the hub, so that it has all earlier writes."""
        return await self.cluster.get(APPLIED_MANIFEST_WORKS, self._record_name(word))

    async def recorded(self, word: str, names: set[str]) -> None:
        """Wait until the record of a work has exactly these objects."""

        def is_so() -> bool:
            record = self.record(word)
            return record is not None and {entry.name for entry in record.status.appliedResources} == names

        await self.eventually(is_so)

    def _record_name(self, word: str) -> str:
        return f"{hub_hash(self._connection())}-{self.full(word)}"

    def records(self, word: str) -> list[AppliedManifestWork]:
        """The records of a work at all addresses of the hub, the present one first."""
        records = [r for r in self._records.store.values() if r.spec.manifestWorkName == self.full(word)]
        return sorted(records, key=lambda record: record.metadata.name != self._record_name(word))

    # The cluster

    def maps(self) -> dict[str, dict[str, str]]:
        """Return the data of all ConfigMaps in the cluster's namespace."""
        return {
            config_map.metadata.name: config_map.data
            for config_map in self._maps.store.values()
            if config_map.metadata.namespace == self.name and config_map.metadata.name != "kube-root-ca.crt"
        }

    async def there(self) -> dict[str, dict[str, str]]:
        """Read them from the hub, so that all earlier writes are included."""
        listed = (await self.cluster.list(CONFIG_MAPS, namespace=self.name)).items
        return {
            config_map.metadata.name: config_map.data
            for config_map in listed
            if config_map.metadata.name != "kube-root-ca.crt"
        }

    async def get(self, path: str) -> Document | None:
        try:
            answer = await self.cluster.request("GET", path)
        except NotFound:
            return None
        decoded: Document = msgspec.json.decode(answer.body)
        return decoded

    async def edit(self, path: str, body: Mapping[str, Any]) -> None:
        """A ConfigMap has been seen here as it is then: it may be something else soon."""
        answer = await self.cluster.request("PATCH", path, body=body, content_type=MERGE)
        edited: Document = msgspec.json.decode(answer.body)
        if edited["kind"] == CONFIG_MAPS.kind:
            await self._map_seen(edited["metadata"]["resourceVersion"])

    async def create(self, name: str, data: Mapping[str, str]) -> None:
        """Create a ConfigMap without an owner."""
        path = CONFIG_MAPS.path(namespace=self.name)
        await self.cluster.request("POST", path, body=self.config_map(name, data))

    async def remove(self, name: str) -> None:
        """Delete a ConfigMap, and wait until this harness observes it; it may be recreated meanwhile."""
        uid = (await self.cluster.get(CONFIG_MAPS, name, namespace=self.name)).metadata.uid
        await self.cluster.delete(CONFIG_MAPS, name, namespace=self.name, uid=uid)

        def went() -> bool:
            config_map = self._maps.get(name, namespace=self.name)
            return config_map is None or config_map.metadata.uid != uid

        await self.eventually(went)

    async def _map_seen(self, version: str) -> None:
        await self.eventually(lambda: int(self._maps.resource_version or 0) >= int(version))

    def at(self, name: str) -> str:
        return CONFIG_MAPS.path(namespace=self.name, name=name)

    def config_map(self, name: str, data: Mapping[str, str], **metadata: Any) -> Document:
        meta = {"name": name, "namespace": self.name, **metadata}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}

    # Waiting

    async def eventually(self, true: Callable[[], bool]) -> None:
        """Looks again whenever a work, a record or a ConfigMap has changed."""
        try:
            async with asyncio.timeout(DEADLINE):
                while not true():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pytest.fail(IN_VAIN.format(seconds=DEADLINE, seen=self._described()))

    async def applied(self, word: str) -> None:
        await self.eventually(
            lambda: (
                self.has_condition(word, "Applied", "True") and self.has_condition(word, "Available", "True")
            )
        )

    async def refused(self, word: str, manifest: int) -> str:
        """Until that manifest is refused; the message."""
        await self.eventually(lambda: self.has_condition(word, "Applied", "False", manifest=manifest))
        condition = self.condition(word, "Applied", manifest=manifest)
        assert condition is not None
        return condition.message

    async def until_deleted(self, word: str) -> None:
        await self.eventually(lambda: self.work(word) is None and self.record(word) is None)

    def _described(self) -> str:
        works = [msgspec.json.encode(work.status).decode() for work in self._works.store.values()]
        return "\n".join((*works, str(self.maps())))[:SHOWN]


def _plain(value: Any) -> Any:
    return next(
        typed for typed in (value.integer, value.string, value.boolean, value.jsonRaw) if typed is not None
    )
