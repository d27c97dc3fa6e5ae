"""Content negotiation: the format that a client accepts, and responses in that format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import yaml

from kubehub import status
from kubehub.go_format import format_value
from kubehub.json_decoder import decode_object as _decode
from kubehub.printing import tables
from kubehub.resource import Document, Resource

PLAIN: Final = "plain"
TABLE: Final = "Table"
PARTIAL: Final = "PartialObjectMetadata"
PARTIAL_LIST: Final = "PartialObjectMetadataList"

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

INCLUDED: Final = ("Metadata", "Object", "None")
UNTABLED: Final = "Unable to convert to Table as requested: includeObject"
MUST_INCLUDE: Final = "must be 'Metadata', 'Object', 'None', or empty"

BATCH: Final = 64
"""Entries of a list that are encoded in one step."""

ACCEPTED: Final = f"{JSON}, {YAML}"
STREAMS: Final = f"only the following media types are accepted: {JSON};stream=watch, {PROTOBUF};stream=watch"

_MAX_PARTS: Final = 64
"""Parts of an Accept header, and of each of its media types; the rest is ignored."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Representation:
    kind: str = PLAIN
    yaml: bool = False
    include: str = "Metadata"


PLAIN_JSON: Final = Representation()


def negotiate(accept: str, query: Mapping[str, str], *, shaped: bool = True) -> Representation:
    """Return the first format in the Accept header that the hub supports. Raises a 406.

    ``shaped``: tables and partial metadata are allowed.
    """
    if not accept or accept in (JSON, "*/*"):
        return PLAIN_JSON
    include = query.get("includeObject") or "Metadata"
    for part in accept.split(",", _MAX_PARTS)[:_MAX_PARTS]:
        media, *rest = (piece.strip() for piece in part.split(";", _MAX_PARTS)[:_MAX_PARTS])
        parameters = dict(piece.partition("=")[::2] for piece in rest)
        if media == YAML or media == "text/yaml":
            encode = True
        elif media in (JSON, "*/*", "application/*"):
            encode = False
        else:
            continue
        kind = parameters.get("as")
        if kind is None:
            return Representation(PLAIN, encode) if encode else PLAIN_JSON
        if not shaped or parameters.get("g") != "meta.k8s.io" or parameters.get("v") != "v1":
            continue
        if kind == TABLE:
            if include not in INCLUDED:
                raise status.bad_request(
                    f"{UNTABLED}: Invalid value: {format_value(include)}: {MUST_INCLUDE}"
                )
            return Representation(TABLE, encode, include)
        if kind in (PARTIAL, PARTIAL_LIST):
            return Representation(PARTIAL, encode)
    raise status.not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {ACCEPTED}")


def for_refusal(accept: str) -> Representation:
    """Return the format of a refusal: always a whole object, even if the client doesn't accept the encoding."""
    try:
        return negotiate(accept, {}, shaped=False)
    except status.Refusal:
        return PLAIN_JSON


def prefix(resource: Resource, version: str) -> bytes:
    """Return the start of every stored object of that version; the rest of its bytes is the same in all versions."""
    api = f"{resource.group}/{version}" if resource.group else version
    return _encode({"apiVersion": api, "kind": resource.kind})[:-1] + b","


def storage_version(resource: Resource) -> str:
    return resource.storage_version or resource.version


def versioned(resource: Resource, raw: bytes) -> bytes:
    """Return a stored object in the version of ``resource``."""
    if resource.conversion is not None:
        return _encode(decode(resource, raw))
    wanted = prefix(resource, resource.version)
    if raw.startswith(wanted):
        return raw
    kept = prefix(resource, storage_version(resource))
    if raw.startswith(kept):
        return wanted + raw[len(kept) :]
    document = _decode(raw)  # stored under a storage version that is no longer served
    document["apiVersion"] = resource.api_version
    return _encode(document)


def list_item(resource: Resource, raw: bytes) -> bytes:
    """Return an item of a list: built-in kinds omit apiVersion and kind, custom resources keep them."""
    if resource.custom:
        return versioned(resource, raw)
    if resource.conversion is not None:
        raw = versioned(resource, raw)
    kept = prefix(resource, resource.version)
    return b"{" + raw[len(kept) :] if raw.startswith(kept) else raw


def decode(resource: Resource, raw: bytes) -> Document:
    document = _decode(raw)
    if resource.conversion is not None:
        document = resource.conversion.from_storage(document)
    document["apiVersion"] = resource.api_version
    return document


def now() -> datetime:
    return datetime.now(UTC)


