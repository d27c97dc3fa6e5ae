"""Split YAML and JSON text into documents, each with its first line.

Positions of fields are not kept, because files are large and errors are rare: `positions` parses one document again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubewire.documents.parser import DEPTH_REMEDY, FILE_RULES, TOO_DEEP, DocumentError, Rules, parse_yaml


@dataclass(frozen=True, slots=True)
class Document:
    """One value of a file. `number` and `line` count from 1, `offset` is in bytes.

    `raw` is the JSON text of a value that is not decoded yet; `value` is then None. `item_lines` are the first lines of
    the items of a YAML list of objects.
    """

    value: Any
    number: int
    line: int
    offset: int = 0
    raw: bytes | None = None
    item_lines: tuple[int, ...] = ()


def yaml_documents(data: bytes, rules: Rules = FILE_RULES) -> Iterator[Document]:
    """Yield the non-empty documents of a YAML text; empty ones are counted in `number`."""
    for number, parsed in enumerate(parse_yaml(data, rules), start=1):
        if parsed is not None and parsed.value is not None:
            yield Document(value=parsed.value, number=number, line=parsed.line, item_lines=parsed.item_lines)


def yaml_document(data: bytes, rules: Rules = FILE_RULES) -> Document | None:
    """Return the only document of a YAML text; None if the text is empty. Raises DocumentError."""
    documents = list(yaml_documents(data, rules))
    if len(documents) > 1:
        raise DocumentError(
            "has more than one document",
            remedy="remove the line --- and what follows",
            line=documents[1].line,
        )
    return documents[0] if documents else None


class _ListEnvelope(msgspec.Struct):
    """A Kubernetes list with undecoded items."""

    kind: msgspec.Raw = msgspec.Raw()
    items: list[msgspec.Raw] | None = None


_envelopes = msgspec.json.Decoder(_ListEnvelope)
_arrays = msgspec.json.Decoder(list[msgspec.Raw])
_validator = msgspec.json.Decoder(msgspec.Raw)
_POSITION: Final = re.compile(r" ?\(byte (\d+)\)")


def json_documents(data: bytes) -> Iterator[Document]:
    """Yield the undecoded values of a JSON text: one value, the items of a list or array, or one value per line.

    Items stay undecoded, so that a list of 100,000 objects does not become dictionaries all at once.
    """
    try:
        _validator.decode(data)
    except msgspec.DecodeError as error:
        yield from _json_lines(data, error)
        return
    except RecursionError:
        raise DocumentError(
            TOO_DEEP.format(FILE_RULES.depth), remedy=DEPTH_REMEDY, line=1, notation="JSON"
        ) from None
    start = len(data) - len(data.lstrip())
    items = _items(data)
    if items is None:
        yield Document(
            value=None, number=1, line=data.count(b"\n", 0, start) + 1, offset=start, raw=data[start:]
        )
        return
    # Items are in order and unaltered, so a search from the last position finds each one.
    position, line = start, data.count(b"\n", 0, start) + 1
    for number, item in enumerate(items, start=1):
        text = bytes(item)
        offset = data.find(text, position)
        line += data.count(b"\n", position, offset)
        position = offset
        yield Document(value=None, number=number, line=line, offset=offset, raw=text)


def _items(data: bytes) -> list[msgspec.Raw] | None:
    """Return the items of an array or of an object whose kind ends in List, otherwise None."""
    if data.lstrip()[:1] == b"[":
        return _arrays.decode(data)
    try:
        envelope = _envelopes.decode(data)
    except msgspec.DecodeError:
        return None
    return envelope.items if bytes(envelope.kind).endswith(b'List"') else None


def _json_lines(data: bytes, why: msgspec.DecodeError) -> Iterator[Document]:
    offset = 0
    first = True
    for number, text in enumerate(data.splitlines(keepends=True), start=1):
        stripped = text.strip()
        if stripped:
            try:
                _validator.decode(stripped)
            except (msgspec.DecodeError, RecursionError) as error:
                # If the first line is not valid JSON, the text is not JSON lines: raise the first error.
                raise _json_error(data, why, 0) if first else _json_error(text, error, number - 1) from None
            indent = len(text) - len(text.lstrip())
            yield Document(value=None, number=number, line=number, offset=offset + indent, raw=stripped)
            first = False
        offset += len(text)


def _json_error(data: bytes, error: Exception, lines_before: int) -> DocumentError:
    if isinstance(error, RecursionError):
        message = TOO_DEEP.format(FILE_RULES.depth)
        return DocumentError(message, remedy=DEPTH_REMEDY, line=lines_before + 1, notation="JSON")
    text = str(error)
    match = _POSITION.search(text)
    position = int(match[1]) if match else len(data)
    reason = _POSITION.sub("", text).removeprefix("JSON is malformed: ")
    line = data.count(b"\n", 0, position) + 1
    column = position - (data.rfind(b"\n", 0, position) + 1) + 1
    return DocumentError(
        reason,
        remedy="check commas, quotes and brackets here",
        line=lines_before + line,
        column=column,
        notation="JSON",
    )


def value_of(document: Document) -> Any:
    """Return the value of a document, decoding its JSON text if necessary."""
    if document.raw is None:
        return document.value
    try:
        return msgspec.json.decode(document.raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _json_error(bytes(document.raw), error, document.line - 1) from None
