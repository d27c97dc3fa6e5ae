"""Requests that write: decode body and options, call the writer, encode the response."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from aiohttp import web

from kubehub import builtin, options, status
from kubehub.admission.control import Admission
from kubehub.admission.request import AdmissionRequest
from kubehub.builtin.canonical import Malformed, canonical
from kubehub.flowcontrol.yielding import Yielder
from kubehub.rbac.authorizer import Attributes, Authorizer
from kubehub.request_info import RequestInfo
from kubehub.resource import Document, Resource
from kubehub.serialization import body, representation
from kubehub.serving.exchange import Exchange, reply
from kubehub.serving.reads import Reader
from kubehub.status import Refusal
from kubehub.user import User
from kubehub.write_request import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Admit,
    Patch,
    WriteRequest,
)
from kubehub.writing.subresources import Subresources
from kubehub.writing.writer import Writer

DELETE_OPTIONS: Final = "DeleteOptions"
NO_KIND: Final = (
    'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
)

_PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
_BODIES: Final = ("", representation.JSON, representation.YAML, representation.PROTOBUF)
_DUPLICATES: Final = 100
_NOT_FOUND: Final = 404


class Mutations:
    def __init__(
        self,
        *,
        reader: Reader,
        writer: Writer,
        subresources: Subresources,
        authorizer: Authorizer,
        admission: Admission,
    ) -> None:
        self._reader, self._writer, self._subresources = reader, writer, subresources
        self._authorizer, self._admission = authorizer, admission

    async def answer(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.Response:
        verbs: Mapping[str, Callable[[Exchange, Resource, RequestInfo, bytes], Awaitable[web.Response]]] = {
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_many,
        }
        return await verbs[exchange.verb](exchange, resource, info, raw)

    def _decode(
        self, exchange: Exchange, resource: Resource, raw: bytes, *, strict: bool, kind: str = ""
    ) -> Document:
        content_type = exchange.request.headers.get("Content-Type", representation.JSON)
        if not _is_supported(content_type):
            raise status.unsupported_media(
                "the body of the request was in an unknown format - accepted media types include: "
                f"{representation.JSON}, {representation.YAML}, {representation.PROTOBUF}"
            )
        try:
            document = body.document(
                raw, content_type, group=resource.group, version=resource.version, kind=kind or resource.kind
            )
        except Refusal as refusal:
            if refusal.code == 400 and not kind and refusal.message.startswith("couldn't get"):
                raise status.bad_request(
                    f"the object provided is unrecognized (must be of type {resource.kind}): {refusal.message}"
                ) from refusal
            raise
        if strict and (repeated := body.duplicates(raw)):
            listed = ", ".join(f'duplicate field "{path}"' for path in repeated[:_DUPLICATES])
            raise status.bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                f"strict decoding error: {listed}"
            )
        return document

    def _request(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, kind: str, *, applies: bool = False
    ) -> WriteRequest:
        written = options.parse_write(exchange.query, agent=exchange.agent, kind=kind, applies=applies)
        return WriteRequest(
            user=exchange.user,
            options=written,
            subresource=info.subresource,
            warnings=exchange.warnings,
            authorize_create=partial(self._authorize_create, exchange.user, info),
            admit=self._admit(exchange, resource, info, dry_run=written.dry_run, manager=written.manager),
        )

    def _admit(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, *, dry_run: bool, manager: str = ""
    ) -> Admit:
        def admit(new: Document | None, old: Document | None) -> None:
            self._admission.admit(
                AdmissionRequest(
                    user=exchange.user,
                    resource=resource,
                    subresource=info.subresource,
                    place=(info.namespace, info.name),
                    new=new,
                    old=old,
                    dry_run=dry_run,
                    manager=manager,
                    warnings=exchange.warnings,
                    annotations=exchange.annotations,
                )
            )

        return admit

    def _authorize_create(self, user: User, info: RequestInfo, name: str) -> None:
        """Authorize the verb ``create`` for a PUT or apply that creates an object."""
        self._authorizer.authorize(
            user,
            Attributes(
                verb="create",
                group=info.group or "",
                version=info.version,
                resource=info.plural,
                namespace=info.namespace,
                name=name,
            ),
        )

    async def _create(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.Response:
        write = self._request(exchange, resource, info, options.CREATE_OPTIONS)
        style = representation.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        document = self._decode(exchange, resource, raw, strict=write.options.validation == options.STRICT)
        if self._subresources.serves(resource, info):
            payload = await self._subresources.create(resource, info, document, write)
            return reply(exchange, payload, code=201, style=style)
        written = await self._writer.create(resource, info.namespace, document, write)
        return reply(
            exchange, representation.encode_object(resource, written.raw, style), code=201, style=style
        )

    async def _update(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.Response:
        write = self._request(exchange, resource, info, options.UPDATE_OPTIONS)
        style = representation.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        document = self._decode(exchange, resource, raw, strict=write.options.validation == options.STRICT)
        if self._subresources.serves(resource, info):
            payload = await self._subresources.update(resource, info, document, write, style)
            return reply(exchange, payload, style=style)
        written = await self._writer.update(resource, info.namespace, info.name, document, write)
        payload = representation.encode_object(resource, written.raw, style)
        return reply(exchange, payload, code=201 if written.created else 200, style=style)

    async def _patch(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.Response:
        media = body.media_type(exchange.request.headers.get("Content-Type", ""))
        if media not in _PATCHES:
            raise status.Refusal(
                code=415, reason="UnsupportedMediaType", message="415: Unsupported Media Type", details={}
            )
        write = self._request(exchange, resource, info, options.PATCH_OPTIONS, applies=media == APPLY_PATCH)
        style = representation.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        patch = Patch(media=media, body=body.value(raw, media))
        if self._subresources.serves(resource, info):
            payload = await self._subresources.patch(resource, info, patch, write, style)
            return reply(exchange, payload, style=style)
        written = await self._writer.patch(resource, info.namespace, info.name, patch, write)
        payload = representation.encode_object(resource, written.raw, style)
        return reply(exchange, payload, code=201 if written.created else 200, style=style)

    async def _delete(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.Response:
        style = representation.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        deletion = options.parse_deletion(exchange.query, self._deletion_body(exchange, resource, raw))
        removed = await self._writer.delete(
            resource,
            info.namespace,
            info.name,
            deletion,
            user=exchange.user,
            admit=self._admit(exchange, resource, info, dry_run=deletion.dry_run),
        )
        if removed.gone and not self._writer.returns_deleted_object(resource):
            payload = representation.encode(_success_status(resource, removed.raw), style)
        else:
            payload = representation.encode_object(resource, removed.raw, style)
        code = 202 if deletion.cascades and not removed.gone else 200
        return reply(exchange, payload, code=code, style=style)

    def _deletion_body(self, exchange: Exchange, resource: Resource, raw: bytes) -> Document | None:
        """Decode DeleteOptions of any group and version."""
        if not raw:
            return None
        document = self._decode(exchange, resource, raw, strict=False, kind=DELETE_OPTIONS)
        if document.get("kind") not in (None, "", DELETE_OPTIONS):
            version = document.get("apiVersion") or "meta.k8s.io/v1"
            raise status.bad_request(NO_KIND.format(kind=document["kind"], version=version))
        try:
            return canonical(builtin.kind("", "v1", DELETE_OPTIONS), document).document
        except Malformed as fault:
            raise status.bad_request(str(fault)) from fault

    async def _delete_many(
        self, exchange: Exchange, resource: Resource, info: RequestInfo, raw: bytes
    ) -> web.Response:
        style = representation.negotiate(exchange.request.headers.get("Accept", ""), exchange.query)
        selected = options.parse_read(exchange.query)
        deletion = options.parse_deletion(exchange.query, self._deletion_body(exchange, resource, raw))
        chosen, metadata = await self._reader.page(resource, info.namespace, selected)
        removed, yielder = [], Yielder()
        admit = self._admit(exchange, resource, info, dry_run=deletion.dry_run)
        for item in chosen:
            await yielder.step()
            try:
                await self._writer.delete(
                    resource, item.key[1], item.key[2], deletion, user=exchange.user, admit=admit
                )
            except Refusal as refusal:
                if refusal.code != _NOT_FOUND:  # another client deleted it meanwhile
                    raise
            else:
                removed.append(item.raw)
        await self._writer.wait_for_commits()
        payload = representation.encode_list(resource, removed, metadata, style)
        return reply(exchange, payload, style=style)


def _is_supported(content_type: str) -> bool:
    media, *parameters = (part.strip() for part in content_type.split(";"))
    return media.lower() in _BODIES and all("=" in part for part in parameters if part)


def _success_status(resource: Resource, raw: bytes) -> Document:
    metadata = representation.decode(resource, raw)["metadata"]
    details = {
        "name": metadata["name"],
        "group": resource.group,
        "kind": resource.plural,
        "uid": metadata["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
