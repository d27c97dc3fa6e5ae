"""Validate CRDs, with kube-apiserver's messages.

Faults that all versions share are reported once, at the spec.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubehub import status
from kubehub.crd.cel_rules import RuleChecker, Total
from kubehub.crd.defaults import default_faults
from kubehub.crd.keywords import Place, openapi_faults
from kubehub.crd.parts import (
    column_faults,
    name_faults,
    selectable_faults,
    subresource_faults,
    warning_faults,
)
from kubehub.crd.structure import structural_faults, unsupported
from kubehub.go_format import json_text
from kubehub.schema import parse
from kubehub.schemas.correlation import equal
from kubehub.status import Cause
from kubewire.api import naming

SCOPES: Final = ("Cluster", "Namespaced")
PARTS: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""What may differ between versions, and the name of the shared field."""

DOTLESS_GROUP: Final = "should be a domain with at least one dot"
SAME_VERSION_TWICE: Final = "must contain unique version names"
_NONE: Final[Sequence[Mapping[str, Any]]] = ()
"""Versions were omitted; an empty list is reported differently."""

ONE_STORAGE_VERSION: Final = "must have exactly one version marked as storage version"
ROOT_OBJECT: Final = (
    'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
)
ROOT_KEYWORDS: Final = (
    "only [{}] fields are allowed at the root of the schema if the status subresource is enabled"
)
ROOT_NULLABLE: Final = "nullable cannot be true at the root"
NO_DEFAULTS: Final = "must be false in order to use defaults in the schema"
PRESERVE: Final = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
)
NEEDS_SCHEMA: Final = "may only be set when `version.schema.openAPIV3Schema` is not included"
NEEDS_COMMON_SCHEMA: Final = "may only be set when validations.schema is included"

