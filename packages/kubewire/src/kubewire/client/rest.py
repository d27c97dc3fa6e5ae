"""The client: typed reads, writes of the fields we own, and watches.

Typed objects have only the fields that Fairway uses. So a typed object that was read is never written back: writes are
creations, patches, or plain mappings.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic

import msgspec
from msgspec import Struct

from kubewire.api.meta import ObjectMeta
from kubewire.api.resource import KubeStruct, Resource, T
from kubewire.client import kubeconfig
from kubewire.client.call import Query
from kubewire.client.codec import Page, Unreadable, WatchEvent, codec_of
from kubewire.client.connection import Connection
from kubewire.client.errors import ConfigError, Expired, UnreadableError
from kubewire.client.request_options import (
    Match,
    Patch,
    Propagation,
    delete_options,
    document,
    is_status,
    limit_query,
    selector_query,
    write_query,
)
from kubewire.client.session import abandon
from kubewire.client.transport import Response, Retry, Transport
from kubewire.client.watch import Stream

JSON: Final = "application/json"
METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""The media type of a list without specs and statuses."""
PAGE: Final = 500

FORCE_APPLIES: Final = "force is only valid for an apply patch"
APPLY_NEEDS_MANAGER: Final = "an apply patch needs a field manager"
NO_PROGRESS: Final = "the hub returned the same continue token twice"
UNREADABLE: Final = "unreadable fields dropped  kind=%s name=%s fields=%r"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[T]):
    """All objects as they were at ``resource_version``, without the fields in ``unreadable``."""

    items: tuple[T, ...]
    resource_version: str
    unreadable: tuple[Unreadable, ...] = ()


class PartialObject(Struct, frozen=True, kw_only=True, gc=False):
    """An object of any kind, of which only the metadata was requested."""

    metadata: ObjectMeta = ObjectMeta()


