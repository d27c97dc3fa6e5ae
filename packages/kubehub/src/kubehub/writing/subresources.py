"""Subresources and virtual resources: scale, binding, eviction, tokens, reviews."""

from datetime import UTC, datetime
from typing import Final

import msgspec

from kubehub import builtin, status
from kubehub.authn.authenticator import Authenticator
from kubehub.authn.service_account_tokens import Issuer
from kubehub.builtin.canonical import Malformed, canonical
from kubehub.rbac import reviews
from kubehub.rbac.authorizer import Authorizer
from kubehub.request_info import RequestInfo
from kubehub.resource import Document, Resource
from kubehub.serialization import representation
from kubehub.serialization.representation import Representation
from kubehub.storage.store import Store
from kubehub.write_request import Patch, WriteRequest
from kubehub.writing.eviction import Evictions
from kubehub.writing.scale import SCALE, ScaleSubresource
from kubehub.writing.writer import Writer

PLAIN_SUBRESOURCES: Final = ("", "status", "finalize", "approval")
"""Endpoints that take an ordinary update."""


def _encode(document: Document) -> bytes:
    return msgspec.json.encode(document) + b"\n"


def _encode_scale(scale: Document, style: Representation) -> bytes:
    return representation.encode_object(SCALE, msgspec.json.encode(scale), style)


SUCCESS: Final = _encode(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)


