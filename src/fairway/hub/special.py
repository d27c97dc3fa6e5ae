"""Subresources and virtual resources: scale, binding, eviction, finalize, tokens, approval, reviews."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from fairway.hub import builtin, form, jsonpath, mergepatch, reviews, status
from fairway.hub import jsonpatch as operations
from fairway.hub.authn import Authenticator
from fairway.hub.authz import Authorizer
from fairway.hub.builtin.canonical import Malformed, canonical
from fairway.hub.eviction import Evictions
from fairway.hub.requests import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patch, Request
from fairway.hub.resource import Document, Resource, Scale
from fairway.hub.store import Store
from fairway.hub.target import Target
from fairway.hub.tokens import Issuer
from fairway.hub.writes import Writer

PLAIN_SUBRESOURCES: Final = ("", "status", "finalize", "approval")
"""What an ordinary update does."""

_REPLICAS: Final = Scale(
    spec_path=".spec.replicas", status_path=".status.replicas", selector_path=".spec.selector"
)


def _encoded(document: Document) -> bytes:
    return msgspec.json.encode(document) + b"\n"


SUCCESS: Final = _encoded(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)


class Special:
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

    def serves(self, resource: Resource, found: Target) -> bool:
        if found.subresource:
            return found.subresource not in PLAIN_SUBRESOURCES
        return resource.verbs == ("create",)

    def get(self, resource: Resource, found: Target) -> bytes:
        if found.subresource == "scale":
            return _encoded(self._scale(resource, self._current(resource, found)))
        return self._current_raw(resource, found)

    async def create(
        self,
        resource: Resource,
        found: Target,
        document: Document,
        request: Request,
    ) -> bytes:
        document = _typed(resource, found, document)
        match (resource.plural, found.subresource):
            case ("pods", "binding"):
                if (document.get("metadata") or {}).get("name") != found.name:
                    raise status.bad_request("name in URL does not match name in Binding object")
                return await self._bind(found.namespace, found.name, document, request)
            case ("bindings", ""):
                name = (document.get("metadata") or {}).get("name", "")
                return await self._bind(found.namespace, name, document, request)
            case ("pods", "eviction"):
                await self._evictions.evict(found.namespace, found.name, document, request)
                return SUCCESS
            case ("serviceaccounts", "token"):
                self._current(resource, found)
                answer = self._issuer.request(document, namespace=found.namespace, name=found.name)
                return _encoded(answer)
        written = self._writer.owned(resource, document, request)
        answer = self._reviewed(resource, found, document, request)
        answer["metadata"] = {**(answer.get("metadata") or {}), "managedFields": written}
        return _encoded(answer)

    def _reviewed(self, resource: Resource, found: Target, document: Document, request: Request) -> Document:
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
                    document, namespace=found.namespace, authorizer=authorizer
                )
            case "selfsubjectaccessreviews":
                return reviews.self_subject_access_review(document, user=user, authorizer=authorizer)
            case "selfsubjectrulesreviews":
                return reviews.self_subject_rules_review(document, user=user, authorizer=authorizer)
        raise status.unknown_path()

    async def update(self, resource: Resource, found: Target, document: Document, request: Request) -> bytes:
        if found.subresource == "scale":
            return await self._rescale(resource, found, _typed(resource, found, document), request)
        raise status.method_not_allowed("the server does not allow this method on the requested resource")

    async def patch(self, resource: Resource, found: Target, patch: Patch, request: Request) -> bytes:
        if found.subresource == "scale":
            current = self._scale(resource, self._current(resource, found))
            changed = _typed(resource, found, _merged(current, patch))
            return await self._rescale(resource, found, changed, request)
        raise status.method_not_allowed("the server does not allow this method on the requested resource")

    def _current_raw(self, resource: Resource, found: Target) -> bytes:
        item = self._store.get((resource.key, found.namespace if resource.namespaced else "", found.name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, found.name)
        return item.raw

    def _current(self, resource: Resource, found: Target) -> Document:
        return form.decode(resource, self._current_raw(resource, found))

    # Scale

    def _scale(self, resource: Resource, document: Document) -> Document:
        paths = resource.scale or _REPLICAS
        metadata = document["metadata"]
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        scale: Document = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: metadata[key] for key in kept if key in metadata},
            "spec": {},
            "status": {"replicas": _number(document, paths.status_path) or 0},
        }
        replicas = _number(document, paths.spec_path)
        if replicas is not None:
            scale["spec"]["replicas"] = replicas
        if paths.selector_path and (selector := _selector(document, paths.selector_path)):
            scale["status"]["selector"] = selector
        return scale

    async def _rescale(
        self, resource: Resource, found: Target, document: Document, request: Request
    ) -> bytes:
        replicas = (document.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise status.bad_request(
                'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal '
                "into Go struct field ScaleSpec.spec.replicas of type int32"
            )
        if replicas < 0 and not resource.custom:
            cause = status.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
            raise status.invalid("autoscaling", "Scale", found.name, [cause])
        path = [p for p in (resource.scale or _REPLICAS).spec_path.split(".") if p]
        revision = (document.get("metadata") or {}).get("resourceVersion")

        def make(current: Document) -> None:
            if revision and revision != current["metadata"]["resourceVersion"]:
                raise status.conflict(resource.group, resource.plural, found.name)
            place: Any = current
            for part in path[:-1]:
                place = place.setdefault(part, {})
            place[path[-1]] = replicas

        written = await self._writer.change(resource, found.namespace, found.name, make, request)
        return _encoded(self._scale(resource, form.decode(resource, written.raw)))

    # Pods

    async def _bind(self, namespace: str, name: str, binding: Document, request: Request) -> bytes:
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

        def make(pod: Document) -> None:
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

        bound = Request(
            user=request.user, options=request.options, subresource="binding", warnings=request.warnings
        )
        await self._writer.change(resource, namespace, name, make, bound)
        return SUCCESS


def _typed(resource: Resource, found: Target, document: Document) -> Document:
    """The body as its kind can hold it. Raises a 400."""
    part = resource.subresources.get(found.subresource)
    of = part if part is not None and part.kind else resource
    try:
        return canonical(builtin.kind(of.group, of.version, of.kind), document).document
    except Malformed as fault:
        raise status.bad_request(
            f'{of.kind} in version "{of.version}" cannot be handled as a {of.kind}: {fault}'
        ) from fault


def _merged(current: Document, patch: Patch) -> Document:
    if patch.media == JSON_PATCH:
        changed = operations.apply(current, patch.body)
    elif patch.media in (MERGE_PATCH, STRATEGIC_PATCH):
        changed = mergepatch.apply(current, patch.body)
    else:
        raise status.unsupported_media(f"{patch.media} is not understood here; use {MERGE_PATCH}")
    if not isinstance(changed, dict):
        raise status.bad_request("the patch leaves something that is not an object")
    return changed


def _number(document: Document, path: str) -> int | None:
    found = jsonpath.compiled(path)(document)
    return found[0] if found and isinstance(found[0], int) else None


def _selector(document: Document, path: str) -> str:
    found = jsonpath.compiled(path)(document)
    if not found:
        return ""
    if isinstance(found[0], str):
        return found[0]
    selector = found[0] if isinstance(found[0], dict) else {}
    labels = selector.get("matchLabels", selector) or {}
    parts = [f"{k}={v}" for k, v in sorted(labels.items()) if isinstance(v, str)]
    signs: dict[str, Callable[[str, str], str]] = {
        "In": lambda key, values: f"{key} in ({values})",
        "NotIn": lambda key, values: f"{key} notin ({values})",
        "Exists": lambda key, _: key,
        "DoesNotExist": lambda key, _: f"!{key}",
    }
    for each in selector.get("matchExpressions") or ():
        write = signs.get(each.get("operator", ""))
        if write is not None:
            parts.append(write(each.get("key", ""), ",".join(sorted(each.get("values") or ()))))
    return ",".join(parts)