class Client:
    """Use it in ``async with``. ``timeout`` is in seconds, for one request including its retries.

    ``field_manager`` owns the fields written, unless a call names another.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        field_manager: str = "fairway",
        timeout: float = 60.0,
        retry: Retry | None = None,
    ) -> None:
        self.connection = connection
        self.field_manager = field_manager
        self._transport = Transport(connection, timeout=timeout, retry=retry)

    @classmethod
    def from_kubeconfig(
        cls, path: str | Path | None = None, *, context: str | None = None, **options: Any
    ) -> "Client":
        """``options`` are those of the constructor. Raise ConfigError."""
        return cls(kubeconfig.load(path).context(context), **options)

    @classmethod
    def from_environment(
        cls, path: str | Path | None = None, *, context: str | None = None, **options: Any
    ) -> "Client":
        """Use a kubeconfig if one exists or is given, otherwise the pod's service account."""
        try:
            config = kubeconfig.load(path)
        except ConfigError as error:
            if path is not None or context is not None or error.message != kubeconfig.NOTHING_FOUND:
                raise
            return cls(Connection.in_cluster(), **options)
        return cls(config.context(context), **options)

    @property
    def namespace(self) -> str:
        """The namespace of the context or the service account."""
        return self.connection.namespace

    def __repr__(self) -> str:
        return f"<Client of {self.connection.server}>"

    async def __aenter__(self) -> "Client":
        await self._transport.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | Mapping[str, Any] | Sequence[Any] | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        repeatable: bool | None = None,
        large: bool = False,
    ) -> Response:
        """Send any request, with credentials, retries and typed errors. ``path`` must be quoted."""
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        return await self._transport.request(
            method,
            path,
            query=query,
            body=data,
            content_type=content_type if data is not None else "",
            headers=headers,
            timeout=timeout,
            repeatable=repeatable,
            large=large,
        )

    async def get(self, resource: Resource[T], name: str, *, namespace: str | None = None) -> T:
        response = await self._transport.request("GET", resource.path(namespace=namespace, name=name))
        return codec_of(resource.type).object(response.body)

    async def list(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = PAGE,
        resource_version: str | None = None,
        match: Match | None = None,
        timeout: float | None = None,
    ) -> Listing[T]:
        """List in pages of ``limit`` objects (0: one page). The timeout is per page.

        Without a ``resource_version`` this is a consistent read, not from the hub's cache.
        """
        selection = selector_query(labels, fields)
        if resource_version is not None:
            selection.append(("resourceVersion", resource_version))
        if match is not None:
            selection.append(("resourceVersionMatch", match))
        path = resource.path(namespace=namespace)
        page = await self._page(resource, path, [*selection, *limit_query(limit)], timeout)
        first, items, unreadable = page, list(page.items), list(page.unreadable)
        while page.token:
            token = page.token
            query = [*selector_query(labels, fields), *limit_query(limit), ("continue", token)]
            try:
                page = await self._page(resource, path, query, timeout)
            except Expired:
                # The hub has compacted the state of the first page. A new list in pages could expire again, so list
                # all objects at once.
                page = await self._page(resource, path, selection, timeout)
                first, items, unreadable = page, [], []
            if page.token == token:
                raise UnreadableError(NO_PROGRESS)
            items += page.items
            unreadable += page.unreadable
        return Listing(
            items=tuple(items), resource_version=first.resource_version, unreadable=tuple(unreadable)
        )

    async def _page(self, resource: Resource[T], path: str, query: Query, timeout: float | None) -> Page[T]:
        response = await self._transport.request("GET", path, query=query, timeout=timeout, large=True)
        return codec_of(resource.type).page(response.body)

    async def metadata_pages(
        self, resource: Resource[Any], *, namespace: str | None = None, limit: int = PAGE
    ) -> AsyncGenerator[tuple[ObjectMeta, ...], None]:
        """Iterate over the metadata of all objects in pages, so that neither size nor number of the objects matters.

        Raise Expired if the hub compacts the state of the first page meanwhile.
        """
        path, query = resource.path(namespace=namespace), limit_query(limit)
        while True:
            response = await self._transport.request(
                "GET", path, query=query, headers={"Accept": METADATA_ONLY}, large=True
            )
            page = codec_of(PartialObject).page(response.body)
            yield tuple(partial.metadata for partial in page.items)
            if not page.token:
                return
            query = [*limit_query(limit), ("continue", page.token)]

    async def create(
        self,
        resource: Resource[T],
        body: Mapping[str, Any] | KubeStruct,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
    ) -> T:
        """``apiVersion`` and ``kind`` may be omitted. A subresource is that of the object named in the body.

        Where the hub responds with a Status, as to bindings and evictions, return the object that was sent.
        """
        content = document(resource, body)
        name = content.get("metadata", {}).get("name") if subresource else None
        sent = msgspec.json.encode(content)
        response = await self._transport.request(
            "POST",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            query=write_query(dry_run, field_manager or self.field_manager),
            body=sent,
            content_type=JSON,
        )
        answer = sent if subresource and is_status(response.body) else response.body
        return codec_of(resource.type).object(answer)

    async def update(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
        field_manager: str | None = None,
    ) -> T:
        """Replace the whole object by a mapping with all its fields. Raise TypeError for a typed object."""
        if isinstance(body, Struct):
            raise TypeError(
                f"a typed {type(body).__name__} must not be written back: unknown fields would be lost; patch it, "
                "or update with a mapping"
            )
        response = await self._transport.request(
            "PUT",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            query=write_query(dry_run, field_manager or self.field_manager),
            body=msgspec.json.encode(document(resource, body)),
            content_type=JSON,
        )
        return codec_of(resource.type).object(response.body)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        kind: Patch,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> T:
        """A JSON patch is a list of operations. ``apiVersion`` and ``kind`` of an applied object may be omitted."""
        if force and kind is not Patch.APPLY:
            raise ValueError(FORCE_APPLIES)
        content: Mapping[str, Any] | Sequence[Any] = body
        if kind is Patch.APPLY:
            if not (field_manager or self.field_manager):
                raise ValueError(APPLY_NEEDS_MANAGER)
            if isinstance(body, Mapping):
                content = document(resource, body)
        response = await self._transport.request(
            "PATCH",
            resource.path(namespace=namespace, name=name, subresource=subresource),
            query=write_query(dry_run, field_manager or self.field_manager, force),
            body=msgspec.json.encode(content),
            content_type=kind.value,
            repeatable=kind.repeatable,
            timeout=timeout,
        )
        return codec_of(resource.type).object(response.body)

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_period: int | None = None,
        dry_run: bool = False,
    ) -> None:
        """With ``uid`` or ``resource_version``, raise Conflict if the object has another. ``grace_period``: seconds."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        await self._transport.request(
            "DELETE",
            resource.path(namespace=namespace, name=name),
            body=delete_options(preconditions, propagation, grace_period, dry_run),
            content_type=JSON,
        )

    @asynccontextmanager
    async def stream(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        initial_events: bool = False,
        timeout: float = 300.0,
    ) -> AsyncIterator[Stream[T]]:
        """Open a watch that delivers events in the groups they arrive in. See ``watch``."""
        query = [("watch", "true"), *selector_query(labels, fields), ("timeoutSeconds", str(round(timeout)))]
        if resource_version or initial_events:
            query.append(("resourceVersion", resource_version))
        if bookmarks:
            query.append(("allowWatchBookmarks", "true"))
        if initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        path = resource.path(namespace=namespace)
        response = await self._transport.stream(path, query=query)
        try:
            yield Stream(response, codec_of(resource.type), timeout=timeout, name=f"watch {path}")
        finally:
            abandon(response)

    async def watch(
        self,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        bookmarks: bool = True,
        initial_events: bool = False,
        timeout: float = 300.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Iterate until the hub ends the watch, after ``timeout`` seconds. Raise KubeErrors, such as Expired.

        With ``initial_events`` the watch begins with all objects, up to a bookmark that ``ends_initial_events``; they
        are then at least as new as ``resource_version``. Fields that cannot be decoded are logged and dropped.
        """
        async with self.stream(
            resource,
            namespace=namespace,
            labels=labels,
            fields=fields,
            resource_version=resource_version,
            bookmarks=bookmarks,
            initial_events=initial_events,
            timeout=timeout,
        ) as stream:
            async for events in stream:
                for obj in stream.unreadable:
                    _log.warning(UNREADABLE, resource.kind, obj.name, obj.reason)
                for event in events:
                    yield event

    async def newest(
        self, resource: Resource[T], *, namespace: str | None = None, timeout: float | None = None
    ) -> str:
        """The hub's current resource version. Costs a page of one object."""
        page = await self._page(resource, resource.path(namespace=namespace), limit_query(1), timeout)
        return page.resource_version