class Subresources:
    def __init__(
        self,
        *,
        store: Store,
        writer: Writer,
        authenticator: Authenticator,
        authorizer: Authorizer,
        issuer: Issuer,
    ) -> None:
        self._store, self._writer = store, writer
        self._authenticator, self._authorizer = authenticator, authorizer
        self._issuer = issuer
        self._evictions = Evictions(store=store, writer=writer)
        self._scale = ScaleSubresource(store=store, writer=writer)

    def serves(self, resource: Resource, info: RequestInfo) -> bool:
        if info.subresource:
            return info.subresource not in PLAIN_SUBRESOURCES
        return resource.verbs == ("create",)

    def get(self, resource: Resource, info: RequestInfo, style: Representation) -> bytes:
        if info.subresource == "scale":
            return _encode_scale(self._scale.get(resource, info), style)
        return representation.encode_object(resource, self._current_raw(resource, info), style)

    async def create(
        self, resource: Resource, info: RequestInfo, document: Document, request: WriteRequest
    ) -> bytes:
        document = _decode_body(resource, info, document)
        match (resource.plural, info.subresource):
            case ("pods", "binding"):
                if (document.get("metadata") or {}).get("name") != info.name:
                    raise status.bad_request("name in URL does not match name in Binding object")
                request.run_admission(document, None)
                return await self._bind(info.namespace, info.name, document, request)
            case ("bindings", ""):
                name = (document.get("metadata") or {}).get("name", "")
                request.run_admission(document, None)
                return await self._bind(info.namespace, name, document, request)
            case ("pods", "eviction"):
                await self._evictions.evict(info.namespace, info.name, document, request)
                return SUCCESS
            case ("serviceaccounts", "token"):
                self._current(resource, info)
                request.run_admission(document, None)
                answer = self._issuer.request(document, namespace=info.namespace, name=info.name)
                return _encode(answer)
        written = self._writer.managers_of_new(resource, document, request)
        answer = self._review(resource, info, document, request)
        answer["metadata"] = {**(answer.get("metadata") or {}), "managedFields": written}
        return _encode(answer)

    def _review(
        self, resource: Resource, info: RequestInfo, document: Document, request: WriteRequest
    ) -> Document:
        user, authorizer = request.user, self._authorizer
        match resource.plural:
            case "tokenreviews":
                return reviews.token_review(document, authenticator=self._authenticator)
            case "selfsubjectreviews":
                return reviews.self_subject_review(user=user, now=datetime.now(UTC))
            case "subjectaccessreviews":
                return reviews.subject_access_review(document, authorizer=authorizer)
            case "localsubjectaccessreviews":
                return reviews.local_subject_access_review(
                    document, namespace=info.namespace, authorizer=authorizer
                )
            case "selfsubjectaccessreviews":
                return reviews.self_subject_access_review(document, user=user, authorizer=authorizer)
            case "selfsubjectrulesreviews":
                return reviews.self_subject_rules_review(document, user=user, authorizer=authorizer)
        raise status.unknown_path()

    async def update(
        self,
        resource: Resource,
        info: RequestInfo,
        document: Document,
        request: WriteRequest,
        style: Representation,
    ) -> bytes:
        if info.subresource == "scale":
            return _encode_scale(await self._scale.update(resource, info, document, request), style)
        raise status.method_not_allowed("the server does not allow this method on the requested resource")

    async def patch(
        self,
        resource: Resource,
        info: RequestInfo,
        patch: Patch,
        request: WriteRequest,
        style: Representation,
    ) -> bytes:
        if info.subresource == "scale":
            return _encode_scale(await self._scale.patch(resource, info, patch, request), style)
        raise status.method_not_allowed("the server does not allow this method on the requested resource")

    def _current_raw(self, resource: Resource, info: RequestInfo) -> bytes:
        item = self._store.get((resource.key, info.namespace if resource.namespaced else "", info.name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, info.name)
        return item.raw

    def _current(self, resource: Resource, info: RequestInfo) -> Document:
        return representation.decode(resource, self._current_raw(resource, info))

    # Pods

    async def _bind(self, namespace: str, name: str, binding: Document, request: WriteRequest) -> bytes:
        target = binding.get("target") or {}
        node = target.get("name", "")
        causes = []
        if target.get("kind", "Node") not in ("", "Node"):
            causes.append(status.not_supported("target.kind", target.get("kind"), ["Node", ""]))
        if not node:
            causes.append(status.required("target.name"))
        if causes:
            raise status.invalid("", "Binding", name, causes)
        resource = self._writer.resource("pods")
        uid = (binding.get("metadata") or {}).get("uid")

        def edit(pod: Document) -> None:
            if uid and uid != pod["metadata"]["uid"]:
                raise status.conflict(
                    "",
                    "pods/binding",
                    name,
                    f"Precondition failed: UID in precondition: {uid}, "
                    f"UID in object meta: {pod['metadata']['uid']}",
                )
            if pod["metadata"].get("deletionTimestamp"):
                raise status.conflict(
                    "", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host"
                )
            if bound := pod["spec"].get("nodeName"):
                raise status.conflict(
                    "", "pods/binding", name, f'pod {name} is already assigned to node "{bound}"'
                )
            if pod["spec"].get("schedulingGates"):
                raise status.conflict(
                    "", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates"
                )
            pod["spec"]["nodeName"] = node
            annotations = (binding.get("metadata") or {}).get("annotations") or {}
            if annotations:
                pod["metadata"].setdefault("annotations", {}).update(annotations)
            conditions = [
                c
                for c in pod.setdefault("status", {}).get("conditions") or []
                if c.get("type") != "PodScheduled"
            ]
            conditions.append(
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": self._writer.now(),
                }
            )
            pod["status"]["conditions"] = conditions

        bound = WriteRequest(
            user=request.user, options=request.options, subresource="binding", warnings=request.warnings
        )
        await self._writer.change(resource, namespace, name, edit, bound)
        return SUCCESS


def _decode_body(resource: Resource, info: RequestInfo, document: Document) -> Document:
    """Decode the body of a subresource. Raises a 400."""
    part = resource.subresources.get(info.subresource)
    of = part if part is not None and part.kind else resource
    try:
        return canonical(builtin.kind(of.group, of.version, of.kind), document).document
    except Malformed as fault:
        raise status.bad_request(
            f'{of.kind} in version "{of.version}" cannot be handled as a {of.kind}: {fault}'
        ) from fault
