"""The paths of OpenAPI documents: the requests that resources support."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kubehub import builtin
from kubehub.openapi.published_schemas import GVK, META, PATCH, kind_of, name_of, reference
from kubehub.resource import Document, Resource, Subresource

JSON: Final = "application/json"
YAML: Final = "application/yaml"
WATCH: Final = "application/json;stream=watch"
PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
STRATEGIC: Final = "application/strategic-merge-patch+json"
ANY: Final = "*/*"

_STATUS: Final = f"{META}.Status"
_OPTIONS: Final = f"{META}.DeleteOptions"
_RESOURCES: Final = f"{META}.APIResourceList"

_WORDS: Final = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}
_TYPES: Final[Mapping[str, str]] = {
    "allowWatchBookmarks": "boolean", "force": "boolean", "gracePeriodSeconds": "integer", "limit": "integer",
    "orphanDependents": "boolean", "sendInitialEvents": "boolean", "timeoutSeconds": "integer", "watch": "boolean",
}  # fmt: skip
_WRITE: Final = ("dryRun", "fieldManager", "fieldValidation")
_SELECTION: Final = (
    "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "timeoutSeconds",
)  # fmt: skip
_DELETE: Final = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verb:
    method: str
    action: str
    word: str
    parameters: tuple[str, ...] = ()
    codes: tuple[int, ...] = (200,)


_VERBS: Final[Mapping[str, _Verb]] = {
    "list": _Verb(
        method="get", action="list", word="list", parameters=("allowWatchBookmarks", *_SELECTION, "watch")
    ),
    "create": _Verb(method="post", action="post", word="create", parameters=_WRITE, codes=(200, 201, 202)),
    "deletecollection": _Verb(
        method="delete", action="deletecollection", word="delete", parameters=(*_SELECTION, *_DELETE)
    ),
    "get": _Verb(method="get", action="get", word="read"),
    "update": _Verb(method="put", action="put", word="replace", parameters=_WRITE, codes=(200, 201)),
    "delete": _Verb(method="delete", action="delete", word="delete", parameters=_DELETE, codes=(200, 202)),
    "patch": _Verb(
        method="patch", action="patch", word="patch", parameters=(*_WRITE, "force"), codes=(200, 201)
    ),
}
_OF_COLLECTIONS: Final = ("list", "create", "deletecollection")
_OF_OBJECTS: Final = ("get", "update", "delete", "patch")


def paths(group: str, version: str, resources: Iterable[Resource]) -> dict[str, Document]:
    """Return every path of a group version with its operations."""
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    stem = _stem(group, version)
    by_path: dict[str, Document] = {
        f"{root}/": {
            "get": {
                "tags": [_tag(group, version)],
                "operationId": f"get{stem}APIResources",
                "responses": _responses((200,), _RESOURCES),
            }
        }
    }
    for resource in resources:
        by_path.update(_resource_paths(root, stem, resource))
    return dict(sorted(by_path.items()))


def names(resources: Iterable[Resource]) -> Iterator[str]:
    """Return the names of the built-in schemas that these operations refer to."""
    yield _RESOURCES
    for resource in resources:
        if "delete" in resource.verbs or "deletecollection" in resource.verbs:
            yield from (_STATUS, _OPTIONS)
        if "patch" in resource.verbs:
            yield PATCH
        if not resource.custom:
            yield resource.node.name
            if "list" in resource.verbs:
                yield resource.node.name + "List"
        for sub in resource.subresources.values():
            if sub.kind:
                yield builtin.kind(sub.group, sub.version, sub.kind).full_name


def _resource_paths(root: str, stem: str, resource: Resource) -> Iterator[tuple[str, Document]]:
    scope, scoped = ("/namespaces/{namespace}", "Namespaced") if resource.namespaced else ("", "")
    collection = f"{root}{scope}/{resource.plural}"
    noun = scoped + resource.kind
    where = ("namespace",) if resource.namespaced else ()
    own = kind_of(resource.group, resource.version, resource.kind)
    name = name_of(resource)
    item = {
        _VERBS[verb].method: _operation(
            resource,
            verb,
            identity=f"{_VERBS[verb].word}{stem}{'Collection' if verb == 'deletecollection' else ''}{noun}",
            kind=own,
            schema=name,
        )
        for verb in _OF_COLLECTIONS
        if verb in resource.verbs
    }
    if item:
        yield collection, item | {"parameters": _path_parameters(where)}
    if resource.namespaced and "list" in resource.verbs:
        everywhere = f"list{stem}{resource.kind}ForAllNamespaces"
        listed = _operation(resource, "list", identity=everywhere, kind=own, schema=name)
        yield f"{root}/{resource.plural}", {"get": listed, "parameters": _path_parameters(())}
    one = f"{collection}/{{name}}"
    item = {
        _VERBS[verb].method: _operation(
            resource, verb, identity=f"{_VERBS[verb].word}{stem}{noun}", kind=own, schema=name
        )
        for verb in _OF_OBJECTS
        if verb in resource.verbs
    }
    if item:
        yield one, item | {"parameters": _path_parameters(("name", *where))}
    for sub in resource.subresources.values():
        item = {
            _VERBS[verb].method: _operation(
                resource,
                verb,
                identity=f"{_VERBS[verb].word}{stem}{noun}{sub.name.capitalize()}",
                kind=_kind(resource, sub),
                schema=builtin.kind(sub.group, sub.version, sub.kind).full_name if sub.kind else name,
            )
            for verb in sub.verbs
        }
        yield f"{one}/{sub.name}", item | {"parameters": _path_parameters(("name", *where))}


def _kind(resource: Resource, sub: Subresource) -> Document:
    if sub.kind and not resource.custom:
        return kind_of(sub.group, sub.version, sub.kind)
    return kind_of(resource.group, resource.version, resource.kind)


def _operation(resource: Resource, verb: str, *, identity: str, kind: Document, schema: str) -> Document:
    known = _VERBS[verb]
    operation: Document = {"tags": [_tag(resource.group, resource.version)], "operationId": identity}
    if known.parameters:
        operation["parameters"] = [_parameter(name) for name in known.parameters]
    if known.method == "delete":
        operation["requestBody"] = {"content": {ANY: {"schema": reference(_OPTIONS)}}}
        schema = _STATUS
    elif verb == "patch":
        taken = PATCHES if resource.custom else (*PATCHES, STRATEGIC)
        operation["requestBody"] = {
            "content": {media: {"schema": reference(PATCH)} for media in taken},
            "required": True,
        }
    elif known.method in ("post", "put"):
        operation["requestBody"] = {"content": {ANY: {"schema": reference(schema)}}, "required": True}
    elif verb == "list":
        schema += "List"
    operation["responses"] = _responses(known.codes, schema, watched=verb == "list")
    return operation | {"x-kubernetes-action": known.action, GVK: kind}


def _responses(codes: Iterable[int], schema: str, *, watched: bool = False) -> Document:
    forms = (JSON, WATCH, YAML) if watched else (JSON, YAML)
    content = {media: {"schema": reference(schema)} for media in forms}
    responses: Document = {str(code): {"description": _WORDS[code], "content": content} for code in codes}
    return responses | {"401": {"description": _WORDS[401]}}


def _parameter(name: str) -> Document:
    return {"name": name, "in": "query", "schema": {"type": _TYPES.get(name, "string"), "uniqueItems": True}}


def _path_parameters(where: Iterable[str]) -> list[Document]:
    """Parameters of a whole path."""
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in where
    ]
    return [*parameters, _parameter("pretty")]


def _camel(group: str) -> str:
    return "".join(part.capitalize() for part in re.split("[.-]", group.removesuffix(".k8s.io") or "core"))


def _stem(group: str, version: str) -> str:
    return _camel(group) + version.capitalize()


def _tag(group: str, version: str) -> str:
    camel = _camel(group)
    return f"{camel[:1].lower()}{camel[1:]}_{version}"