_ROOT_ALLOWED: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def spec_faults(spec: Mapping[str, Any]) -> Iterator[Cause]:
    group = spec.get("group") or ""
    if not group:
        yield status.required("spec.group")
    elif naming.subdomain(group):
        yield status.invalid_value("spec.group", group, ",".join(naming.subdomain(group)))
    elif "." not in group:
        yield status.invalid_value("spec.group", group, DOTLESS_GROUP)
    yield from _one_of("spec.scope", spec.get("scope") or "", SCOPES)
    versions: Sequence[Mapping[str, Any]] = _NONE if spec.get("versions") is None else spec["versions"]
    common = {part for part in PARTS if versions and _is_common(versions, part)}
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield status.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for index, version in enumerate(versions):
        yield from _version(version, f"spec.versions[{index}]", common)
    names = [version.get("name") for version in versions]
    if len({*names}) < len(names):
        yield _versions(versions, common, SAME_VERSION_TWICE)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield _versions(versions, common, ONE_STORAGE_VERSION)
    given = spec.get("names") or {}
    yield from (
        status.required(f"spec.names.{key}")
        for key in ("plural", "singular", "kind", "listKind")
        if not given.get(key)
    )
    yield from name_faults(given, "spec.names")
    if versions:
        with_status = any(
            (version.get("subresources") or {}).get("status") is not None for version in versions
        )
        yield from _parts(versions[0], "spec", common, with_status=with_status, named=PARTS)
    yield from _conversion(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        if any(schema.get("default") is not None for schema in schemas(spec)):
            yield status.invalid_value("spec.preserveUnknownFields", True, NO_DEFAULTS)
        yield status.invalid_value("spec.preserveUnknownFields", True, PRESERVE)


def schemas(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all schemas of all versions with their children; of equal versions only one."""
    versions: Sequence[Mapping[str, Any]] = _NONE if spec.get("versions") is None else spec["versions"]
    if versions and _is_common(versions, "schema"):
        versions = versions[:1]
    pending = deque((version.get("schema") or {}).get("openAPIV3Schema") for version in versions)
    while pending:
        schema = pending.popleft()
        if isinstance(schema, Mapping):
            yield schema
            pending += [schema.get("items"), schema.get("not"), schema.get("additionalProperties")]
            pending += (schema.get("properties") or {}).values()
            for junctor in ("allOf", "anyOf", "oneOf"):
                pending += schema.get(junctor) or ()


def _is_common(versions: Sequence[Mapping[str, Any]], part: str) -> bool:
    first = versions[0].get(part)
    return all(equal(version.get(part), first) for version in versions)


def _one_of(path: str, value: str, accepted: Sequence[str]) -> Iterator[Cause]:
    if not value:
        yield status.required(path)
    elif value not in accepted:
        yield status.not_supported(path, value, accepted)


def _version(version: Mapping[str, Any], path: str, common: set[str]) -> Iterator[Cause]:
    name = version.get("name") or ""
    if naming.dns1035_label(name):
        yield status.invalid_value(f"{path}.name", name, ",".join(naming.dns1035_label(name)))
    yield from warning_faults(version, path)
    with_status = (version.get("subresources") or {}).get("status") is not None
    own = {part: part for part in PARTS if part not in common}
    yield from _parts(version, path, {*own}, with_status=with_status, named=own)


def _parts(
    version: Mapping[str, Any], path: str, parts: set[str], *, with_status: bool, named: Mapping[str, str]
) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if "schema" in parts and schema:
        yield from schema_faults(schema, f"{path}.{named['schema']}.openAPIV3Schema", with_status=with_status)
    if "subresources" in parts:
        yield from subresource_faults(version.get("subresources"), f"{path}.{named['subresources']}")
    if "additionalPrinterColumns" in parts:
        columns = version.get("additionalPrinterColumns") or ()
        yield from column_faults(columns, f"{path}.{named['additionalPrinterColumns']}")
    fields = version.get("selectableFields") or ()
    if "selectableFields" in parts and fields:
        place = f"{path}.{named['selectableFields']}"
        if not schema or "schema" not in parts:
            words = NEEDS_COMMON_SCHEMA if path == "spec" else NEEDS_SCHEMA
            yield status.invalid_value(place, "", words)
        else:
            yield from selectable_faults(fields, parse(schema), place)


def _versions(versions: Sequence[Mapping[str, Any]], common: set[str], detail: str) -> Cause:
    """Kubernetes prints all versions, with their internal field names."""
    shown = []
    for version in versions:
        fields = {
            "Name": version.get("name") or "",
            "Served": bool(version.get("served")),
            "Storage": bool(version.get("storage")),
            "Deprecated": bool(version.get("deprecated")),
            "DeprecationWarning": version.get("deprecationWarning"),
        }
        for part in PARTS:
            fields[part[0].upper() + part[1:]] = None if part in common else version.get(part)
        shown.append("{" + ",".join(f"{json_text(k)}:{json_text(v)}" for k, v in fields.items()) + "}")
    listed = "null" if versions is _NONE else f"[{','.join(shown)}]"
    message = f"Invalid value: {listed}: {detail}"
    return Cause(field="spec.versions", reason=status.INVALID, message=message)


def schema_faults(schema: Mapping[str, Any], path: str, *, with_status: bool = False) -> list[Cause]:
    """Check one schema: structural, valid defaults, rules that compile within the cost limits."""
    causes: list[Cause] = list(_root_faults(schema, path)) if with_status else []
    if schema.get("nullable"):
        causes.append(status.forbidden_field(f"{path}.nullable", ROOT_NULLABLE))
    total = Total()
    checker: RuleChecker | None = None
    refused = unsupported(schema)
    if refused is None:
        node = parse(schema)
        faults = structural_faults(schema, path) or default_faults(node, path)
        causes += faults
        if not faults:
            checker = RuleChecker(node=node, total=total, root=True)
    openapi = openapi_faults(schema, Place(path=path, root=True, checker=checker))
    causes += openapi.schema + openapi.rules
    if refused is not None and not causes:
        causes.append(status.invalid_value(path, "", refused))
    return [*causes, *total.faults(path)]


def _root_faults(schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    kind = schema.get("type") or ""
    if kind not in ("", "object"):
        yield status.invalid_value(f"{path}.type", kind, ROOT_OBJECT)
    elif any(value and key not in _ROOT_ALLOWED for key, value in schema.items()):
        words = ROOT_KEYWORDS.format(" ".join(_ROOT_ALLOWED.values()))
        yield status.invalid_value(path, dict(schema), words)


def _conversion(conversion: Mapping[str, Any]) -> Iterator[Cause]:
    """The hub calls no webhooks, so it accepts none."""
    yield from _one_of("spec.conversion.strategy", conversion.get("strategy") or "None", ("None",))
    if conversion.get("strategy") in (None, "", "None") and conversion.get("webhook") is not None:
        yield status.forbidden_field(
            "spec.conversion.webhookClientConfig", "should not be set when strategy is not set to Webhook"
        )