def encode(document: Document, form: Representation) -> bytes:
    return _yaml(document) if form.yaml else _encode(document) + b"\n"


def _yaml(value: Document | list[Document]) -> bytes:
    """Encode as YAML; empty values give no bytes, so that the parts around a list can be empty."""
    text: str = yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=True)
    return text.encode() if value else b""


def encode_object(resource: Resource, raw: bytes, form: Representation) -> bytes:
    if form.kind == PLAIN:
        whole = versioned(resource, raw)
        return encode(_decode(whole), form) if form.yaml else whole + b"\n"
    document = decode(resource, raw)
    if form.kind == PARTIAL:
        return encode(tables.partial(document), form)
    metadata = {"resourceVersion": (document.get("metadata") or {}).get("resourceVersion", "")}
    return encode(
        tables.table(resource, [document], metadata=metadata, include=form.include, now=now()), form
    )


def encode_list(resource: Resource, raws: Sequence[bytes], metadata: Document, form: Representation) -> bytes:
    """Encode a list. ``metadata`` is the list's own."""
    return b"".join(encode_list_parts(resource, raws, metadata, form))


def encode_list_parts(
    resource: Resource, raws: Sequence[bytes], metadata: Document, form: Representation
) -> Iterator[bytes]:
    """Encode a list piece by piece, so that the caller can yield in between."""
    outline = _outline(resource, metadata, form)
    key = "rows" if form.kind == TABLE else "items"
    batches = (raws[start : start + BATCH] for start in range(0, len(raws), BATCH))
    if form.yaml:
        yield _yaml({name: value for name, value in outline.items() if name < key})
        yield f"{key}:\n".encode() if raws else f"{key}: []\n".encode()
        for batch in batches:
            for entry in _entries(resource, batch, form):
                yield _yaml([_decode(entry)])
        yield _yaml({name: value for name, value in outline.items() if name > key})
        return
    yield _encode(outline)[:-1] + f',"{key}":['.encode()
    separator = b""
    for batch in batches:
        yield separator + b",".join(_entries(resource, batch, form))
        separator = b","
    yield b"]}\n"


def _outline(resource: Resource, metadata: Document, form: Representation) -> Document:
    """Return a list without its items."""
    if form.kind == TABLE:
        table = tables.table(resource, (), metadata=metadata, include=form.include, now=now())
        return {name: value for name, value in table.items() if name != "rows"}
    if form.kind == PARTIAL:
        return {"kind": PARTIAL_LIST, "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    kind = resource.list_kind or f"{resource.kind}List"
    if resource.custom:
        metadata = {"continue": "", **metadata}  # lists of custom resources always have it
    return {"kind": kind, "apiVersion": resource.api_version, "metadata": metadata}


def _entries(resource: Resource, raws: Sequence[bytes], form: Representation) -> list[bytes]:
    if form.kind == PLAIN:
        return [list_item(resource, raw) for raw in raws]
    documents = [decode(resource, raw) for raw in raws]
    if form.kind == PARTIAL:
        return [_encode(tables.partial(document)) for document in documents]
    return [_encode(row) for row in tables.rows(resource, documents, include=form.include, now=now())]


def event(resource: Resource, type_: str, raw: bytes, form: Representation, *, headed: bool = False) -> bytes:
    """Encode one line of a watch."""
    if form.kind == PLAIN and not form.yaml:
        return b'{"type":"%s","object":%s}\n' % (type_.encode(), versioned(resource, raw))
    document = decode(resource, raw)
    if form.kind == PARTIAL:
        document = tables.partial(document)
    elif form.kind == TABLE:
        metadata = {"resourceVersion": (document.get("metadata") or {}).get("resourceVersion", "")}
        document = tables.table(
            resource, [document], metadata=metadata, include=form.include, now=now(), headed=headed
        )
    return _encode({"type": type_, "object": document}) + b"\n"


def bookmark(
    resource: Resource, revision: int, form: Representation, *, initial: bool, headed: bool = False
) -> bytes:
    """Encode a bookmark; ``initial``: it ends the initial events."""
    metadata: Document = {"resourceVersion": str(revision)}
    document: Document = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if initial:
        document["metadata"] = metadata | {"annotations": {"k8s.io/initial-events-end": "true"}}
    if form.kind == PARTIAL:
        document = tables.partial(document)
    elif form.kind == TABLE:
        document = tables.table(
            resource, [document], metadata=metadata, include=form.include, now=now(), headed=headed
        )
    return _encode({"type": "BOOKMARK", "object": document}) + b"\n"
