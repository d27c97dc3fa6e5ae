"""CRDs: defaults, validation, conditions, and the resources they define."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kubecel.libraries.urls import UrlError
from kubecel.libraries.urls import parse as parse_url
from kubehub import status
from kubehub.crd.parts import name_faults
from kubehub.crd.validation import schemas, spec_faults
from kubehub.resource import Column, Document, Resource, Scale, Subresource, version_priority
from kubehub.schema import OBJECT, STRING, Node, object_meta, parse
from kubehub.schemas.formats import recognized
from kubehub.status import Cause
from kubewire.api.selector import quote

APPROVED: Final = "api-approved.kubernetes.io"
PROPOSAL: Final = "https://github.com/kubernetes/enhancements/pull/1111"

NAME: Final = 'must be spec.names.plural+"."+spec.group'
IMMUTABLE: Final = "field is immutable"
NO_STORED_VERSION: Final = "must have at least one stored version"
MISSING_STORED_VERSION: Final = "must have the storage version {}"
STORED_VERSION_GONE: Final = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a "
    "storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)
NOT_APPROVED: Final = f'protected groups must have approval annotation "{APPROVED}", see {PROPOSAL}'
BAD_APPROVAL: Final = (
    f'protected groups must have approval annotation "{APPROVED}" with either a URL or a reason starting with '
    f'"unapproved", see {PROPOSAL}'
)
UNKNOWN_FORMAT: Final = "unrecognized format {}"
IN_USE: Final = "{} is already in use"

ESTABLISHED: Final = "Established"
NAMES_ACCEPTED: Final = "NamesAccepted"

_AGE: Final = Column(
    name="Age",
    type="date",
    description=(
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
        "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. "
        "It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. "
        "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
    ),
    path=".metadata.creationTimestamp",
)


def complete(document: Document) -> None:
    """Set defaults of a CRD, in place."""
    spec = document["spec"] = document.get("spec") or {}
    names = spec["names"] = spec.get("names") or {}
    kind = names.get("kind") or ""
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}


def store_version(document: Document) -> None:
    """Add the storage version to ``status.storedVersions``, in place."""
    storage = storage_version(document)
    state = _status(document)
    stored = state.get("storedVersions") or []
    state["storedVersions"] = stored if not storage or storage in stored else [*stored, storage]


def _status(document: Document) -> dict[str, Any]:
    state: dict[str, Any] = document.get("status") or {}
    document["status"] = state
    return state


def storage_version(document: Document) -> str:
    for version in (document.get("spec") or {}).get("versions") or ():
        if version.get("storage"):
            return str(version.get("name") or "")
    return ""


def check_definition(document: Document, old: Document | None = None) -> list[Cause]:
    """Return all faults of a defaulted CRD; of ``metadata`` only that its name matches its spec."""
    spec, state = document.get("spec") or {}, document.get("status") or {}
    names = spec.get("names") or {}
    causes: list[Cause] = []
    name = (document.get("metadata") or {}).get("name") or ""
    if old is None and name and name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
        causes.append(status.invalid_value("metadata.name", name, NAME))
    try:
        causes += spec_faults(spec)
    except RecursionError:
        raise status.bad_request("the schema nests too deeply") from None
    if old is not None:
        causes += _immutable(spec, old)
    causes += name_faults(state.get("acceptedNames") or {}, "status.acceptedNames")
    causes += _stored_versions(state.get("storedVersions") or [], spec.get("versions") or ())
    return [*causes, *_approval(document, old)]


def warnings(document: Document, old: Document | None = None) -> list[str]:
    """Return warnings about unknown formats, unless the old version has them."""
    before = {*_formats(old or {})}
    return [UNKNOWN_FORMAT.format(quote(name)) for name in _formats(document) if name not in before]


def _formats(document: Document) -> list[str]:
    return [
        schema["format"]
        for schema in schemas(document.get("spec") or {})
        if schema.get("format") and not recognized(schema.get("type") or "", schema["format"])
    ]


def _immutable(spec: Mapping[str, Any], old: Document) -> Iterator[Cause]:
    before = old.get("spec") or {}
    fixed = [("group", ()), ("plural", ("names",))]
    if _condition(old, ESTABLISHED).get("status") == "True":
        fixed = [("scope", ()), ("kind", ("names",)), *fixed]
    for key, within in fixed:
        new, earlier = spec, before
        for step in within:
            new, earlier = new.get(step) or {}, earlier.get(step) or {}
        if new.get(key) != earlier.get(key):
            yield status.invalid_value(".".join(("spec", *within, key)), new.get(key) or "", IMMUTABLE)


def _stored_versions(stored: list[str], versions: Iterable[Mapping[str, Any]]) -> Iterator[Cause]:
    path = "status.storedVersions"
    if not stored:
        yield status.invalid_value(path, None, NO_STORED_VERSION)
        return
    left = {name: index for index, name in enumerate(stored)}
    for version in versions:
        name = version.get("name") or ""
        if version.get("storage") and name not in left:
            yield status.invalid_value(path, stored, MISSING_STORED_VERSION.format(name))
        left.pop(name, None)
    for name, index in left.items():
        yield status.invalid_value(f"{path}[{index}]", name, STORED_VERSION_GONE.format(name))


def _approval(document: Document, old: Document | None) -> Iterator[Cause]:
    """Groups of the Kubernetes community need an approval annotation."""
    group = (document.get("spec") or {}).get("group") or ""
    if not any(group == domain or group.endswith(f".{domain}") for domain in ("k8s.io", "kubernetes.io")):
        return
    state = _approval_state(document)
    path = f"metadata.annotations[{APPROVED}]"
    if old is not None and _approval_state(old) == state:
        return
    if state == "missing":
        yield status.required(path, NOT_APPROVED)
    elif state == "invalid":
        yield status.invalid_value(path, _annotation(document), BAD_APPROVAL)


def _annotation(document: Document) -> str:
    return str(((document.get("metadata") or {}).get("annotations") or {}).get(APPROVED) or "")


def _approval_state(document: Document) -> str:
    text = _annotation(document)
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "bypassed"
    try:
        url = parse_url(text, request=True)
    except UrlError:
        return "invalid"
    return "approved" if url.host and url.scheme else "invalid"


# --- establishing ------------------------------------------------------------------------------------------------


def establish(document: Document, served: Iterable[Resource], *, now: str) -> bool:
    """Accept the names that no other served resource of the group has and set the conditions; the resource is
    served only if all are accepted. In place; returns whether ``status`` changed.

    ``now`` is RFC 3339. The CRD's own resources may be among the served ones.
    """
    state = _status(document)
    wanted = document["spec"]["names"]
    accepted = state.get("acceptedNames") or {}
    store_version(document)
    if accepted == wanted and _condition(document, ESTABLISHED):
        return False
    resources, kinds = _used_names(document, served)
    accepted, conflict = _accept_names(wanted, accepted, resources, kinds)
    state["acceptedNames"] = accepted
    reason, message = conflict or ("NoConflicts", "no conflicts found")
    _set_condition(document, NAMES_ACCEPTED, "False" if conflict else "True", reason, message, now=now)
    if not conflict and _condition(document, ESTABLISHED).get("status") != "True":
        words = "the initial names have been accepted"
        _set_condition(document, ESTABLISHED, "True", "InitialNamesAccepted", words, now=now)
    elif not _condition(document, ESTABLISHED):
        _set_condition(document, ESTABLISHED, "False", "NotAccepted", "not all names are accepted", now=now)
    return True


def is_established(document: Document) -> bool:
    return bool(_condition(document, ESTABLISHED).get("status") == "True")


def _used_names(document: Document, served: Iterable[Resource]) -> tuple[set[str], set[str]]:
    spec = document["spec"]
    group, plural = spec.get("group"), spec["names"].get("plural")
    resources: set[str] = set()
    kinds: set[str] = set()
    for resource in served:
        if resource.group == group and resource.plural != plural:
            resources |= {resource.plural, resource.singular, *resource.short_names}
            kinds |= {resource.kind, resource.list_kind}
    return resources - {""}, kinds - {""}


def _accept_names(
    wanted: Mapping[str, Any], accepted: Mapping[str, Any], resources: set[str], kinds: set[str]
) -> tuple[dict[str, Any], tuple[str, str] | None]:
    """Return the accepted names, and the last conflict if there is one."""
    names = dict(accepted)
    conflict: tuple[str, str] | None = None
    for key, taken in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
        text = wanted.get(key) or ""
        if text != accepted.get(key, "") and text in taken:
            conflict = (f"{key[0].upper()}{key[1:]}Conflict", IN_USE.format(quote(text)))
        elif text:
            names[key] = text
        if key == "singular":
            held = accepted.get("shortNames") or ()
            lost = [text for text in wanted.get("shortNames") or () if text not in held and text in resources]
            if lost:
                texts = [IN_USE.format(quote(text)) for text in lost]
                conflict = ("ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
            elif wanted.get("shortNames"):
                names["shortNames"] = list(wanted["shortNames"])
            else:
                names.pop("shortNames", None)
    names.pop("categories", None)
    if wanted.get("categories"):
        names["categories"] = list(wanted["categories"])
    return names, conflict


def _condition(document: Document, kind: str) -> dict[str, Any]:
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            matching: dict[str, Any] = condition
            return matching
    return {}


def _set_condition(document: Document, kind: str, value: str, reason: str, message: str, *, now: str) -> None:
    condition = _condition(document, kind)
    if not condition:
        condition = {"lastTransitionTime": now, "message": "", "reason": "", "status": value, "type": kind}
        state = _status(document)
        state["conditions"] = [*(state.get("conditions") or ()), condition]
    if condition["status"] != value:
        condition["lastTransitionTime"] = now
    condition |= {"message": message, "reason": reason, "status": value}


# --- serving -----------------------------------------------------------------------------------------------------


def resources_of(document: Document) -> tuple[Resource, ...]:
    """Return a resource for every served version of an established CRD."""
    spec = document["spec"]
    names = (document.get("status") or {}).get("acceptedNames") or spec["names"]
    return tuple(
        _resource(spec, names, version, document) for version in spec["versions"] if version.get("served")
    )


def _resource(
    spec: Mapping[str, Any], names: Mapping[str, Any], version: Mapping[str, Any], document: Document
) -> Resource:
    parts = version.get("subresources") or {}
    subresources: dict[str, Subresource] = {}
    if parts.get("status") is not None:
        subresources["status"] = Subresource(name="status", verbs=("get", "patch", "update"))
    scale = None
    if parts.get("scale") is not None:
        subresources["scale"] = Subresource(
            name="scale", verbs=("get", "patch", "update"), kind="Scale", group="autoscaling", version="v1"
        )
        scale = Scale(
            spec_path=parts["scale"]["specReplicasPath"],
            status_path=parts["scale"]["statusReplicasPath"],
            selector_path=parts["scale"].get("labelSelectorPath") or "",
        )
    return Resource(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        namespaced=spec.get("scope") == "Namespaced",
        node=root_node((version.get("schema") or {}).get("openAPIV3Schema") or {}),
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        storage_version=storage_version(document),
        subresources=subresources,
        scale=scale,
        columns=_columns(version),
        custom=True,
        deprecation=_deprecation(spec, version),
        selectable=tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()),
    )


def root_node(schema: Mapping[str, Any]) -> Node:
    """Return the schema of a custom resource with the fields that every object has."""
    node = parse(schema)
    meta = object_meta()
    written = node.properties.get("metadata")
    if written is not None and written.properties:
        # Only names can be restricted.
        meta = replace(meta, properties=meta.properties | written.properties)
    if not node.type and not node.preserve_unknown:
        node.type = OBJECT
    # Fields that every object has need not be required.
    node.required = tuple(name for name in node.required if name not in ("apiVersion", "kind", "metadata"))
    node.properties |= {
        "apiVersion": node.properties.get("apiVersion") or Node(type=STRING),
        "kind": node.properties.get("kind") or Node(type=STRING),
        "metadata": meta,
    }
    return node


def _columns(version: Mapping[str, Any]) -> tuple[Column, ...]:
    given = version.get("additionalPrinterColumns")
    if not given:
        return (_AGE,)
    return tuple(
        Column(
            name=column["name"],
            type=column["type"],
            format=column.get("format") or "",
            description=column.get("description")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
            priority=int(column.get("priority") or 0),
            path=column["jsonPath"],
        )
        for column in given
    )


def _deprecation(spec: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """Return the warning for clients of a deprecated version."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind = spec["group"], spec["names"]["kind"]
    message = f"{group}/{version['name']} {kind} is deprecated"
    better = [
        other["name"]
        for other in spec["versions"]
        if other.get("served")
        and not other.get("deprecated")
        and version_priority(other["name"]) > version_priority(version["name"])
    ]
    return f"{message}; use {group}/{max(better, key=version_priority)} {kind}" if better else message
