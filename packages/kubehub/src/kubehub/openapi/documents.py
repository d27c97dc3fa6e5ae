"""OpenAPI documents: one per group version (v3), and one for all (v2).

kubectl needs them: ``explain`` prints them, ``apply`` merges by them, and ``--validate`` checks there whether a
kind supports the ``fieldValidation`` parameter. The caller caches them. The hash of an index entry changes with its
document, so clients may cache documents forever.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from kubehub import builtin
from kubehub.openapi import operations, published_schemas
from kubehub.openapi.published_schemas import V2_PREFIX, V3_PREFIX
from kubehub.resource import Document, Resource

VERSION: Final = "1.36"
"""The version of the served Kubernetes API."""
_SCHEMES: Final = {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}}


def index(resources: Iterable[Resource]) -> Document:
    """Build ``/openapi/v3``."""
    served: dict[tuple[str, str], list[Resource]] = {}
    for resource in resources:
        served.setdefault((resource.group, resource.version), []).append(resource)
    paths = {
        f"apis/{group}/{version}" if group else f"api/{version}": _fingerprint(members)
        for (group, version), members in served.items()
    }
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={print_}"}
            for path, print_ in sorted(paths.items())
        }
    }


def document(group: str, version: str, resources: Sequence[Resource]) -> Document:
    """Build ``/openapi/v3/apis/{group}/{version}`` from the resources of that group version."""
    served = [resource for resource in resources if (resource.group, resource.version) == (group, version)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": operations.paths(group, version, served),
        "components": {
            "schemas": published_schemas.definitions(served, operations.names(served)),
            "securitySchemes": _SCHEMES,
        },
    }


def swagger(resources: Sequence[Resource]) -> Document:
    """Build ``/openapi/v2``, with all resources."""
    paths: Document = {}
    for group, version in sorted({(resource.group, resource.version) for resource in resources}):
        served = [
            resource for resource in resources if (resource.group, resource.version) == (group, version)
        ]
        for path, item in operations.paths(group, version, served).items():
            paths[path] = {key: _item_to_v2(key, value) for key, value in item.items()}
    schemas = published_schemas.definitions(resources, operations.names(resources))
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": paths,
        "definitions": {name: published_schemas.to_v2(name, schema) for name, schema in schemas.items()},
        "securityDefinitions": _SCHEMES,
        "security": [{"BearerToken": []}],
    }


def _fingerprint(resources: Iterable[Resource]) -> str:
    """Hash the inputs of a document, which are far smaller than the document."""
    digest = hashlib.sha512(_release().encode())
    for resource in resources:
        names = [
            resource.group,
            resource.version,
            resource.kind,
            resource.list_kind,
            resource.plural,
            resource.namespaced,
            resource.verbs,
        ]
        subresources = [[sub.name, sub.verbs, sub.kind] for sub in resource.subresources.values()]
        digest.update(
            msgspec.json.encode([names, subresources, resource.node.raw if resource.custom else None])
        )
    return digest.hexdigest().upper()


@cache
def _release() -> str:
    digest = hashlib.sha512()
    for path in sorted(Path(builtin.__file__).parent.glob("*.fields")):
        digest.update(path.read_bytes())
    return f"{VERSION} {digest.hexdigest()}"


def _item_to_v2(key: str, value: Any) -> Any:
    if key == "parameters":
        return [_parameter_to_v2(parameter) for parameter in value]
    operation: Document = {
        "consumes": list(value.get("requestBody", {}).get("content", {operations.ANY: None})),
        "produces": list(value["responses"]["200"]["content"]),
        "schemes": ["https"],
        "tags": value["tags"],
        "operationId": value["operationId"],
        "parameters": [
            *_body(value),
            *(_parameter_to_v2(parameter) for parameter in value.get("parameters", ())),
        ],
        "responses": {code: _response_to_v2(response) for code, response in value["responses"].items()},
    }
    return operation | {name: extension for name, extension in value.items() if name.startswith("x-")}


def _body(operation: Mapping[str, Any]) -> Iterator[Document]:
    body = operation.get("requestBody")
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        made = {"name": "body", "in": "body", "schema": _reference_to_v2(schema)}
        yield made | ({"required": True} if body.get("required") else {})


def _parameter_to_v2(parameter: Mapping[str, Any]) -> Document:
    return {key: value for key, value in parameter.items() if key != "schema"} | dict(parameter["schema"])


def _response_to_v2(response: Mapping[str, Any]) -> Document:
    made: Document = {"description": response["description"]}
    if "content" in response:
        made["schema"] = _reference_to_v2(response["content"][operations.JSON]["schema"])
    return made


def _reference_to_v2(schema: Mapping[str, str]) -> Document:
    return {"$ref": V2_PREFIX + schema["$ref"].removeprefix(V3_PREFIX)}
